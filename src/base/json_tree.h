#pragma once
// Small JSON files that nobody vouches for, as a tree that owns its values. For large ones, of
// which few values are wanted: json.h.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hf2q {

// A tree is copied and printed recursively, and takes up to ten times the memory of its text.
inline constexpr size_t kMaxJsonTreeDepth = 100;
inline constexpr size_t kMaxJsonTreeBytes = size_t{16} << 20;

// `text` as one JSON object in UTF-8; of a key that appears twice the last value counts. kCorrupt
// for anything else, for more than kMaxJsonTreeBytes, and for arrays and objects nested deeper than
// kMaxJsonTreeDepth; the message begins with `name`, which stands for the text.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& name);

// What parse_json_object refuses before it reads: kCorrupt for more than kMaxJsonTreeBytes, or
// deeper than kMaxJsonTreeDepth.
Status check_json_size(std::string_view text, const std::string& name);

// What a message calls a value that is not the expected one: `"text"` (see quote.h), -1, true,
// null, `an array`, `an object`.
std::string describe(const nlohmann::json& value);
std::string describe(const nlohmann::ordered_json& value);

}  // namespace hf2q
