#pragma once
// The body of a tool call as Gemma 4 writes it, to JSON.
//
//   call  := "call:" name "{" [pair {"," pair}] "}"
//   pair  := key ":" value            key: bare, or a string
//   value := string | "{" pairs "}" | "[" values "]" | bare
//   string: between two quote markers, where everything else is literal; or JSON's, in plain quotes
//   bare: up to the next of , } ]     true, false, null (or None), a JSON number, else a string
//
// White space around tokens is skipped. Numbers keep their spelling.

#include <optional>
#include <string>
#include <string_view>

namespace hf2q {

// Stands for the quote marker (a single token) in a body: a byte that UTF-8 never holds.
constexpr char kQuoteMark = '\xFF';

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object, without white space between tokens
};

// nullopt for a body that does not follow the grammar to its end, or nests deeper than 100.
std::optional<ToolCall> parse_tool_call(std::string_view body);

}  // namespace hf2q
