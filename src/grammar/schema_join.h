#pragma once
// Two JSON schemas that hold at the same time, as one.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hf2q {

// Keywords that say nothing about a value.
bool is_annotation(std::string_view keyword);

// What both schemas, which are objects without $ref and allOf at their top, ask for: properties of
// both, a property of both as their allOf, required ones of either, types and values of both, the
// narrower bounds. kUnsupported naming `where` and the keyword that both have and that cannot be
// joined so.
Result<nlohmann::ordered_json> join_schemas(const nlohmann::ordered_json& a,
                                            const nlohmann::ordered_json& b,
                                            const std::string& where);

}  // namespace hf2q
