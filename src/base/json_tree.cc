#include "base/json_tree.h"

#include <algorithm>

#include "base/quote.h"

namespace hf2q {
namespace {

// How deep brackets nest in `text`, those in strings left out. Exact for JSON; for other text any
// number, which does no harm, as the parser refuses that.
size_t nesting_depth(std::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return deepest;
}

template <class Json>
std::string describe_any(const Json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_string()) return quote(value.template get_ref<const std::string&>());
  return value.dump();
}

}  // namespace

Status check_json_size(std::string_view text, const std::string& name) {
  if (text.size() > kMaxJsonTreeBytes) {
    return error(ErrorCode::kCorrupt, "{}: at most {} bytes of JSON expected, found {}", name,
                 kMaxJsonTreeBytes, text.size());
  }
  const size_t depth = nesting_depth(text);
  if (depth > kMaxJsonTreeDepth) {
    return error(ErrorCode::kCorrupt,
                 "{}: arrays and objects nested at most {} deep expected, found {}", name,
                 kMaxJsonTreeDepth, depth);
  }
  return Ok{};
}

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& name) {
  TRY_OK(check_json_size(text, name));
  nlohmann::json root = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return error(ErrorCode::kCorrupt, "{}: a JSON object expected", name);
  return root;
}

std::string describe(const nlohmann::json& value) {
  return describe_any(value);
}

std::string describe(const nlohmann::ordered_json& value) {
  return describe_any(value);
}

}  // namespace hf2q
