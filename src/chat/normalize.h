#pragma once
// Conversations and tools in OpenAI's form, checked and brought to the form templates expect.

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace hf2q {

// JSON of clients may be nested no deeper than this where a template is to see it.
constexpr int kMaxJsonNesting = 150;
// kInvalidArgument, naming `place`, for JSON that is. Needs no stack, unlike a copy of the JSON.
Status check_nesting(std::string_view place, const nlohmann::ordered_json& json);

// Checks roles and contents, and parses arguments of tool calls that are JSON text. Errors name the
// place: "messages[1].content: ...".
Result<nlohmann::ordered_json> normalized_messages(const nlohmann::ordered_json& messages);

// Null for null or an empty list. Each tool keeps its form; its schemas get a single type, see
// ChatTemplate::render.
Result<nlohmann::ordered_json> normalized_tools(const nlohmann::ordered_json& tools);

}  // namespace hf2q
