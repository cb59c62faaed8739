#include "grammar/value_text.h"

#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

using Fragment = RuleBuilder::Fragment;

constexpr uint32_t kMaxDigits = 18;

const CodePointSet& json_escaped() {
  static const CodePointSet kSet = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  return kSet;
}

// Key characters of tool calls that need no quotes.
const CodePointSet& bare_key() {
  static const CodePointSet kSet = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'},
                                    {'-', '-'}, {'.', '.'}, {'$', '$'}};
  return kSet;
}

Fragment digits(RuleBuilder& builder, uint32_t min, uint32_t max) {
  return builder.repeat(builder.character({{'0', '9'}}), min, max);
}

Fragment whole_number(RuleBuilder& builder) {
  const Fragment many =
      builder.sequence(builder.character({{'1', '9'}}), digits(builder, 0, kMaxDigits - 1));
  return builder.sequence(builder.optional(builder.bytes("-")),
                          builder.either(builder.bytes("0"), many));
}

Fragment decimal_number(RuleBuilder& builder) {
  const Fragment fraction = builder.sequence(builder.bytes("."), digits(builder, 1, kMaxDigits));
  const Fragment exponent = builder.sequence(
      {builder.character({{'e', 'e'}, {'E', 'E'}}),
       builder.optional(builder.character({{'+', '+'}, {'-', '-'}})), digits(builder, 1, 2)});
  return builder.sequence(
      {whole_number(builder), builder.optional(fraction), builder.optional(exponent)});
}

// Any spelling of one character inside of a JSON string: itself, an escape, or \u with four digits,
// two of them for a pair of surrogates.
Fragment json_character(RuleBuilder& builder) {
  const auto one_of = [&](const CodePointSet& set) { return builder.character(set); };
  const auto hex = [&](uint32_t n) {
    return builder.repeat(one_of({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}), n, n);
  };
  const CodePointSet d = {{'d', 'd'}, {'D', 'D'}};
  const Fragment scalar = builder.either(
      builder.sequence(one_of({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}),
                       hex(3)),
      builder.sequence({one_of(d), one_of({{'0', '7'}}), hex(2)}));
  const Fragment high =
      builder.sequence({one_of(d), one_of({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), hex(2)});
  const Fragment low =
      builder.sequence({builder.bytes("\\u"), one_of(d), one_of({{'c', 'f'}, {'C', 'F'}}), hex(2)});
  const Fragment unicode =
      builder.sequence(builder.bytes("u"), builder.either(scalar, builder.sequence(high, low)));
  CodePointSet simple;
  for (const char c : std::string_view("\"\\/bfnrt")) {
    simple.add(static_cast<uint8_t>(c), static_cast<uint8_t>(c));
  }
  return builder.either(
      builder.character(json_escaped().complement()),
      builder.sequence(builder.bytes("\\"), builder.either(one_of(simple), unicode)));
}

}  // namespace

ValueText::ValueText(RuleBuilder& builder, std::optional<int32_t> quote_marker)
    : builder_(builder), quote_marker_(quote_marker) {
  Fragment space = builder.empty();
  if (is_json()) {
    const Fragment indent =
        builder.repeat(builder.character({{' ', ' '}, {'\t', '\t'}}), 0, kMaxIndent);
    space = builder.optional(
        builder.either(builder.bytes(" "), builder.sequence(builder.bytes("\n"), indent)));
  }
  space_ = builder.add_rule("white space", space);
  // A zero byte would end a text for some readers.
  character_ = builder.add_rule(
      "a character",
      is_json() ? json_character(builder) : builder.character(CodePointSet({{0, 0}}).complement()));
  integer_ = builder.add_rule("an integer", whole_number(builder));
  number_ = builder.add_rule("a number", decimal_number(builder));
  const Fragment inside = is_json() ? json_character(builder) : builder.call(character_);
  any_string_ = builder.add_rule("a string",
                                 builder.sequence({quote(), builder.any_number(inside), quote()}));
}

Fragment ValueText::space() {
  return builder_.call(space_);
}

Fragment ValueText::colon() {
  const Fragment colon = builder_.bytes(":");
  if (!is_json()) return colon;
  return builder_.sequence(colon, builder_.optional(builder_.bytes(" ")));
}

Fragment ValueText::comma() {
  return builder_.sequence(builder_.bytes(","), space());
}

Fragment ValueText::quote() {
  return quote_marker_ ? builder_.token(*quote_marker_) : builder_.bytes("\"");
}

