#pragma once
// F32 tensors that were computed here, on their way into a file.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace hf2q {

struct NamedValues {
  std::string name;
  std::vector<uint64_t> shape;  // slowest first
  std::vector<float> values;
};

// As write_safetensors().
Status write_values(const std::string& path, std::span<const NamedValues> tensors);

}  // namespace hf2q
