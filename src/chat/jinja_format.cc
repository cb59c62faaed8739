// 'text %s' % values, and 'text {}'.format(values)

#include <algorithm>

#include "base/quote.h"
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

// ---- str.format ----

struct Field {
  std::string_view name;  // empty: the next argument
  char conversion = 0;    // 's', 'r' or none
  std::string_view format;
};

struct FieldFormat {
  std::string_view fill = " ";
  char align = 0;  // '<', '>', '^', '=' or none
  bool plus = false;
  bool comma = false;
  size_t width = 0;
  int precision = -1;
  char kind = 0;
};

// After the opening brace; moves `at` behind the closing one.
Result<Field> parse_field(Runtime& rt, std::string_view text, size_t& at) {
  const size_t end = text.find_first_of("{}", at);
  if (end == text.npos) return rt.fail("format: a '}}' is missing");
  if (text[end] == '{') return rt.fail("format: a field inside of a field is not supported");
  std::string_view inside = text.substr(at, end - at);
  at = end + 1;
  Field field;
  const size_t colon = inside.find(':');
  if (colon != inside.npos) field.format = inside.substr(colon + 1);
  inside = inside.substr(0, colon);
  const size_t mark = inside.find('!');
  if (mark != inside.npos) {
    const std::string_view conversion = inside.substr(mark + 1);
    if (conversion != "s" && conversion != "r") {
      return rt.fail("format: conversion {} is not supported", quote(conversion));
    }
    field.conversion = conversion[0];
  }
  field.name = inside.substr(0, mark);
  if (field.name.find_first_of(".[") != field.name.npos) {
    return rt.fail("format: parts of an argument, as in {}, are not supported", quote(field.name));
  }
  return field;
}

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

Result<size_t> format_number(Runtime& rt, std::string_view text, size_t& at) {
  size_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + static_cast<size_t>(text[at] - '0');
    if (value > 1000) return rt.fail("a format's width or precision is too large");
  }
  return value;
}

// [[fill]align][sign][0][width][,][.precision][kind]
Result<FieldFormat> parse_format(Runtime& rt, std::string_view text) {
  FieldFormat format;
  size_t at = 0;
  const auto accept = [&](char c) {
    const bool there = at < text.size() && text[at] == c;
    at += there ? 1 : 0;
    return there;
  };
  const size_t fill = text.empty() ? 0 : code_point_bytes(text, 0);
  if (fill < text.size() && is_align(text[fill])) {
    format.fill = text.substr(0, fill);
    format.align = text[fill];
    at = fill + 1;
  } else if (!text.empty() && is_align(text[0])) {
    format.align = text[at++];
  }
  format.plus = accept('+');
  if (!format.plus) accept('-');
  if (accept('0') && format.align == 0) {
    format.fill = "0";
    format.align = '=';
  }
  TRY(width, format_number(rt, text, at));
  format.width = width;
  format.comma = accept(',');
  if (accept('.')) {
    TRY(precision, format_number(rt, text, at));
    if (precision > 100) return rt.fail("a format's width or precision is too large");
    format.precision = static_cast<int>(precision);
  }
  if (at < text.size()) format.kind = text[at++];
  if (at != text.size()) return rt.fail("format: {} is not supported", quote(text));
  return format;
}

