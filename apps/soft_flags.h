#pragma once
// --soft FILE.safetensors[:TENSOR]@POS[:block]: rows of a tensor in place of the embeddings of the
// prompt's tokens from POS on. TENSOR may be left out where the file has one; with :block the rows
// see each other as an image does, else they are causal.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generate.h"
#include "flags.h"
#include "model/config.h"

namespace hf2q::app {

void add_soft_flag(Command& command, std::vector<std::string>& values);

// Reads every flag's rows. kInvalidArgument for a flag of another form; what SafetensorsFile::open
// and widen() say of the file; kNotFound or kCorrupt naming the tensor, the expected and the found
// shape. Ranges are checked against the prompt by read_prompt().
Result<std::vector<SoftRows>> read_soft_rows(std::span<const std::string> flags,
                                             const Config& config);

}  // namespace hf2q::app
