#pragma once
// A grammar that forces a tool call in Gemma 4's syntax (chat/tool_call.h), for `tool_choice`
// required or a named function:
//
//   <|tool_call> "call:" name arguments <tool_call|>
//
// The arguments follow the function's `parameters` (json_schema.h, in the spelling of tool calls:
// value_text.h); a function without them takes any object.

#include <nlohmann/json.hpp>
#include <string_view>

#include "grammar/grammar.h"

namespace hf2q {

struct ForcedCall {
  std::string_view name;       // the function to call; empty: any
  bool several_calls = false;  // further calls may follow the first one
};

// `tools` as OpenAI clients send them: [{"type": "function", "function": {"name", "parameters"}}].
// kInvalidArgument naming the place for what is no such array, no function of that name, or none at
// all; kUnsupported when the vocabulary lacks a marker; errors of json_schema.h that begin with
// "tools[i].function.parameters".
Result<Grammar::Shared> tool_call_grammar(const nlohmann::ordered_json& tools,
                                          const ForcedCall& choice, Grammar::Vocabulary vocabulary,
                                          const GrammarOptions& options = {});

}  // namespace hf2q
