#include "safetensors/limits.h"

#include "base/quote.h"

namespace hf2q {

Status check_tensor_name(std::string_view name, const std::string& file, ErrorCode code) {
  if (name.empty()) return error(code, "{}: a tensor has an empty name", file);
  if (name.size() > kSafetensorsMaxNameBytes) {
    return error(code, "{}: tensor {}: a name of at most {} bytes expected, found {}", file,
                 quote(name), kSafetensorsMaxNameBytes, name.size());
  }
  if (name.find('\0') != std::string_view::npos) {
    return error(code, "{}: tensor {}: NUL in the name", file, quote(name));
  }
  return Ok{};
}

}  // namespace hf2q
