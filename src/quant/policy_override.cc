#include "quant/policy_override.h"

// g++ 12 takes a union inside <regex> for uninitialized when sanitizers are on.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <algorithm>
#include <cctype>
#include <optional>
#include <regex>
#include <utility>

namespace hf2q {
namespace {

// Bounds the recursion of std::regex, which follows the nesting of the expression.
constexpr size_t kMaxPattern = 1000;

Error bad_override(std::string_view text, std::string_view what) {
  return error(ErrorCode::kInvalidArgument, "--tensor-type \"{}\": {}", text, what);
}

}  // namespace

struct TypeOverride::Pattern {
  std::regex regex;
};

Result<TypeOverride> TypeOverride::parse(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return bad_override(text, "REGEX=TYPE expected");
  std::string pattern(text.substr(0, equals));
  if (pattern.empty()) return bad_override(text, "an expression before '=' expected");
  if (pattern.size() > kMaxPattern) {
    return bad_override(text.substr(0, 40),
                        fmt::format("an expression of at most {} characters expected, found {}",
                                    kMaxPattern, pattern.size()));
  }
  const std::string_view type_name = text.substr(equals + 1);
  const std::optional<TensorType> type = parse_tensor_type(type_name);
  if (!type) return bad_override(text, fmt::format("unknown tensor type \"{}\"", type_name));

  std::ranges::transform(pattern, pattern.begin(), [](unsigned char c) { return std::tolower(c); });
  try {
    return TypeOverride(std::string(text),
                        std::make_shared<const Pattern>(Pattern{std::regex(pattern)}), *type);
  } catch (const std::regex_error& e) {
    return bad_override(text, fmt::format("not a regular expression: {}", e.what()));
  }
}

Result<bool> TypeOverride::matches(std::string_view tensor_name) const {
  try {
    return std::regex_search(tensor_name.begin(), tensor_name.end(), pattern_->regex);
  } catch (const std::regex_error& e) {
    return bad_override(text_, fmt::format("matching \"{}\": {}", tensor_name, e.what()));
  }
}

}  // namespace hf2q
