#pragma once
// Rules for the JSON texts that follow a schema. Every text of the rules is valid under the schema;
// of the valid texts those are left out that models do not write:
//
// - Properties come in the schema's order (in tool calls sorted by their names in lower case, as
// the
//   model learned them); those that are not required may be left out. Where the schema does not say
//   `additionalProperties`, there are no others, but for an object schema without `properties`.
//   Additional properties come last, with keys that need no escapes.
// - White space and numbers as in value_text.h. Strings with `pattern` or `format`: characters are
//   escaped only where they have to be.
// - `enum` and `const`: in their shortest spelling.
// - A schema without `type` is for the types that its keywords are about, or for any.
//
// Keywords: type, properties, required, additionalProperties, items, prefixItems, minItems,
// maxItems, minLength, maxLength, pattern (pattern.h), format (date, time, date-time, uuid, ipv4),
// minimum, maximum, exclusiveMinimum and exclusiveMaximum of integers, enum, const, anyOf, oneOf
// (its alternatives are taken as such: that exactly one matches is not checked), allOf (objects are
// joined), $ref into the same document, $defs and definitions, nullable. Annotations ($schema, $id,
// $comment, title, description, default, examples, deprecated, readOnly, writeOnly, strict) are
// ignored.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/result.h"
#include "grammar/rule_builder.h"
#include "grammar/value_text.h"

namespace hf2q {

inline constexpr size_t kMaxSchemaDepth = 64;
inline constexpr size_t kMaxSchemaValues = 20'000;

// Adds the rules and returns the number of the value's rule. kUnsupported naming place and keyword
// ("schema.properties.x: keyword 'y' is not supported"), for a schema that needs more than
// RuleBuilder::kMaxStates, and for references that are not into the document; kInvalidArgument for
// what is no schema, for one that no value follows, and for a schema that is larger or nests deeper
// than the limits above.
Result<uint32_t> add_json_schema(RuleBuilder& builder, const nlohmann::ordered_json& schema);
// The same in the given spelling; messages begin with `what`.
Result<uint32_t> add_schema(ValueText& text, const nlohmann::ordered_json& schema,
                            const std::string& what);

}  // namespace hf2q
