#include "grammar/integer_range.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"

namespace hf2q {
namespace {

using Fragment = RuleBuilder::Fragment;

Fragment digit_between(RuleBuilder& builder, char first, char last) {
  return builder.character({{static_cast<uint8_t>(first), static_cast<uint8_t>(last)}});
}

Fragment any_digits(RuleBuilder& builder, size_t n) {
  const auto count = static_cast<uint32_t>(n);
  return builder.repeat(digit_between(builder, '0', '9'), count, count);
}

// Digit strings from low to high, both of the same length.
Fragment digits_between(RuleBuilder& builder, std::string_view low, std::string_view high) {
  const size_t n = low.size();
  if (low == std::string(n, '0') && high == std::string(n, '9')) return any_digits(builder, n);
  const std::string_view low_rest = low.substr(1);
  const std::string_view high_rest = high.substr(1);
  const Fragment first = builder.bytes(low.substr(0, 1));
  if (low[0] == high[0]) {
    return builder.sequence(first, digits_between(builder, low_rest, high_rest));
  }
  const std::string nines(n - 1, '9');
  const std::string zeros(n - 1, '0');
  Fragment result =
      builder.either(builder.sequence(first, digits_between(builder, low_rest, nines)),
                     builder.sequence(builder.bytes(high.substr(0, 1)),
                                      digits_between(builder, zeros, high_rest)));
  if (low[0] + 1 < high[0]) {
    const Fragment between = builder.sequence(
        digit_between(builder, static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
        any_digits(builder, n - 1));
    result = builder.either(result, between);
  }
  return result;
}

// 0 <= min <= max.
Fragment natural_range(RuleBuilder& builder, int64_t min, int64_t max) {
  Fragment result = builder.nothing();
  int64_t first = min;
  for (size_t n = 1; first <= max; ++n) {
    const int64_t last_of_length = std::stoll(std::string(n, '9'));
    if (first > last_of_length) continue;
    const int64_t last = std::min(max, last_of_length);
    result = builder.either(result,
                            digits_between(builder, std::to_string(first), std::to_string(last)));
    first = last + 1;
  }
  return result;
}

}  // namespace

Fragment integer_range(RuleBuilder& builder, int64_t min, int64_t max) {
  CHECK(-kMaxRangeInteger <= min && min <= max && max <= kMaxRangeInteger);
  Fragment result = builder.nothing();
  if (max >= 0) {
    result = builder.either(result, natural_range(builder, std::max(min, int64_t{0}), max));
  }
  if (min < 0) {
    const Fragment size = natural_range(builder, std::max(-max, int64_t{1}), -min);
    result = builder.either(result, builder.sequence(builder.bytes("-"), size));
  }
  return result;
}

}  // namespace hf2q
