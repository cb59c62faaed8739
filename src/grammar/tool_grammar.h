#pragma once
// A grammar that forces a tool call in Gemma 4's syntax (chat/tool_call.h), for `tool_choice`
// required or a named function; or a call or else an answer of a given form:
//
//   <|tool_call> "call:" name arguments <tool_call|>
//
// The arguments follow the function's `parameters` (json_schema.h, in the spelling of tool calls:
// value_text.h); a function without them takes any object.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/grammar.h"

namespace hf2q {

struct CallChoice {
  std::string_view name{};     // the function to call; empty: any
  bool several_calls = false;  // further calls may follow the first one
  // What may be answered instead: JSON after a schema, or GBNF. Neither: nothing.
  std::optional<nlohmann::ordered_json> or_schema{};
  std::string or_gbnf{};
};

// `tools` as OpenAI clients send them: [{"type": "function", "function": {"name", "parameters"}}].
// kInvalidArgument naming the place for what is no such array, no function of that name, or none at
// all; kUnsupported when the vocabulary lacks a marker; errors of json_schema.h that begin with
// "tools[i].function.parameters", or for what may be said instead with "schema" or "grammar".
Result<Grammar::Shared> tool_call_grammar(const nlohmann::ordered_json& tools,
                                          const CallChoice& choice, Grammar::Vocabulary vocabulary,
                                          const GrammarOptions& options = {});

}  // namespace hf2q
