#pragma once
// Which tensors of a checkpoint become which tensors of a GGUF file.
//
// Names: the text decoder's, below any of the prefixes in use (`model.language_model.`, `model.`,
// `language_model.model.`, ...). Shapes are reversed in the header, bytes are not moved. Vision and
// audio tensors are skipped; so is a
// tied output head that is stored as well, which has to equal the embedding. Experts may be stacked
// in one tensor or come one by one. Source: the tensor tables of the Gemma 4 checkpoints and of the
// GGUF architecture `gemma4`.

#include <string>
#include <vector>

#include "base/result.h"
#include "convert/output_tensor.h"
#include "model/config.h"
#include "safetensors/safetensors.h"

namespace hf2q {

struct CheckpointMap {
  std::vector<OutputTensor> tensors;  // types are those of the source; the policy decides later
  std::vector<std::string> skipped;   // tensors of other towers, and the copy of a tied head
};

// `n_tokens` is the tokenizer's size: embedding rows beyond it are padding and left out. An error
// names the missing, unknown and misshapen tensors together, at most 20 of them. Views point into
// `checkpoint`.
Result<CheckpointMap> map_checkpoint(const Checkpoint& checkpoint, const Config& config,
                                     uint64_t n_tokens);

// The factors of the full layers' rotary frequencies: 1 (or the checkpoint's factor) for the pairs
// that rotate, 1e30 for the others.
std::vector<float> rope_factors(const Config& config);

}  // namespace hf2q