Fragment ValueText::character() {
  return builder_.call(character_);
}

Fragment ValueText::spelled(uint32_t code_point) {
  std::string text;
  append_utf8(code_point, text);
  if (is_json()) {
    text = nlohmann::json(text).dump();
    text = text.substr(1, text.size() - 2);
  }
  return builder_.bytes(text);
}

Fragment ValueText::character(const CodePointSet& set) {
  if (!is_json()) return builder_.character(set);
  Fragment result = builder_.character(set.without(json_escaped()));
  for (const CodePointSet::Range& range : json_escaped().ranges()) {
    for (uint32_t c = range.first; c <= range.last; ++c) {
      if (set.contains(c)) result = builder_.either(result, spelled(c));
    }
  }
  return result;
}

Fragment ValueText::string(uint32_t min_length, uint32_t max_length) {
  if (min_length == 0 && max_length == RuleBuilder::kUnbounded) return builder_.call(any_string_);
  const auto [found, is_new] = strings_.try_emplace({min_length, max_length}, 0);
  if (is_new) {
    const Fragment body = builder_.repeat(character(), min_length, max_length);
    found->second = builder_.add_rule("a string", builder_.sequence({quote(), body, quote()}));
  }
  return builder_.call(found->second);
}

Fragment ValueText::literal_string(std::string_view text) {
  if (is_json()) return builder_.bytes(nlohmann::json(text).dump());
  return builder_.sequence({quote(), builder_.bytes(text), quote()});
}

Fragment ValueText::integer() {
  return builder_.call(integer_);
}

Fragment ValueText::number() {
  return builder_.call(number_);
}

Fragment ValueText::key(std::string_view name) {
  bool bare = !is_json() && !name.empty();
  for (const char c : name) bare = bare && bare_key().contains(static_cast<uint8_t>(c));
  return bare ? builder_.bytes(name) : literal_string(name);
}

Fragment ValueText::other_key(const std::vector<std::string>& names) {
  const CodePointSet allowed = is_json() ? json_escaped().complement() : bare_key();
  // A tree of the names; what leaves it, or ends inside of it at no name, is another key.
  struct Node {
    uint32_t state;
    bool is_name = false;
    std::map<uint32_t, size_t> next = {};
  };
  std::vector<Node> nodes = {{builder_.new_state()}};
  for (const std::string& name : names) {
    size_t at = 0;
    std::string_view rest = name;
    while (!rest.empty()) {
      const CodePoint c = first_code_point(rest);
      if (c.value == kInvalidCodePoint || !allowed.contains(c.value)) break;
      rest.remove_prefix(c.n_bytes);
      const auto [found, is_new] = nodes[at].next.try_emplace(c.value, nodes.size());
      at = found->second;
      if (is_new) nodes.push_back({builder_.new_state()});
    }
    // A name with other characters is spelled in a way that no key here has.
    if (rest.empty()) nodes[at].is_name = true;
  }
  const uint32_t end = builder_.new_state();
  const Fragment tail = builder_.any_number(builder_.character(allowed));
  builder_.link(tail.end, end);
  for (const Node& node : nodes) {
    CodePointSet leaving = allowed;
    for (const auto& [c, next] : node.next) {
      leaving = leaving.without({{c, c}});
      builder_.link(node.state, builder_.character({{c, c}}), nodes[next].state);
    }
    builder_.link(node.state, builder_.character(leaving), tail.start);
    const bool empty_bare = !is_json() && &node == nodes.data();
    if (!node.is_name && !empty_bare) builder_.link(node.state, end);
  }
  const Fragment body = {nodes[0].state, end};
  return is_json() ? builder_.sequence({quote(), body, quote()}) : body;
}

Fragment ValueText::literal(const nlohmann::ordered_json& value) {
  if (value.is_string()) return literal_string(value.get_ref<const std::string&>());
  if (is_json() || !value.is_structured()) return builder_.bytes(value.dump());
  Fragment result = builder_.bytes(value.is_array() ? "[" : "{");
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) result = builder_.sequence(result, comma());
    first = false;
    if (value.is_object()) {
      result = builder_.sequence({result, key(item.key()), colon()});
    }
    result = builder_.sequence(result, literal(item.value()));
  }
  return builder_.sequence(result, builder_.bytes(value.is_array() ? "]" : "}"));
}

}  // namespace hf2q
