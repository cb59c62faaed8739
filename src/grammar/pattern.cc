#include "grammar/pattern.h"

#include <optional>

#include "base/quote.h"
#include "grammar/repeat_range.h"
#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

using Fragment = RuleBuilder::Fragment;

class PatternParser {
 public:
  PatternParser(ValueText& text, std::string_view pattern, const std::string& what)
      : text_(text), builder_(text.builder()), pattern_(pattern), what_(what) {}

  Result<Fragment> run() {
    TRY(result, parse_choices());
    if (at_ != pattern_.size()) return fail("a group before \")\"");
    return result;
  }

 private:
  bool at_end() const { return at_ == pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }
  bool accept(std::string_view word) {
    if (!pattern_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  Error fail(std::string_view expected) const {
    return error(ErrorCode::kInvalidArgument, "{}: pattern: {} expected, found {}", what_, expected,
                 at_end() ? "the end" : quote(pattern_.substr(at_, 20)));
  }
  Error unsupported(std::string_view name) const {
    return error(ErrorCode::kUnsupported, "{}: pattern: {} is not supported", what_, name);
  }

  Fragment any_text() { return builder_.any_number(text_.character()); }

  Result<Fragment> parse_choices() {
    const Fragment result = builder_.nothing();
    do {
      const bool anchored = depth_ > 0 || accept("^");
      TRY(body, parse_sequence());
      if (!anchored) body = builder_.sequence(any_text(), body);
      if (depth_ == 0 && !accept("$")) body = builder_.sequence(body, any_text());
      builder_.link(result.start, body, result.end);
    } while (accept("|"));
    return result;
  }

  Result<Fragment> parse_sequence() {
    Fragment result = builder_.empty();
    while (!at_end() && peek() != '|' && peek() != ')' && !builder_.too_large()) {
      if (peek() == '$' && depth_ == 0) {
        const bool last = at_ + 1 == pattern_.size() || pattern_[at_ + 1] == '|';
        if (last) return result;
      }
      TRY(item, parse_item());
      TRY(range, parse_repeat_range(pattern_, at_, what_ + ": pattern"));
      if (range) {
        item = builder_.repeat(item, range->min, range->max);
        static_cast<void>(accept("?"));
      }
      result = builder_.sequence(result, item);
    }
    return result;
  }

  Result<Fragment> parse_item() {
    if (accept(".")) {
      return text_.character(
          CodePointSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement());
    }
    if (accept("[")) return parse_class();
    if (accept("(")) return parse_group();
    switch (peek()) {
      case '*':
      case '+':
      case '?':
      case '{':
        return fail("something to repeat");
      case '^':
      case '$':
        return unsupported("an anchor inside of a pattern");
      default:
        break;
    }
    TRY(set, parse_set(false));
    return text_.character(set);
  }

  Result<Fragment> parse_group() {
    if (accept("?")) {
      if (!accept(":")) return unsupported(quote("(?" + std::string(pattern_.substr(at_, 2))));
    }
    if (++depth_ > kMaxPatternDepth) {
      return error(ErrorCode::kInvalidArgument,
                   "{}: pattern: groups nested at most {} deep expected", what_, kMaxPatternDepth);
    }
    TRY(result, parse_choices());
    if (!accept(")")) return fail("\")\"");
    --depth_;
    return result;
  }

  Result<Fragment> parse_class() {
    const bool negated = accept("^");
    CodePointSet set;
    while (!accept("]")) {
      if (at_end()) return fail("\"]\"");
      TRY(first, parse_set(true));
      const bool range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!range) {
        set.add(first);
        continue;
      }
      ++at_;
      TRY(last, parse_set(true));
      const auto single = [](const CodePointSet& s) {
        return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
      };
      if (!single(first) || !single(last) || last.ranges()[0].first < first.ranges()[0].first) {
        return fail("a range of characters that ascends before this");
      }
      set.add(first.ranges()[0].first, last.ranges()[0].first);
    }
    return text_.character(negated ? set.complement() : set);
  }

  // One character, or a class that an escape stands for.
  Result<CodePointSet> parse_set(bool in_class) {
    if (accept("\\")) return parse_escape(in_class);
    const CodePoint c = first_code_point(pattern_.substr(at_));
    if (c.value == kInvalidCodePoint) return fail("UTF-8");
    at_ += c.n_bytes;
    return CodePointSet({{c.value, c.value}});
  }

  Result<CodePointSet> parse_escape(bool in_class) {
    static const CodePointSet kDigit = {{'0', '9'}};
    static const CodePointSet kWord = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}};
    static const CodePointSet kSpace = {
        {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    if (at_end()) return fail("an escape");
    const char c = pattern_[at_++];
    const auto one = [](uint32_t value) { return CodePointSet({{value, value}}); };
    switch (c) {
      case 'd':
        return kDigit;
      case 'D':
        return kDigit.complement();
      case 'w':
        return kWord;
      case 'W':
        return kWord.complement();
      case 's':
        return kSpace;
      case 'S':
        return kSpace.complement();
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 'x':
      case 'u': {
        TRY(value, take_hex(pattern_, at_, c == 'x' ? 2 : 4, what_ + ": pattern"));
        return one(value);
      }
      default:
        break;
    }
    const bool alphanumeric = kWord.contains(static_cast<uint8_t>(c)) && c != '_';
    if (alphanumeric && !(in_class && c == 'b')) return unsupported(quote({&pattern_[at_ - 2], 2}));
    if (c == 'b') return one('\b');
    --at_;
    const CodePoint character = first_code_point(pattern_.substr(at_));
    if (character.value == kInvalidCodePoint) return fail("UTF-8");
    at_ += character.n_bytes;
    return one(character.value);
  }

  ValueText& text_;
  RuleBuilder& builder_;
  std::string_view pattern_;
  const std::string& what_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<RuleBuilder::Fragment> add_pattern(ValueText& text, std::string_view pattern,
                                          const std::string& what) {
  if (pattern.size() > kMaxPatternBytes) {
    return error(ErrorCode::kInvalidArgument, "{}: pattern: at most {} bytes expected, found {}",
                 what, kMaxPatternBytes, pattern.size());
  }
  return PatternParser(text, pattern, what).run();
}

}  // namespace hf2q
