#pragma once
// Tensors in a Gemma 4 file that the text decoder has no use for.

#include <string>
#include <vector>

#include "gguf/reader.h"
#include "model/config.h"

namespace hf2q {

// Names of the file's tensors that no part of the decoder goes by (towers for images and audio,
// layers beyond config.n_layers, other programs' additions), in file order. K and V of layers that
// share another layer's cache are not among them: they belong to the model, if unused.
std::vector<std::string> ignored_tensors(const GgufFile& file, const Config& config);

// "ignored: NAME, NAME, ...", at most ten of them by name; `names` is not empty.
std::string ignored_line(const std::vector<std::string>& names);

}  // namespace hf2q
