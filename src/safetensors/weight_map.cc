#include "safetensors/weight_map.h"

#include "base/json.h"
#include "base/quote.h"

namespace hf2q {
namespace {

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kForbidden("/\\:\0", 4);
  return !name.empty() && name != "." && name.find("..") == std::string_view::npos &&
         name.find_first_of(kForbidden) == std::string_view::npos;
}

}  // namespace

Result<WeightMap> parse_weight_map(std::string_view text, const std::string& name) {
  simdjson::dom::parser parser;
  TRY(root, parse_json(parser, text, name));
  simdjson::dom::object object;
  if (root["weight_map"].get(object) != simdjson::SUCCESS) {
    return error(ErrorCode::kCorrupt, "{}: an object with the object weight_map expected", name);
  }
  WeightMap map;
  for (const auto& field : object) {
    std::string_view part;
    if (field.value.get(part) != simdjson::SUCCESS) {
      return error(ErrorCode::kCorrupt, "{}: weight_map: {}: a file name expected, found {}", name,
                   quote(field.key), describe(field.value));
    }
    if (!is_plain_file_name(part)) {
      return error(ErrorCode::kCorrupt,
                   "{}: weight_map: {}: the name of a file in the same folder expected, found {}",
                   name, quote(field.key), quote(part));
    }
    map.emplace_back(field.key, part);
  }
  if (map.empty()) return error(ErrorCode::kCorrupt, "{}: weight_map is empty", name);
  return map;
}

}  // namespace hf2q
