#pragma once
// Rules from text in GBNF, the form that llama.cpp's users write:
//
//   rule     := name "::=" choices          the text's rule is `root`; names: letters, digits - _
//   choices  := sequence {"|" sequence}     a sequence may be empty
//   sequence := {item [repeat]}
//   item     := "literal" | [class] | [^class] | . | name | ( choices )
//   repeat   := * | + | ? | {n} | {n,} | {m,n}
//   class    := characters and ranges a-z; `-` stands for itself at the end
//
// Characters are Unicode; escapes in literals and classes: \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH
// \UHHHHHHHH. A rule ends with its line, but for lines inside of parentheses, behind "::=" and "|",
// and before a line that begins with "|". # begins a comment.

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "grammar/rule_builder.h"

namespace hf2q {

inline constexpr size_t kMaxGbnfBytes = size_t{1} << 20;
inline constexpr int kMaxGroupDepth = 200;  // groups inside of groups

// Adds the rules and returns the number of `root`. kInvalidArgument naming line, expected and
// found; a rule that is missing or defined twice; repeats above RuleBuilder::kMaxRepeats; groups
// nested deeper than kMaxGroupDepth; more than kMaxGbnfBytes.
Result<uint32_t> add_gbnf(RuleBuilder& builder, std::string_view text);

}  // namespace hf2q
