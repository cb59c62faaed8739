#include "grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/quote.h"
#include "grammar/repeat_range.h"
#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

using Fragment = RuleBuilder::Fragment;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(RuleBuilder& builder, std::string_view text) : builder_(builder), text_(text) {}

  Result<uint32_t> run() {
    skip_space(true);
    while (!at_end()) {
      TRY_OK(parse_rule());
      skip_space(true);
    }
    for (const auto& [name, rule] : rules_) {
      if (builder_.rules()[rule].body.start != RuleBuilder::kNone) continue;
      return error(ErrorCode::kInvalidArgument, "grammar: rule {} is used but not defined",
                   quote(name));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) {
      return error(ErrorCode::kInvalidArgument, "grammar: a rule \"root\" expected, found none");
    }
    return root->second;
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool accept(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Error fail(std::string_view expected) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    const std::string found = at_end() ? "the end" : quote(text_.substr(at_, 20));
    return error(ErrorCode::kInvalidArgument, "grammar: line {}: {} expected, found {}", line,
                 expected, found);
  }

  void skip_space(bool lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  // Goes to the next line when that goes on with "|".
  void skip_to_choice() {
    const size_t before = at_;
    skip_space(true);
    if (peek() != '|') at_ = before;
  }

  std::string_view take_name() {
    const size_t begin = at_;
    while (!at_end() && is_name_character(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  uint32_t rule_of(std::string_view name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    const uint32_t rule = builder_.declare("rule " + quote(name));
    return rules_.emplace(name, rule).first->second;
  }

  Status parse_rule() {
    const std::string_view name = take_name();
    if (name.empty()) return fail("the name of a rule");
    skip_space(false);
    if (!accept("::=")) return fail("\"::=\"");
    skip_space(true);
    const uint32_t rule = rule_of(name);
    if (builder_.rules()[rule].body.start != RuleBuilder::kNone) {
      return error(ErrorCode::kInvalidArgument, "grammar: rule {} is defined twice", quote(name));
    }
    TRY(body, parse_choices());
    builder_.define(rule, body);
    if (!at_end() && peek() != '\n' && peek() != '\r') return fail("the end of the line");
    return Ok{};
  }

  Result<Fragment> parse_choices() {
    TRY(first, parse_sequence());
    Fragment result = builder_.nothing();
    builder_.link(result.start, first, result.end);
    for (;;) {
      skip_to_choice();
      if (!accept("|")) return result;
      skip_space(true);
      TRY(next, parse_sequence());
      builder_.link(result.start, next, result.end);
    }
  }

  Result<Fragment> parse_sequence() {
    Fragment result = builder_.empty();
    for (;;) {
      skip_space(depth_ > 0);
      const char c = peek();
      if (at_end() || c == '|' || c == ')' || c == '\n' || c == '\r') return result;
      TRY(item, parse_item());
      skip_space(depth_ > 0);
      TRY(range, parse_repeat_range(text_, at_, "grammar"));
      if (range) item = builder_.repeat(item, range->min, range->max);
      result = builder_.sequence(result, item);
      if (builder_.too_large()) return result;
    }
  }

  Result<Fragment> parse_item() {
    if (is_name_character(peek())) return builder_.call(rule_of(take_name()));
    if (accept(".")) return builder_.character(CodePointSet::all());
    if (accept("\"")) return parse_literal();
    if (accept("[")) return parse_class();
    if (!accept("(")) return fail("a literal, a class, a rule or a group");
    if (++depth_ > kMaxGroupDepth) {
      return error(ErrorCode::kInvalidArgument, "grammar: groups nested at most {} deep expected",
                   kMaxGroupDepth);
    }
    TRY(group, parse_choices());
    if (!accept(")")) return fail("\")\"");
    --depth_;
    return group;
  }

  Result<Fragment> parse_literal() {
    std::string literal;
    while (!accept("\"")) {
      TRY(character, parse_character());
      append_utf8(character, literal);
    }
    return builder_.bytes(literal);
  }

  Result<Fragment> parse_class() {
    const bool negated = accept("^");
    CodePointSet set;
    while (!accept("]")) {
      TRY(first, parse_character());
      uint32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        TRY(end, parse_character());
        last = end;
      }
      if (last < first) return fail("a range that ascends before this");
      set.add(first, last);
    }
    return builder_.character(negated ? set.complement() : set);
  }

  Result<uint32_t> parse_character() {
    if (at_end()) return fail("the end of a literal or class");
    if (accept("\\")) return parse_escape();
    const CodePoint character = first_code_point(text_.substr(at_));
    if (character.value == kInvalidCodePoint) return fail("UTF-8");
    at_ += character.n_bytes;
    return character.value;
  }

  Result<uint32_t> parse_escape() {
    const char c = peek();
    if (!at_end()) ++at_;
    switch (c) {
      case 'n':
        return uint32_t{'\n'};
      case 'r':
        return uint32_t{'\r'};
      case 't':
        return uint32_t{'\t'};
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      default:
        break;
    }
    if (c != '\0' && std::string_view("\\\"[]-^").find(c) != std::string_view::npos) {
      return static_cast<uint32_t>(c);
    }
    --at_;
    return fail("an escape of n r t x u U \\ \" [ ] - ^");
  }

  Result<uint32_t> parse_hex(size_t n_digits) {
    TRY(value, take_hex(text_, at_, n_digits, "grammar"));
    return value;
  }

  RuleBuilder& builder_;
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::map<std::string, uint32_t, std::less<>> rules_;
};

}  // namespace

Result<uint32_t> add_gbnf(RuleBuilder& builder, std::string_view text) {
  if (text.size() > kMaxGbnfBytes) {
    return error(ErrorCode::kInvalidArgument, "grammar: at most {} bytes expected, found {}",
                 kMaxGbnfBytes, text.size());
  }
  return GbnfParser(builder, text).run();
}

}  // namespace hf2q
