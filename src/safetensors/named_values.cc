#include "safetensors/named_values.h"

namespace hf2q {

std::vector<SourceTensor> views_of(std::span<const NamedValues> tensors) {
  std::vector<SourceTensor> views;
  views.reserve(tensors.size());
  for (const NamedValues& tensor : tensors) {
    views.push_back(
        {tensor.name, Dtype::kF32, tensor.shape, std::as_bytes(std::span(tensor.values))});
  }
  return views;
}

Status write_values(const std::string& path, std::span<const NamedValues> tensors) {
  return write_safetensors(path, views_of(tensors));
}

}  // namespace hf2q
