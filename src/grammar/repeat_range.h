#pragma once
// Parts that GBNF and the patterns of JSON schemas spell alike.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace hf2q {

struct RepeatRange {
  uint32_t min;
  uint32_t max;  // RuleBuilder::kUnbounded for none
};

// The range at text[at] (* + ? {n} {n,} {m,n}), nothing when none stands there; `at` goes behind
// it. kInvalidArgument, beginning with `what`, for braces that hold no range or one that descends,
// and numbers above RuleBuilder::kMaxRepeats.
Result<std::optional<RepeatRange>> parse_repeat_range(std::string_view text, size_t& at,
                                                      std::string_view what);

// The scalar value that n_digits hexadecimal digits at text[at] stand for; `at` goes behind them.
Result<uint32_t> take_hex(std::string_view text, size_t& at, size_t n_digits,
                          std::string_view what);

}  // namespace hf2q
