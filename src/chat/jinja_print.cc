// Values as text: str(), repr() and json.dumps().

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat/jinja_ops.h"
#include "chat/jinja_text.h"

namespace hf2q::jinja {
namespace {

Status append(Runtime& rt, std::string_view text, std::string& out) {
  const size_t limit = rt.limits().max_output_bytes;
  if (text.size() > limit || out.size() > limit - text.size()) {
    return rt.fail("more than {} bytes of output", limit);
  }
  TRY_OK(rt.spend(text.size()));
  out += text;
  return Ok{};
}

void append_escape(std::string& out, char32_t c) {
  if (c <= 0xFF) {
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  } else {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  }
}

// What repr() writes as an escape: controls, white space, and the common invisible format marks.
bool is_unprintable(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || (is_space(c) && c != ' ') ||
         (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

std::string repr_text(std::string_view text) {
  const bool double_quoted = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quoted ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = code_point_bytes(text, at);
    const std::string_view one = text.substr(at, bytes);
    const char32_t c = decode_code_point(one);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.append("\\").append(one);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_unprintable(c)) {
      append_escape(out, c);
    } else {
      out += one;
    }
    at += bytes;
  }
  return out += quote;
}

Status append_items(Runtime& rt, const List& list, std::string& out) {
  TRY_OK(append(rt, list.tuple ? "(" : "[", out));
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) TRY_OK(append(rt, ", ", out));
    TRY_OK(append_repr(rt, list.items[i], out));
  }
  if (list.tuple && list.items.size() == 1) TRY_OK(append(rt, ",", out));
  return append(rt, list.tuple ? ")" : "]", out);
}

Status append_entries(Runtime& rt, const Dict& dict, std::string& out) {
  TRY_OK(append(rt, "{", out));
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) TRY_OK(append(rt, ", ", out));
    TRY_OK(append_repr(rt, dict.entries[i].first, out));
    TRY_OK(append(rt, ": ", out));
    TRY_OK(append_repr(rt, dict.entries[i].second, out));
  }
  return append(rt, "}", out);
}

std::string json_string(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  const auto append_unit = [&out](uint32_t unit) { out += fmt::format("\\u{:04x}", unit); };
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = code_point_bytes(text, at);
    const std::string_view one = text.substr(at, bytes);
    const char32_t c = decode_code_point(one);
    static constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
    const size_t place = bytes == 1 ? kShort.find(one[0]) : kShort.npos;
    if (place != kShort.npos && place % 2 == 0) {
      out.append("\\").append(1, kShort[place + 1]);
    } else if (c >= 0x10000 && ensure_ascii) {
      append_unit(0xD7C0 + (c >> 10));
      append_unit(0xDC00 + (c & 0x3FF));
    } else if (c < 0x20 || (c >= 0x7F && ensure_ascii)) {
      append_unit(c);
    } else {
      out += one;
    }
    at += bytes;
  }
  return out += '"';
}

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}

  Status write(const Value& value, int level) {
    switch (value.kind()) {
      case Kind::kString:
        TRY_OK(rt_.spend(value.as_string().size()));
        return append(rt_, json_string(value.as_string(), style_.ensure_ascii), out);
      case Kind::kNone:
        return append(rt_, "null", out);
      case Kind::kBool:
        return append(rt_, value.as_bool() ? "true" : "false", out);
      case Kind::kFloat:
        return write_float(value.as_double());
      case Kind::kInt:
        return append_str(rt_, value, out);
      case Kind::kList:
        return write_list(value.as_list(), level);
      case Kind::kDict:
        return write_dict(value.as_dict(), level);
      default:
        return rt_.fail("tojson: a value of type {} has no JSON form", value.type_name());
    }
  }

  std::string out;

 private:
  Status write_float(double value) {
    if (std::isnan(value)) return append(rt_, "NaN", out);
    if (std::isinf(value)) return append(rt_, value > 0 ? "Infinity" : "-Infinity", out);
    return append(rt_, float_text(value), out);
  }

  Status new_line(int level) {
    if (style_.indent < 0) return Ok{};
    TRY_OK(append(rt_, "\n", out));
    return append(rt_, std::string(static_cast<size_t>(style_.indent * level), ' '), out);
  }

  Status separate(bool first, int level) {
    if (!first) TRY_OK(append(rt_, style_.item_separator, out));
    return new_line(level);
  }

  Status write_list(const List& list, int level) {
    if (list.items.empty()) return append(rt_, "[]", out);
    TRY_OK(append(rt_, "[", out));
    for (size_t i = 0; i < list.items.size(); ++i) {
      TRY_OK(separate(i == 0, level + 1));
      TRY_OK(write(list.items[i], level + 1));
    }
    TRY_OK(new_line(level));
    return append(rt_, "]", out);
  }

  // json.dumps writes numbers and constants as keys in their JSON form, as strings.
  Status write_key(const Value& key) {
    if (key.is(Kind::kString)) return write(key, 0);
    if (key.is(Kind::kList) || key.is(Kind::kDict))
      return rt_.fail("tojson: a key must be a string");
    TRY_OK(append(rt_, "\"", out));
    TRY_OK(write(key, 0));
    return append(rt_, "\"", out);
  }

  Status write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) return append(rt_, "{}", out);
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) {
      if (style_.sort_keys && !entry.first.is(Kind::kString)) {
        return rt_.fail("tojson: only string keys can be sorted");
      }
      order.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        return a->first.as_string() < b->first.as_string();
      });
    }
    TRY_OK(append(rt_, "{", out));
    for (size_t i = 0; i < order.size(); ++i) {
      TRY_OK(separate(i == 0, level + 1));
      TRY_OK(write_key(order[i]->first));
      TRY_OK(append(rt_, style_.key_separator, out));
      TRY_OK(write(order[i]->second, level + 1));
    }
    TRY_OK(new_line(level));
    return append(rt_, "}", out);
  }

  Runtime& rt_;
  const JsonStyle& style_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t sign = text[e + 1] == '+' ? 1 : 0;
  std::from_chars(text.data() + e + 1 + sign, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto plain =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string out(buffer, static_cast<size_t>(plain.ptr - buffer));
  if (out.find('.') == out.npos) out += ".0";
  return out;
}

Status append_str(Runtime& rt, const Value& value, std::string& out) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return rt.spend();
    case Kind::kNone:
      return append(rt, "None", out);
    case Kind::kBool:
      return append(rt, value.as_bool() ? "True" : "False", out);
    case Kind::kInt:
      return append(rt, std::to_string(value.as_int()), out);
    case Kind::kFloat:
      return append(rt, float_text(value.as_double()), out);
    case Kind::kString:
      return append(rt, value.as_string(), out);
    case Kind::kList:
      return append_items(rt, value.as_list(), out);
    case Kind::kDict:
      return append_entries(rt, value.as_dict(), out);
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kCallable:
      return append(rt, fmt::format("<{}>", value.type_name()), out);
  }
  return Ok{};
}

Status append_repr(Runtime& rt, const Value& value, std::string& out) {
  if (value.is(Kind::kUndefined)) return append(rt, "Undefined", out);
  if (!value.is(Kind::kString)) return append_str(rt, value, out);
  TRY_OK(rt.spend(value.as_string().size()));
  return append(rt, repr_text(value.as_string()), out);
}

Result<std::string> str_of(Runtime& rt, const Value& value) {
  std::string out;
  TRY_OK(append_str(rt, value, out));
  return out;
}

Result<std::string> json_text(Runtime& rt, const Value& value, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  TRY_OK(writer.write(value, 0));
  return std::move(writer.out);
}

}  // namespace hf2q::jinja
