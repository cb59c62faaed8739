#include "serve/api_fields.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/json_tree.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

std::optional<int64_t> whole_number(const ordered_json& value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number > INT64_MAX ? std::nullopt : std::optional(static_cast<int64_t>(number));
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (std::abs(number) > kExact || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

Fields::Fields(const ordered_json& object, std::string place)
    : object_(object), place_(std::move(place)) {
  CHECK(object.is_object());
}

const ordered_json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::refuse(const char* name, std::string_view expected) {
  if (error_) return;
  const ordered_json* value = find(name);
  error_ = error(ErrorCode::kInvalidArgument, "{}{}{}: {} expected, found {}", place_,
                 place_.empty() ? "" : ".", name, expected,
                 value == nullptr ? "none" : describe(*value));
}

Status Fields::status() const {
  if (error_) return *error_;
  return Ok{};
}

void Fields::read(const char* name, bool& target) {
  const ordered_json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return refuse(name, "true or false");
  target = value->get<bool>();
}

void Fields::read(const char* name, std::string& target) {
  const ordered_json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_string()) return refuse(name, "a string");
  target = value->get<std::string>();
}

void Fields::read(const char* name, float& target) {
  const ordered_json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_number() || std::abs(value->get<double>()) > FLT_MAX) {
    return refuse(name, "a number");
  }
  target = value->get<float>();
}

void Fields::read(const char* name, int64_t& target, int64_t low, int64_t high) {
  const ordered_json* value = find(name);
  if (value == nullptr) return;
  const std::optional<int64_t> number = whole_number(*value);
  if (number && *number >= low && *number <= high) {
    target = *number;
  } else if (high == INT64_MAX) {
    refuse(name,
           low == INT64_MIN ? "a whole number" : fmt::format("a whole number from {} up", low));
  } else {
    refuse(name, fmt::format("a whole number from {} to {}", low, high));
  }
}

void Fields::read_one_of(const char* name, std::string& target,
                         std::initializer_list<std::string_view> words) {
  const ordered_json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_string() ||
      std::ranges::find(words, value->get_ref<const std::string&>()) == words.end()) {
    return refuse(name, fmt::format("one of {}", fmt::join(words, ", ")));
  }
  target = value->get<std::string>();
}

void Fields::read_structured(const char* name, ordered_json& target, std::string_view kind) {
  const ordered_json* value = find(name);
  if (value == nullptr) return;
  if (!(kind == "an object" ? value->is_object() : value->is_array())) return refuse(name, kind);
  target = *value;
}

}  // namespace hf2q
