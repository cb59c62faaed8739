#include "chat/tool_call.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace hf2q {
namespace {

constexpr int kMaxDepth = 100;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// -? (0 | [1-9][0-9]*) [. digits] [e [+-] digits]
bool is_json_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - begin;
  };
  if (text.substr(at, 1) == "-") ++at;
  const bool leading_zero = text.substr(at, 1) == "0";
  const size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (text.substr(at, 1) == ".") {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

// Each function appends JSON to its `out` and says whether the text followed the grammar.
class BodyParser {
 public:
  explicit BodyParser(std::string_view text) : text_(text) {}

  bool parse_object(std::string& out) {
    if (++depth_ > kMaxDepth || !accept('{')) return false;
    std::vector<std::pair<std::string, std::string>> pairs;
    if (!accept('}')) {
      do {
        if (!parse_pair(pairs)) return false;
      } while (accept(','));
      if (!accept('}')) return false;
    }
    write(pairs, out);
    --depth_;
    return true;
  }

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

 private:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  static void write(const Pairs& pairs, std::string& out) {
    std::string_view separator = "{";
    for (const auto& [key, value] : pairs) {
      out.append(separator).append(key).append(1, ':').append(value);
      separator = ",";
    }
    out += pairs.empty() ? "{}" : "}";
  }

  // A key that comes again replaces the earlier value.
  bool parse_pair(Pairs& pairs) {
    std::string key;
    std::string value;
    if (!parse_key(key) || !accept(':') || !parse_value(value)) return false;
    for (auto& [known, old] : pairs) {
      if (known != key) continue;
      old = std::move(value);
      return true;
    }
    pairs.emplace_back(std::move(key), std::move(value));
    return true;
  }

  bool parse_key(std::string& out) {
    if (peek() == kQuoteMark) return parse_marked_string(out);
    if (peek() == '"') return parse_plain_string(out);
    const std::string_view key = take_until(":,{}[]");
    out = quoted(key);
    return !key.empty();
  }

  bool parse_value(std::string& out) {
    switch (peek()) {
      case '{':
        return parse_object(out);
      case '[':
        return parse_list(out);
      case kQuoteMark:
        return parse_marked_string(out);
      case '"':
        return parse_plain_string(out);
      default:
        return parse_bare(out);
    }
  }

  bool parse_list(std::string& out) {
    if (++depth_ > kMaxDepth || !accept('[')) return false;
    out += '[';
    if (!accept(']')) {
      if (!parse_value(out)) return false;
      while (accept(',')) {
        out += ',';
        if (!parse_value(out)) return false;
      }
      if (!accept(']')) return false;
    }
    out += ']';
    --depth_;
    return true;
  }

  bool parse_marked_string(std::string& out) {
    const size_t end = text_.find(kQuoteMark, ++at_);
    if (end == text_.npos) return false;
    out += quoted(text_.substr(at_, end - at_));
    at_ = end + 1;
    return true;
  }

  bool parse_plain_string(std::string& out) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return false;
    const std::string_view token = text_.substr(at_, end + 1 - at_);
    const auto parsed = nlohmann::json::parse(token, nullptr, false);
    if (parsed.is_discarded()) return false;
    out += parsed.dump();
    at_ = end + 1;
    return true;
  }

  // Trimmed text before the next of `ends`, empty where a quote marker comes first.
  std::string_view take_until(std::string_view ends) {
    size_t end = at_;
    while (end < text_.size() && ends.find(text_[end]) == ends.npos) ++end;
    const std::string_view token = trimmed(text_.substr(at_, end - at_));
    at_ = end;
    return token.find(kQuoteMark) == token.npos ? token : std::string_view();
  }

  bool parse_bare(std::string& out) {
    const std::string_view word = take_until(",{}[]");
    if (word.empty()) return false;
    if (word == "None") {
      out += "null";
    } else if (word == "true" || word == "false" || word == "null" || is_json_number(word)) {
      out += word;
    } else {
      out += quoted(word);
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Names of functions are identifiers; some servers put dots, slashes or hyphens between parts.
bool is_name(std::string_view name) {
  constexpr std::string_view kOthers = "_-./:";
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !is_digit(c) && kOthers.find(c) == kOthers.npos) return false;
  }
  return !name.empty();
}

}  // namespace

std::optional<ToolCall> parse_tool_call(std::string_view body) {
  constexpr std::string_view kPrefix = "call:";
  body = trimmed(body);
  if (!body.starts_with(kPrefix)) return std::nullopt;
  body.remove_prefix(kPrefix.size());
  const size_t brace = body.find('{');
  if (brace == body.npos) return std::nullopt;
  ToolCall call;
  call.name = trimmed(body.substr(0, brace));
  BodyParser parser(body.substr(brace));
  if (!is_name(call.name) || !parser.parse_object(call.arguments) || !parser.at_end()) {
    return std::nullopt;
  }
  return call;
}

}  // namespace hf2q
