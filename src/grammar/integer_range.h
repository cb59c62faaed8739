#pragma once
// Decimal integers within bounds, as rules.

#include <cstdint>

#include "grammar/rule_builder.h"

namespace hf2q {

inline constexpr int64_t kMaxRangeInteger = 999'999'999'999'999'999;  // 18 digits

// The integers min <= i <= max in decimal, without leading zeros and "-0". Both bounds lie within
// +-kMaxRangeInteger, and min <= max.
RuleBuilder::Fragment integer_range(RuleBuilder& builder, int64_t min, int64_t max);

}  // namespace hf2q
