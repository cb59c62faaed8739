#include "grammar/schema_join.h"

#include <algorithm>

namespace hf2q {
namespace {

using Json = nlohmann::ordered_json;

Json as_array(const Json& value) {
  return value.is_array() ? value : Json::array({value});
}

bool has(const Json& array, const Json& value) {
  return std::ranges::find(array, value) != array.end();
}

Json common(const Json& a, const Json& b) {
  Json result = Json::array();
  for (const Json& value : as_array(a)) {
    if (has(as_array(b), value)) result.push_back(value);
  }
  return result;
}

// "integer" is what "integer" and "number" have in common.
Json common_types(const Json& a, const Json& b) {
  Json result = common(a, b);
  const Json integer = "integer";
  const Json number = "number";
  const auto narrower = [&](const Json& one, const Json& other) {
    return has(one, integer) && has(other, number) && !has(result, integer);
  };
  const Json one = as_array(a);
  const Json other = as_array(b);
  if (!has(result, number) && (narrower(one, other) || narrower(other, one))) {
    result.push_back(integer);
  }
  return result;
}

Json joined_properties(const Json& a, const Json& b) {
  Json result = a;
  for (const auto& [name, schema] : b.items()) {
    if (!result.contains(name)) {
      result[name] = schema;
    } else if (result[name] != schema) {
      result[name] = {{"allOf", Json::array({result[name], schema})}};
    }
  }
  return result;
}

Json joined_names(const Json& a, const Json& b) {
  Json result = a;
  for (const Json& name : b) {
    if (!has(result, name)) result.push_back(name);
  }
  return result;
}

// Whether `a` refuses a property that only `b` names.
bool refuses_properties(const Json& a, const Json& b) {
  const auto additional = a.find("additionalProperties");
  if (additional == a.end() || *additional == true || !b.contains("properties")) return false;
  const Json known = a.value("properties", Json::object());
  return std::ranges::any_of(b["properties"].items(),
                             [&](const auto& item) { return !known.contains(item.key()); });
}

Error cannot_join(const std::string& where, std::string_view keyword) {
  return error(ErrorCode::kUnsupported,
               "{}: keyword '{}' in schemas that hold at the same time is not supported", where,
               keyword);
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  static constexpr std::string_view kAnnotations[] = {
      "$schema",  "$id",        "$comment", "title",     "description", "default",
      "examples", "deprecated", "readOnly", "writeOnly", "strict",      "example"};
  return std::ranges::find(kAnnotations, keyword) != std::end(kAnnotations);
}

Result<Json> join_schemas(const Json& a, const Json& b, const std::string& where) {
  if (refuses_properties(a, b) || refuses_properties(b, a)) {
    return cannot_join(where, "additionalProperties");
  }
  Json result = a;
  for (const auto& [key, value] : b.items()) {
    if (is_annotation(key) || key == "$defs" || key == "definitions") continue;
    if (!result.contains(key) || result[key] == value) {
      result[key] = value;
      continue;
    }
    Json& mine = result[key];
    if (key == "properties" && mine.is_object() && value.is_object()) {
      mine = joined_properties(mine, value);
    } else if (key == "required" && mine.is_array() && value.is_array()) {
      mine = joined_names(mine, value);
    } else if (key == "type") {
      mine = common_types(mine, value);
    } else if (key == "enum" && mine.is_array() && value.is_array()) {
      mine = common(mine, value);
    } else if (key.starts_with("min") && mine.is_number() && value.is_number()) {
      mine = std::max(mine, value);
    } else if (key.starts_with("max") && mine.is_number() && value.is_number()) {
      mine = std::min(mine, value);
    } else {
      return cannot_join(where, key);
    }
  }
  return result;
}

}  // namespace hf2q
