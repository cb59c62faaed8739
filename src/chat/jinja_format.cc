// 'text %s' % values

#include <algorithm>

#include "chat/jinja_ops.h"
#include "chat/jinja_text.h"

namespace hf2q::jinja {
namespace {

struct Conversion {
  bool left = false, zero = false, plus = false;
  size_t width = 0;
  int precision = -1;
  char kind = 's';
};

// After the percent sign; moves `at` past the conversion.
Result<Conversion> parse_conversion(Runtime& rt, std::string_view text, size_t& at) {
  Conversion c;
  for (; at < text.size() && std::string_view("-0+ ").find(text[at]) != text.npos; ++at) {
    c.left |= text[at] == '-';
    c.zero |= text[at] == '0';
    c.plus |= text[at] == '+';
  }
  const auto number = [&] {
    size_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      value = std::min<size_t>(value * 10 + static_cast<size_t>(text[at] - '0'), 10'000);
    }
    return value;
  };
  c.width = number();
  if (at < text.size() && text[at] == '.') {
    ++at;
    c.precision = static_cast<int>(number());
  }
  if (c.width > 1000 || c.precision > 100)
    return rt.fail("a format's width or precision is too large");
  if (at == text.size()) return rt.fail("a format ends after '%'");
  c.kind = text[at++];
  return c;
}

Result<std::string> integer_text(Runtime& rt, const Conversion& c, const Value& value) {
  if (!value.is_number())
    return rt.fail("%{}: a number expected, found {}", c.kind, value.type_name());
  const double number = value.as_double();
  if (!(number > -9.2e18 && number < 9.2e18)) return rt.fail("%{}: out of range", c.kind);
  const int64_t n = value.is_integral() ? value.as_int() : static_cast<int64_t>(number);
  std::string text = c.kind == 'x' ? fmt::format("{:x}", n) : std::to_string(n);
  return c.plus && n >= 0 ? "+" + text : text;
}

Result<std::string> converted(Runtime& rt, const Conversion& c, const Value& value) {
  std::string text;
  if (c.kind == 's' || c.kind == 'r') {
    TRY_OK(c.kind == 's' ? append_str(rt, value, text) : append_repr(rt, value, text));
    if (c.precision < 0) return text;
    size_t at = 0;
    for (int i = 0; i < c.precision && at < text.size(); ++i) at += code_point_bytes(text, at);
    return text.substr(0, at);
  }
  if (c.kind == 'd' || c.kind == 'i' || c.kind == 'x') return integer_text(rt, c, value);
  if (c.kind != 'f') return rt.fail("unsupported format '%{}'", c.kind);
  if (!value.is_number()) return rt.fail("%f: a number expected, found {}", value.type_name());
  const double number = value.as_double();
  text = fmt::format("{:.{}f}", number, c.precision < 0 ? 6 : c.precision);
  return c.plus && number >= 0 ? "+" + text : text;
}

std::string padded(const Conversion& c, std::string text) {
  const size_t length = count_code_points(text);
  if (length >= c.width) return text;
  const size_t missing = c.width - length;
  if (c.left) return text + std::string(missing, ' ');
  const bool zeros = c.zero && c.kind != 's' && c.kind != 'r';
  const size_t sign = zeros && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return text.insert(zeros ? sign : 0, missing, zeros ? '0' : ' ');
}

}  // namespace

Result<Value> format_percent(Runtime& rt, std::string_view text, const std::vector<Value>& values) {
  std::string out;
  size_t used = 0;
  size_t at = 0;
  while (at < text.size()) {
    const size_t percent = std::min(text.find('%', at), text.size());
    TRY_OK(append_str(rt, Value::string(std::string(text.substr(at, percent - at))), out));
    if (percent == text.size()) break;
    at = percent + 1;
    TRY(conversion, parse_conversion(rt, text, at));
    if (conversion.kind == '%') {
      out += '%';
      continue;
    }
    if (used == values.size()) return rt.fail("a format has more conversions than values");
    TRY(piece, converted(rt, conversion, values[used++]));
    TRY_OK(append_str(rt, Value::string(padded(conversion, std::move(piece))), out));
  }
  const bool mapping = values.size() == 1 && values[0].is(Kind::kDict);
  if (used != values.size() && !mapping)
    return rt.fail("a format has fewer conversions than values");
  return rt.make_string(std::move(out));
}

}  // namespace hf2q::jinja
