#include "safetensors/named_values.h"

#include "safetensors/safetensors.h"

namespace hf2q {

Status write_values(const std::string& path, std::span<const NamedValues> tensors) {
  std::vector<SourceTensor> views;
  views.reserve(tensors.size());
  for (const NamedValues& tensor : tensors) {
    views.push_back(
        {tensor.name, Dtype::kF32, tensor.shape, std::as_bytes(std::span(tensor.values))});
  }
  return write_safetensors(path, views);
}

}  // namespace hf2q
