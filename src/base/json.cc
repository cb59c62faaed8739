#include "base/json.h"

#include <array>
#include <optional>
#include <unordered_set>

#include "base/quote.h"

namespace hf2q {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxDepth = 32;
constexpr size_t kFewKeys = 8;  // up to here comparing all pairs is faster than hashing

std::optional<std::string_view> repeated_key_of_few(simdjson::dom::object object) {
  std::array<std::string_view, kFewKeys> keys;
  size_t n_keys = 0;
  for (const auto& field : object) {
    for (size_t i = 0; i < n_keys; ++i) {
      if (keys[i] == field.key) return field.key;
    }
    keys[n_keys++] = field.key;
  }
  return std::nullopt;
}

std::optional<std::string_view> repeated_key(simdjson::dom::object object) {
  if (object.size() <= kFewKeys) return repeated_key_of_few(object);
  std::unordered_set<std::string_view> keys;
  keys.reserve(object.size());
  for (const auto& field : object) {
    if (!keys.insert(field.key).second) return field.key;
  }
  return std::nullopt;
}

// The first key that an object inside `value` holds twice, behind the keys that lead to it. The
// parser has bounded the depth.
std::optional<std::string> find_repeated_key(element value) {  // NOLINT(misc-no-recursion)
  if (simdjson::dom::array array; value.get(array) == simdjson::SUCCESS) {
    for (const element item : array) {
      if (auto found = find_repeated_key(item)) return found;
    }
  }
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return std::nullopt;
  if (const auto key = repeated_key(object)) return quote(*key);
  for (const auto& field : object) {
    if (auto found = find_repeated_key(field.value)) return quote(field.key) + "." + *found;
  }
  return std::nullopt;
}

}  // namespace

Result<element> parse_json(simdjson::dom::parser& parser, std::string_view text,
                           const std::string& name) {
  element root;
  simdjson::error_code code =
      text.empty() ? simdjson::EMPTY : parser.allocate(text.size(), kMaxDepth);
  if (code == simdjson::SUCCESS) code = parser.parse(text.data(), text.size()).get(root);
  if (code != simdjson::SUCCESS) {
    return error(code == simdjson::MEMALLOC ? ErrorCode::kOutOfMemory : ErrorCode::kCorrupt,
                 "{}: not valid JSON: {}", name, simdjson::error_message(code));
  }
  if (const auto key = find_repeated_key(root)) {
    return error(ErrorCode::kCorrupt, "{}: key {} appears twice", name, *key);
  }
  return root;
}

std::string describe(element value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return quote(value.get_string().value_unsafe());
    default:
      return simdjson::minify(value);
  }
}

}  // namespace hf2q
