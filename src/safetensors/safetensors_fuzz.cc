// Any bytes, as a safetensors file and as the index of a checkpoint: an error or a result whose
// parts lie inside the bytes.

#include <string>
#include <string_view>

#include "base/check.h"
#include "safetensors/safetensors.h"
#include "safetensors/weight_map.h"

namespace {

// The tensors of a file that is accepted tile its end without a gap.
void check_file(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  const auto file = hf2q::SafetensorsFile::parse(bytes, "file");
  if (!file.ok()) return;
  const std::byte* next = bytes.data() + bytes.size();
  const auto tensors = file.value().tensors();
  for (size_t i = tensors.size(); i-- > 0;) {
    next -= tensors[i].data.size();
    CHECK(tensors[i].data.data() == next && next >= bytes.data());
    CHECK(tensors[i].n_elements() * hf2q::bits_of(tensors[i].dtype) == tensors[i].data.size() * 8);
    CHECK(file.value().find(tensors[i].name) == &tensors[i]);
  }
}

// `text` as header and data: the length in front is made to fit, so that most inputs get past it.
std::string with_length(std::string_view text) {
  const uint64_t length = text.find_last_of('}') + 1;
  return std::string(reinterpret_cast<const char*>(&length), sizeof length).append(text);
}

void check_weight_map(std::string_view text) {
  const auto map = hf2q::parse_weight_map(text, "index");
  if (!map.ok()) return;
  for (const auto& [name, part] : map.value()) {
    CHECK(part.find('/') == std::string::npos && part != "." && part != "..");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_file(text);
  check_file(with_length(text));
  check_weight_map(text);
  return 0;
}
