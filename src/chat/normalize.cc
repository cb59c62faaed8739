#include "chat/normalize.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/quote.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

template <class... Args>
Error invalid(const std::string& place, fmt::format_string<Args...> text, Args&&... args) {
  return error(ErrorCode::kInvalidArgument, "{}: {}", place,
               fmt::format(text, std::forward<Args>(args)...));
}

std::string indexed(std::string_view name, size_t index) {
  return fmt::format("{}[{}]", name, index);
}

// object[name], null where it is absent.
const ordered_json& member(const ordered_json& object, const char* name) {
  static const ordered_json kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

// ---- messages ----

Status check_part(const std::string& place, const ordered_json& part) {
  if (!part.is_object() || !member(part, "type").is_string()) {
    return invalid(place, "an object with a type expected");
  }
  if (part["type"] == "text" && !member(part, "text").is_string()) {
    return invalid(place + ".text", "a string expected, found {}",
                   member(part, "text").type_name());
  }
  return Ok{};
}

Status check_content(const std::string& place, const ordered_json& message) {
  const ordered_json& content = member(message, "content");
  if (content.is_string()) return Ok{};
  if (content.is_array()) {
    for (size_t i = 0; i < content.size(); ++i) TRY_OK(check_part(indexed(place, i), content[i]));
    return Ok{};
  }
  const std::string& role = message["role"].get_ref<const std::string&>();
  if (content.is_null() && role == "assistant") return Ok{};
  if (content.is_object() && role == "tool") return Ok{};
  return invalid(place, "a string or a list of parts expected, found {}", content.type_name());
}

// JSON text becomes an object; none and the empty text, which clients send where a function takes
// no arguments, become an empty one.
Status normalize_arguments(const std::string& place, ordered_json& function) {
  ordered_json& arguments = function["arguments"];
  if (arguments.is_null()) arguments = ordered_json::object();
  if (arguments.is_string()) {
    const auto& text = arguments.get_ref<const std::string&>();
    const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
    ordered_json parsed =
        blank ? ordered_json::object() : ordered_json::parse(text, nullptr, false);
    if (parsed.is_discarded()) return invalid(place, "malformed JSON: {}", quote(text));
    TRY_OK(check_nesting(place, parsed));
    arguments = std::move(parsed);
  }
  if (arguments.is_object()) return Ok{};
  return invalid(place, "a JSON object expected, found {}", arguments.type_name());
}

Status normalize_call(const std::string& place, ordered_json& call) {
  if (!call.is_object()) return invalid(place, "an object expected, found {}", call.type_name());
  if (!call.contains("function")) return invalid(place + ".function", "missing");
  ordered_json& function = call["function"];
  if (!function.is_object() || !member(function, "name").is_string()) {
    return invalid(place + ".function", "an object with a name expected");
  }
  return normalize_arguments(place + ".function.arguments", function);
}

Status normalize_message(const std::string& place, ordered_json& message) {
  if (!message.is_object())
    return invalid(place, "an object expected, found {}", message.type_name());
  if (!member(message, "role").is_string()) {
    return invalid(place + ".role", "a string expected, found {}",
                   member(message, "role").type_name());
  }
  TRY_OK(check_content(place + ".content", message));
  if (member(message, "tool_calls").is_null()) {
    message.erase("tool_calls");
    return Ok{};
  }
  ordered_json& calls = message["tool_calls"];
  if (!calls.is_array())
    return invalid(place + ".tool_calls", "a list expected, found {}", calls.type_name());
  for (size_t i = 0; i < calls.size(); ++i) {
    TRY_OK(normalize_call(indexed(place + ".tool_calls", i), calls[i]));
  }
  return Ok{};
}

// ---- tools ----

bool is_null_type(const ordered_json& schema) {
  return schema.is_object() && member(schema, "type") == "null";
}

// anyOf and oneOf: the keys of the first alternative that is not null, where the schema has none.
Status take_alternative(const std::string& place, ordered_json& schema, const char* key) {
  const auto found = schema.find(key);
  if (found == schema.end()) return Ok{};
  const ordered_json alternatives = *found;
  schema.erase(key);
  if (!alternatives.is_array()) return invalid(place, "a list expected as {}", key);
  if (std::any_of(alternatives.begin(), alternatives.end(), is_null_type))
    schema["nullable"] = true;
  const auto chosen = std::find_if(alternatives.begin(), alternatives.end(), [](const auto& one) {
    return one.is_object() && !is_null_type(one);
  });
  if (chosen == alternatives.end()) return Ok{};
  for (const auto& [name, value] : chosen->items()) {
    if (!schema.contains(name)) schema[name] = value;
  }
  return Ok{};
}

// The type that a schema without one can only mean; nullptr where that is open.
const char* implied_type(const ordered_json& schema) {
  if (schema.contains("properties")) return "object";
  if (schema.contains("items")) return "array";
  const ordered_json& values = member(schema, "enum");
  const bool texts =
      values.is_array() && !values.empty() &&
      std::all_of(values.begin(), values.end(), [](const auto& v) { return v.is_string(); });
  return texts ? "string" : nullptr;
}

Status normalize_type(const std::string& place, ordered_json& schema) {
  const ordered_json type = member(schema, "type");
  if (type.is_string()) return Ok{};
  if (type.is_null()) {
    schema.erase("type");
    if (const char* implied = implied_type(schema)) schema["type"] = implied;
    return Ok{};
  }
  if (!type.is_array()) return invalid(place + ".type", "a string or a list expected");
  schema.erase("type");
  for (const ordered_json& one : type) {
    if (!one.is_string()) return invalid(place + ".type", "a list of strings expected");
    if (one == "null") {
      schema["nullable"] = true;
    } else if (!schema.contains("type")) {
      schema["type"] = one;
    }
  }
  return Ok{};
}

Status normalize_schema(const std::string& place, ordered_json& schema);

Status normalize_properties(const std::string& place, ordered_json& properties) {
  if (!properties.is_object()) {
    return invalid(place, "an object expected, found {}", properties.type_name());
  }
  for (const auto& [name, property] : properties.items()) {
    if (property.is_boolean()) property = ordered_json::object();  // JSON Schema: anything goes
    TRY_OK(normalize_schema(fmt::format("{}.{}", place, name), property));
  }
  return Ok{};
}

// Recursion is bounded by kMaxJsonNesting, which has been checked.
Status normalize_schema(const std::string& place, ordered_json& schema) {
  if (!schema.is_object())
    return invalid(place, "an object expected, found {}", schema.type_name());
  TRY_OK(take_alternative(place, schema, "anyOf"));
  TRY_OK(take_alternative(place, schema, "oneOf"));
  TRY_OK(normalize_type(place, schema));
  if (!member(schema, "properties").is_null()) {
    TRY_OK(normalize_properties(place + ".properties", schema["properties"]));
  }
  if (member(schema, "items").is_object()) {
    TRY_OK(normalize_schema(place + ".items", schema["items"]));
  }
  return Ok{};
}

Status normalize_tool(const std::string& place, ordered_json& tool) {
  if (!tool.is_object()) return invalid(place, "an object expected, found {}", tool.type_name());
  const bool wrapped = tool.contains("function");
  ordered_json& function = wrapped ? tool["function"] : tool;
  if (!function.is_object() || !member(function, "name").is_string()) {
    return invalid(place, "a function with a name expected");
  }
  const std::string parameters = place + (wrapped ? ".function.parameters" : ".parameters");
  if (member(function, "parameters").is_null()) return Ok{};
  return normalize_schema(parameters, function["parameters"]);
}

}  // namespace

