#pragma once
// The weight_map of a model.safetensors.index.json.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hf2q {

// Tensor name and the file name of the part that holds it, in the order of the text. Tensor names
// differ; part names are plain file names: not empty, no '/', '\\', ':', "..", or NUL.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

// Everything beside weight_map is ignored (metadata.total_size is informational). `name` stands for
// the text in errors. A map without entries is refused.
Result<WeightMap> parse_weight_map(std::string_view text, const std::string& name);

}  // namespace hf2q
