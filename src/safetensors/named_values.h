#pragma once
// F32 tensors that were computed here, on their way into a file.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "safetensors/safetensors.h"

namespace hf2q {

struct NamedValues {
  std::string name;
  std::vector<uint64_t> shape;  // slowest first
  std::vector<float> values;
};

// For a file that has other tensors too; they point into `tensors`.
std::vector<SourceTensor> views_of(std::span<const NamedValues> tensors);
// As write_safetensors().
Status write_values(const std::string& path, std::span<const NamedValues> tensors);

}  // namespace hf2q
