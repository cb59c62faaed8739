#include "grammar/repeat_range.h"

#include <charconv>

#include "base/quote.h"
#include "grammar/rule_builder.h"

namespace hf2q {
namespace {

// Digits at text[at], none: nothing. Numbers that do not fit are as large as can be.
std::optional<uint32_t> take_number(std::string_view text, size_t& at) {
  uint32_t value = 0;
  const auto [end, status] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  const auto n = static_cast<size_t>(end - (text.data() + at));
  if (n == 0) return std::nullopt;
  at += n;
  return status == std::errc() ? value : UINT32_MAX;
}

}  // namespace

Result<std::optional<RepeatRange>> parse_repeat_range(std::string_view text, size_t& at,
                                                      std::string_view what) {
  using Range = std::optional<RepeatRange>;
  constexpr uint32_t kUnbounded = RuleBuilder::kUnbounded;
  if (at == text.size()) return Range();
  switch (text[at]) {
    case '*':
      ++at;
      return Range({0, kUnbounded});
    case '+':
      ++at;
      return Range({1, kUnbounded});
    case '?':
      ++at;
      return Range({0, 1});
    case '{':
      break;
    default:
      return Range();
  }
  const size_t begin = at++;
  const std::optional<uint32_t> min = take_number(text, at);
  std::optional<uint32_t> max = min;
  if (min && at < text.size() && text[at] == ',') {
    ++at;
    max = take_number(text, at);
  }
  if (!min || at == text.size() || text[at] != '}') {
    return error(ErrorCode::kInvalidArgument,
                 "{}: a repeat {{n}}, {{n,}} or {{m,n}} expected, found {}", what,
                 quote(text.substr(begin, 20)));
  }
  ++at;
  const std::string found(text.substr(begin, at - begin));
  if (*min > RuleBuilder::kMaxRepeats || (max && *max > RuleBuilder::kMaxRepeats)) {
    return error(ErrorCode::kInvalidArgument, "{}: repeats of at most {} expected, found {}", what,
                 RuleBuilder::kMaxRepeats, found);
  }
  if (max && *max < *min) {
    return error(ErrorCode::kInvalidArgument, "{}: a repeat that ascends expected, found {}", what,
                 found);
  }
  return Range({*min, max.value_or(kUnbounded)});
}

Result<uint32_t> take_hex(std::string_view text, size_t& at, size_t n_digits,
                          std::string_view what) {
  const std::string_view digits = text.substr(at, n_digits);
  uint32_t value = 0;
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  const bool whole = digits.size() == n_digits && end == digits.data() + n_digits;
  if (!whole || status != std::errc() || value > kMaxCodePoint ||
      (value >= 0xD800 && value < 0xE000)) {
    return error(ErrorCode::kInvalidArgument,
                 "{}: {} hexadecimal digits of a character expected, found {}", what, n_digits,
                 quote(digits));
  }
  at += n_digits;
  return value;
}

}  // namespace hf2q