Status check_nesting(std::string_view place, const ordered_json& json) {
  std::vector<const ordered_json*> level = {&json};
  for (int depth = 0; !level.empty(); ++depth) {
    if (depth > kMaxJsonNesting) {
      return invalid(std::string(place), "nested more than {} deep", kMaxJsonNesting);
    }
    std::vector<const ordered_json*> next;
    for (const ordered_json* value : level) {
      if (!value->is_structured()) continue;
      for (const ordered_json& child : *value) next.push_back(&child);
    }
    level = std::move(next);
  }
  return Ok{};
}

Result<ordered_json> normalized_messages(const ordered_json& messages) {
  if (!messages.is_array() || messages.empty()) {
    return invalid("messages", "a list of at least one message expected");
  }
  TRY_OK(check_nesting("messages", messages));
  ordered_json chat = messages;
  for (size_t i = 0; i < chat.size(); ++i) {
    TRY_OK(normalize_message(indexed("messages", i), chat[i]));
  }
  return chat;
}

Result<ordered_json> normalized_tools(const ordered_json& tools) {
  if (tools.is_null()) return ordered_json();
  if (!tools.is_array()) return invalid("tools", "a list expected, found {}", tools.type_name());
  if (tools.empty()) return ordered_json();
  TRY_OK(check_nesting("tools", tools));
  ordered_json declared = tools;
  for (size_t i = 0; i < declared.size(); ++i) {
    TRY_OK(normalize_tool(indexed("tools", i), declared[i]));
  }
  return declared;
}

}  // namespace hf2q
