#pragma once
// Template text to tokens. Whitespace control is done here: what a text token holds is output as
// is.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hf2q::jinja {

enum class TokenKind {
  kText,
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,   // text: without quotes and escapes
  kInteger,  // integer
  kFloat,    // number
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
  int64_t integer = 0;
  double number = 0;
};

// The last token is kEnd. Fails with kCorrupt, naming the line.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace hf2q::jinja
