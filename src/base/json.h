#pragma once
// JSON from files that nobody vouches for, through simdjson and without exceptions.

#include <simdjson.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace hf2q {

// Parses `text`: one JSON value in UTF-8 without a byte order mark, no key twice in one object,
// arrays and objects nested at most 31 deep (32 if the innermost is empty). Integers from -2^63 to
// 2^64 - 1 stay exact, larger ones are refused. The value lives until `parser` parses again or
// ends; `text` is copied. Fails with kCorrupt; the message begins with `name`, which stands for the
// text.
Result<simdjson::dom::element> parse_json(simdjson::dom::parser& parser, std::string_view text,
                                          const std::string& name);

// What a message calls a value that is not of the expected kind: `"text"`, -1, 1000.0, true, null,
// `an array`, `an object`.
std::string describe(simdjson::dom::element value);

}  // namespace hf2q
