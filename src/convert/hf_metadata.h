#pragma once
// Everything beside the weights that a checkpoint folder says, and the GGUF metadata made of it.

#include <string>

#include "base/result.h"
#include "convert/hf_config.h"
#include "gguf/writer.h"
#include "model/config.h"
#include "tokenizer/vocabulary.h"

namespace hf2q {

struct HfMetadata {
  Config config;
  GenerationConfig generation;
  Vocabulary vocabulary;  // with stop ids, suppressed ids and chat template filled in
  std::string name;       // for people: "Tiny Gemma4" from the folder's or the config's name
};

// Reads config.json and tokenizer.json (required), generation_config.json, tokenizer_config.json
// and chat_template.jinja (optional), none but tokenizer.json above kMaxJsonTreeBytes. A template
// in chat_template.jinja wins over tokenizer_config.json. What the commands that load the result
// would refuse is refused here, naming the file: a vocabulary that no tokenizer can be made of, a
// template that does not parse, settings that the sampler does not take. Ids at which generation
// stops: generation_config.json, else config.json, else the tokenizer's own.
Result<HfMetadata> read_hf_metadata(const std::string& folder);

// What people call the model in this folder: the folder's own name, or NAME for the snapshot
// models--ORG--NAME/snapshots/REVISION of a download cache.
std::string model_folder_name(const std::string& folder);

// general.*, gemma4.* and tokenizer.* in the customary order.
void write_metadata(const HfMetadata& source, GgufMetadata& metadata);

}  // namespace hf2q
