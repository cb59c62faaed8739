#pragma once
// What the commands share that measure a model on a text.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "commands.h"
#include "engine/divergence.h"
#include "model_flags.h"
#include "tokenizer/tokenizer.h"

namespace hf2q::app {

// The text: exactly one of the two.
struct TextFlags {
  std::string file;
  std::string tokens_file;
};

void add_text_flags(Command& command, TextFlags& flags, const ModelFlags& model);
// A text is read with BOS before it and without special tokens; ids are taken as they are.
Result<std::vector<int32_t>> read_text_ids(const TextFlags& flags, const Tokenizer& tokenizer);

// Rows of one batch when two models are compared: the logits of all rows of both are in memory.
inline constexpr uint32_t kComparedRows = 128;

void print_divergence(const Divergence& divergence);
nlohmann::ordered_json to_json(const Divergence& divergence);

}  // namespace hf2q::app
