#pragma once
// The regular expressions of a schema's `pattern` (the part of ECMA-262 that describes regular
// languages) to rules for a string's characters.
//
// Supported: characters, . (any but line breaks), classes with ranges and negation, escapes
// \d \D \w \W \s \S \t \n \r \f \v \0 \xHH \uHHHH and those of punctuation, groups ( ) and (?: ),
// alternatives, * + ? {n} {n,} {m,n} (also lazy: it is the same language), ^ and $ at the ends of
// an alternative that is not inside of a group. Without ^ or $ any text may come before or behind.
// Refused by name: other anchors, \b, back references, look around, named groups, \p.

#include <string>
#include <string_view>

#include "base/result.h"
#include "grammar/rule_builder.h"
#include "grammar/value_text.h"

namespace hf2q {

inline constexpr size_t kMaxPatternBytes = 16384;
inline constexpr int kMaxPatternDepth = 100;  // groups inside of groups

// What stands between the quotes. kInvalidArgument for what is no pattern, kUnsupported for what is
// not supported; messages begin with `what`.
Result<RuleBuilder::Fragment> add_pattern(ValueText& text, std::string_view pattern,
                                          const std::string& what);

}  // namespace hf2q
