#pragma once
// How values are spelled: as JSON, or as the arguments of Gemma 4's tool calls.
//
//   JSON        {"key": "text", ...}   between tokens nothing, or one space, or a newline and at
//   most
//               kMaxIndent spaces and tabs; behind a colon nothing or one space
//   tool call   {key:Qtext Q,...}   Q: the quote marker, a token; text without escapes; no white
//   space
//
// Numbers: at most 18 digits before and behind the point, an exponent of at most two digits, so
// that every reader can hold them.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/rule_builder.h"

namespace hf2q {

class ValueText {
 public:
  using Fragment = RuleBuilder::Fragment;
  static constexpr uint32_t kMaxIndent = 32;

  // JSON, or with a quote marker the syntax of tool calls.
  explicit ValueText(RuleBuilder& builder, std::optional<int32_t> quote_marker = std::nullopt);

  bool is_json() const { return !quote_marker_; }
  RuleBuilder& builder() { return builder_; }

  Fragment space();  // between tokens
  Fragment colon();  // between key and value
  Fragment comma();  // between elements, with its space
  Fragment quote();
  Fragment character();                         // any one character of a string
  Fragment character(const CodePointSet& set);  // one of these, spelled in one way
  Fragment string(uint32_t min_length, uint32_t max_length);
  Fragment literal_string(std::string_view text);
  Fragment integer();
  Fragment number();
  Fragment key(std::string_view name);
  // Any key but these.
  Fragment other_key(const std::vector<std::string>& names);
  // Exactly this value, in its shortest spelling.
  Fragment literal(const nlohmann::ordered_json& value);

 private:
  Fragment spelled(uint32_t code_point);

  RuleBuilder& builder_;
  std::optional<int32_t> quote_marker_;
  uint32_t space_;  // rules
  uint32_t character_;
  uint32_t integer_;
  uint32_t number_;
  uint32_t any_string_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> strings_;  // by their lengths
};

}  // namespace hf2q