// "1234567.5" as "1,234,567.5"
std::string with_commas(std::string text) {
  const size_t first = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  size_t at = first;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  while (at > first + 3) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

Error bad_format(Runtime& rt, std::string_view format, const Value& value) {
  return rt.fail("format: {} is not supported for a value of type {}", quote(format),
                 value.type_name());
}

Result<std::string> number_field(Runtime& rt, const FieldFormat& format, std::string_view spelled,
                                 const Value& value) {
  const bool decimal = format.kind == 'f' || format.kind == '%';
  const bool whole = format.kind == 'd' || format.kind == 'x' || format.kind == 0;
  const bool fits = decimal || (whole && value.is_integral() && format.precision < 0);
  // A float without a kind is its shortest text.
  const bool shortest = format.kind == 0 && value.is(Kind::kFloat) && format.precision < 0;
  if (!fits && !shortest) return bad_format(rt, spelled, value);
  std::string text;
  if (shortest) {
    text = float_text(value.as_double());
  } else if (decimal) {
    const double number = value.as_double() * (format.kind == '%' ? 100 : 1);
    text = fmt::format("{:.{}f}", number, format.precision < 0 ? 6 : format.precision);
    if (format.kind == '%') text += '%';
  } else {
    text =
        format.kind == 'x' ? fmt::format("{:x}", value.as_int()) : std::to_string(value.as_int());
  }
  if (format.plus && !text.starts_with('-')) text.insert(0, 1, '+');
  return format.comma ? with_commas(std::move(text)) : text;
}

Result<std::string> text_field(Runtime& rt, const FieldFormat& format, std::string_view spelled,
                               const Value& value) {
  const bool fits = (format.kind == 0 || format.kind == 's') && format.align != '=' &&
                    !format.plus && !format.comma;
  if (!fits) return bad_format(rt, spelled, value);
  const std::string& text = value.as_string();
  size_t end = format.precision < 0 ? text.size() : 0;
  for (int i = 0; i < format.precision && end < text.size(); ++i) {
    end += code_point_bytes(text, end);
  }
  return text.substr(0, end);
}

std::string aligned(const FieldFormat& format, std::string text, bool number) {
  const size_t length = count_code_points(text);
  const size_t missing = format.width > length ? format.width - length : 0;
  const char align = format.align != 0 ? format.align : number ? '>' : '<';
  const auto fill = [&](size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += format.fill;
    return out;
  };
  if (align == '=') {
    const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
    return text.insert(sign, fill(missing));
  }
  const size_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  return fill(left) + text + fill(missing - left);
}

Result<std::string> field_text(Runtime& rt, const Field& field, Value value) {
  if (field.conversion != 0 || field.format.empty()) {
    std::string text;
    TRY_OK(field.conversion == 'r' ? append_repr(rt, value, text) : append_str(rt, value, text));
    if (field.format.empty()) return text;
    value = Value::string(std::move(text));
  }
  TRY(format, parse_format(rt, field.format));
  if (value.is_number()) {
    TRY(text, number_field(rt, format, field.format, value));
    return aligned(format, std::move(text), true);
  }
  if (!value.is(Kind::kString)) return bad_format(rt, field.format, value);
  TRY(text, text_field(rt, format, field.format, value));
  return aligned(format, std::move(text), false);
}

// Hands out the arguments of one call.
struct FieldArguments {
  const Args& args;
  size_t next = 0;
  bool counted = false;   // a field without a name was met,
  bool numbered = false;  // and one with a number

  Result<Value> take(Runtime& rt, std::string_view name) {
    const bool is_number = name.find_first_not_of("0123456789") == name.npos;
    if (!is_number) {
      for (const auto& [known, value] : args.named) {
        if (known == name) return value;
      }
      return rt.fail("format: no argument {}", quote(name));
    }
    (name.empty() ? counted : numbered) = true;
    if (counted && numbered) return rt.fail("format: fields with and without a number");
    size_t index = name.empty() ? next++ : 0;
    for (const char c : name)
      index = std::min<size_t>(index * 10 + static_cast<size_t>(c - '0'), 10'000);
    if (index < args.positional.size()) return args.positional[index];
    return rt.fail("format: no argument {}", index);
  }
};

}  // namespace

Result<Value> format_fields(Runtime& rt, std::string_view text, const Args& args) {
  FieldArguments arguments{args};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    TRY_OK(append_str(rt, Value::string(std::string(text.substr(at, brace - at))), out));
    if (brace == text.size()) break;
    at = brace + 1;
    if (at < text.size() && text[at] == text[brace]) {  // doubled: the brace itself
      out += text[at++];
      continue;
    }
    if (text[brace] == '}') return rt.fail("format: a single '}}'");
    TRY(field, parse_field(rt, text, at));
    TRY(value, arguments.take(rt, field.name));
    TRY(piece, field_text(rt, field, std::move(value)));
    TRY_OK(append_str(rt, Value::string(std::move(piece)), out));
  }
  return rt.make_string(std::move(out));
}

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
