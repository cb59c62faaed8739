#include "chat/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include "base/quote.h"
#include "chat/jinja_text.h"

namespace hf2q::jinja {
namespace {

constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// One kind of newline, and none at the very end.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (source.substr(i + 1, 1) == "\n") ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TRY_OK(lex_text());
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }

  Error fail(std::string_view what) const {
    return error(ErrorCode::kCorrupt, "chat template, line {}: {}", line_, what);
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(size_t bytes) {
    line_ += static_cast<int>(std::ranges::count(rest().substr(0, bytes), '\n'));
    at_ += bytes;
  }

  void skip_space() { advance(rest().size() - strip_left(rest()).size()); }

  bool accept(std::string_view text) {
    if (!looking_at(text)) return false;
    advance(text.size());
    return true;
  }

  // The begin of the next tag, or the end of the source.
  size_t find_tag() const {
    size_t tag = source_.find('{', at_);
    while (tag != source_.npos && tag + 1 < source_.size()) {
      if (std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos) return tag;
      tag = source_.find('{', tag + 1);
    }
    return source_.size();
  }

  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // What remains of the text before a tag with `sign`; `strips_line`: white space between the begin
  // of the line and the tag goes.
  std::string_view trimmed_before(std::string_view text, char sign, bool strips_line) const {
    if (sign == '-') return strip_right(text);
    if (sign == '+' || !strips_line) return text;
    const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
    const bool starts_line = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
    return starts_line && is_all_space(text.substr(line)) ? text.substr(0, line) : text;
  }

  void add_text(std::string_view text) {
    if (!text.empty()) add(TokenKind::kText, std::string(text));
  }

  // Text up to a tag, and the tag.
  Status lex_text() {
    const size_t tag = find_tag();
    const std::string_view text = rest().substr(0, tag - at_);
    if (tag == source_.size()) {
      add_text(text);
      advance(text.size());
      return Ok{};
    }
    const char kind = source_[tag + 1];
    const char sign = kind == '#' || kind == '%' || kind == '{' ? sign_at(tag + 2) : '\0';
    add_text(trimmed_before(text, sign, kind != '{'));
    advance(tag - at_ + 2 + (sign != '\0' ? 1 : 0));
    if (kind == '#') return lex_comment();
    if (kind == '%' && at_raw()) return lex_raw();
    return lex_code(kind == '{');
  }

  // Past the end of a comment or block, whose text is `%}` or `#}`: with the white space that a
  // minus takes, or the newline that none or no plus leaves.
  bool accept_end(std::string_view end, bool takes_newline) {
    if (accept(fmt::format("-{}", end))) {
      skip_space();
      return true;
    }
    if (takes_newline && accept(fmt::format("+{}", end))) return true;
    if (!accept(end)) return false;
    if (takes_newline) accept("\n");
    return true;
  }

  Status lex_comment() {
    const size_t end = rest().find("#}");
    if (end == std::string_view::npos) return fail("a comment has no end");
    const bool signed_end = end > 0 && sign_at(at_ + end - 1) != '\0';
    advance(signed_end ? end - 1 : end);
    accept_end("#}", true);
    return Ok{};
  }

  // Whether a block begins that is `word` and nothing else; `at` moves to its end.
  bool at_word(std::string_view word, size_t* at) const {
    const std::string_view text = strip_left(std::string_view(source_).substr(*at));
    if (!text.starts_with(word)) return false;
    const std::string_view after = strip_left(text.substr(word.size()));
    if (!after.starts_with("%}") && !after.starts_with("-%}") && !after.starts_with("+%}")) {
      return false;
    }
    *at = source_.size() - after.size();
    return true;
  }

  bool at_raw() const {
    size_t at = at_;
    return at_word("raw", &at) && source_[at] != '+';
  }

  Status lex_raw() {
    size_t begin = at_;
    at_word("raw", &begin);
    advance(begin - at_);
    if (accept("-%}")) {
      skip_space();
    } else {
      accept("%}");
    }
    for (size_t tag = source_.find("{%", at_); tag != source_.npos;
         tag = source_.find("{%", tag + 2)) {
      const char sign = sign_at(tag + 2);
      size_t end = tag + (sign != '\0' ? 3 : 2);
      if (!at_word("endraw", &end)) continue;
      add_text(trimmed_before(rest().substr(0, tag - at_), sign, true));
      advance(end - at_);
      accept_end("%}", true);
      return Ok{};
    }
    return fail("a raw block has no end");
  }

  Status lex_code(bool variable) {
    add(variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    std::string open;  // brackets that wait for their partners
    while (true) {
      skip_space();
      if (at_ == source_.size()) return fail("the template ends inside a tag");
      if (open.empty() && accept_end(variable ? "}}" : "%}", !variable)) {
        add(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
        return Ok{};
      }
      TRY_OK(lex_token(open));
    }
  }

  Status lex_token(std::string& open) {
    const char c = source_[at_];
    if (is_name_start(c)) return lex_name();
    if (is_digit(c)) return lex_number();
    if (c == '"' || c == '\'') return lex_string(c);
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [this](std::string_view op) { return looking_at(op); });
    if (found == std::end(kOperators))
      return fail(fmt::format("unexpected character {}", quote(rest().substr(0, 1))));
    TRY_OK(balance(c, open));
    add(TokenKind::kOperator, std::string(*found));
    advance(found->size());
    return Ok{};
  }

  Status balance(char c, std::string& open) const {
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c != ')' && c != ']' && c != '}') return Ok{};
    if (open.empty() || open.back() != c) return fail(fmt::format("unexpected '{}'", c));
    open.pop_back();
    return Ok{};
  }

  Status lex_name() {
    size_t bytes = 0;
    while (bytes < rest().size() && (is_name_start(rest()[bytes]) || is_digit(rest()[bytes])))
      ++bytes;
    add(TokenKind::kName, std::string(rest().substr(0, bytes)));
    advance(bytes);
    return Ok{};
  }

  // Digits with single underscores between them; the underscores are dropped.
  std::string take_digits() {
    std::string digits;
    while (at_ < source_.size()) {
      const bool joined =
          source_[at_] == '_' && at_ + 1 < source_.size() && is_digit(source_[at_ + 1]);
      if (!joined && !is_digit(source_[at_])) break;
      if (!joined) digits += source_[at_];
      ++at_;
    }
    return digits;
  }

  Status lex_number() {
    // After a dot digits are an index: a.0.1
    const bool index = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                       tokens_.back().text == ".";
    std::string digits = take_digits();
    bool is_float = false;
    if (!index && rest().size() > 1 && rest()[0] == '.' && is_digit(rest()[1])) {
      ++at_;
      digits.append(1, '.').append(take_digits());
      is_float = true;
    }
    const size_t sign = rest().size() > 1 && (rest()[1] == '+' || rest()[1] == '-') ? 1 : 0;
    if (!index && rest().size() > 1 + sign && (rest()[0] == 'e' || rest()[0] == 'E') &&
        is_digit(rest()[1 + sign])) {
      digits += 'e';
      if (sign != 0 && rest()[1] == '-') digits += '-';
      at_ += 1 + sign;
      digits += take_digits();
      is_float = true;
    }
    return add_number(digits, is_float);
  }

  Status add_number(const std::string& digits, bool is_float) {
    Token token{is_float ? TokenKind::kFloat : TokenKind::kInteger, digits, line_};
    const char* end = digits.data() + digits.size();
    const auto parsed = is_float ? std::from_chars(digits.data(), end, token.number)
                                 : std::from_chars(digits.data(), end, token.integer);
    if (parsed.ec != std::errc())
      return fail(fmt::format("number {} is out of range", quote(digits)));
    tokens_.push_back(std::move(token));
    return Ok{};
  }

  Status lex_string(char quote) {
    std::string text;
    const int line = line_;
    advance(1);
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\') {
        TRY_OK(lex_escape(text));
      } else {
        text += source_[at_];
        advance(1);
      }
    }
    if (at_ == source_.size()) {
      return error(ErrorCode::kCorrupt, "chat template, line {}: a string has no end", line);
    }
    advance(1);
    tokens_.push_back({TokenKind::kString, std::move(text), line});
    return Ok{};
  }

  // Python's escapes; an unknown one stays as it is.
  Status lex_escape(std::string& text) {
    advance(1);
    if (at_ == source_.size()) return fail("a string has no end");
    const char c = source_[at_];
    static constexpr std::string_view kSimple = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    for (size_t i = 0; i < kSimple.size(); i += 2) {
      if (c != kSimple[i]) continue;
      text += kSimple[i + 1];
      advance(1);
      return Ok{};
    }
    if (c == '\n') {  // joins two lines
      advance(1);
      return Ok{};
    }
    if (c == 'x' || c == 'u' || c == 'U') {
      advance(1);
      return lex_code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, text);
    }
    if (c >= '0' && c <= '7') return lex_code_point(3, 8, text);
    text += '\\';
    return Ok{};
  }

  // Hexadecimal: exactly `most` digits; octal: at most.
  Status lex_code_point(size_t most, int base, std::string& text) {
    const std::string_view digits = rest().substr(0, most);
    uint32_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    const auto used = static_cast<size_t>(parsed.ptr - digits.data());
    const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
    if (parsed.ec != std::errc() || (base == 16 && used != most) || value > 0x10FFFF || surrogate) {
      return fail("a string holds a malformed escape");
    }
    append_utf8(text, value);
    advance(used);
    return Ok{};
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalized(source)).run();
}

}  // namespace hf2q::jinja
