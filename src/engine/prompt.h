#pragma once
// A conversation to the token ids that a model reads.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/template.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace hf2q {

// What our own template takes a model for.
Gemma4Size gemma4_size_of(const Engine& engine);

// The template of the model's file; ours for Gemma 4 where the file has none.
Result<ChatTemplate> chat_template_of(const Engine& engine);

// A text whose markers count, behind exactly one BOS.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text);

// Renders and encodes. Markers of the template become their tokens, the same markers inside of
// messages and tools stay text: nobody's words can end a turn or forge a call. The first id is the
// BOS of the vocabulary. Errors as ChatTemplate::render.
Result<std::vector<int32_t>> chat_prompt(const Tokenizer& tokenizer, const ChatTemplate& jinja,
                                         const nlohmann::ordered_json& messages,
                                         const nlohmann::ordered_json& tools,
                                         const ChatOptions& options);

}  // namespace hf2q
