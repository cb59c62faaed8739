#include "grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "grammar/integer_range.h"
#include "grammar/pattern.h"
#include "grammar/schema_join.h"

namespace hf2q {
namespace {

using Fragment = RuleBuilder::Fragment;
using Json = nlohmann::ordered_json;

// Schemas that are looked at, references included, and what it costs to join schemas.
constexpr size_t kMaxSchemaSteps = 10'000;
constexpr size_t kComparisonsOfStep = 256;

constexpr std::string_view kAllTypes[] = {"object", "array", "string", "number", "boolean", "null"};

// Keywords that are about values of one type.
struct TypedKeyword {
  std::string_view name;
  std::string_view type;
};
constexpr TypedKeyword kTypedKeywords[] = {{"properties", "object"},
                                           {"required", "object"},
                                           {"additionalProperties", "object"},
                                           {"items", "array"},
                                           {"prefixItems", "array"},
                                           {"minItems", "array"},
                                           {"maxItems", "array"},
                                           {"minLength", "string"},
                                           {"maxLength", "string"},
                                           {"pattern", "string"},
                                           {"format", "string"},
                                           {"minimum", "integer"},
                                           {"maximum", "integer"},
                                           {"exclusiveMinimum", "integer"},
                                           {"exclusiveMaximum", "integer"}};
constexpr std::string_view kOtherKeywords[] = {"type",  "enum", "const", "anyOf",       "oneOf",
                                               "allOf", "$ref", "$defs", "definitions", "nullable"};

// Days that every year has.
#define HF2Q_DATE                                           \
  "[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|" \
  "(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
#define HF2Q_TIME                                                \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?" \
  "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define HF2Q_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
struct Format {
  std::string_view name;
  std::string_view pattern;
};
constexpr Format kFormats[] = {
    {"date", "^" HF2Q_DATE "$"},
    {"time", "^" HF2Q_TIME "$"},
    {"date-time", "^" HF2Q_DATE "T" HF2Q_TIME "$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"ipv4", "^(?:" HF2Q_OCTET "\\.){3}" HF2Q_OCTET "$"},
};
#undef HF2Q_DATE
#undef HF2Q_TIME
#undef HF2Q_OCTET

struct SchemaSize {
  size_t depth = 0;  // of arrays and objects inside of one another
  size_t n_values = 0;
};

// Without recursion.
SchemaSize size_of(const Json& root) {
  std::vector<std::pair<const Json*, size_t>> todo = {{&root, 1}};
  SchemaSize size;
  while (!todo.empty()) {
    const auto [value, depth] = todo.back();
    todo.pop_back();
    ++size.n_values;
    if (!value->is_structured()) continue;
    size.depth = std::max(size.depth, depth);
    for (const Json& item : *value) todo.emplace_back(&item, depth + 1);
  }
  return size;
}

Error unsupported_keyword(const std::string& where, std::string_view keyword) {
  return error(ErrorCode::kUnsupported, "{}: keyword '{}' is not supported", where, keyword);
}

Error unsupported_beside(const std::string& where, std::string_view keyword,
                         std::string_view other) {
  return error(ErrorCode::kUnsupported, "{}: keyword '{}' beside '{}' is not supported", where,
               keyword, other);
}

Error not_expected(const std::string& where, std::string_view keyword, std::string_view expected,
                   const Json& found) {
  const std::string shown = found.is_structured()
                                ? (found.is_array() ? "an array" : "an object")
                                : quote(found.dump(-1, ' ', false, Json::error_handler_t::replace));
  return error(ErrorCode::kInvalidArgument, "{}.{}: {} expected, found {}", where, keyword,
               expected, shown);
}

bool is_type_of(std::string_view type, const Json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

class SchemaCompiler {
 public:
  SchemaCompiler(ValueText& text, const Json& root, const std::string& what)
      : text_(text), builder_(text.builder()), root_(root), what_(what) {}

  Result<uint32_t> run() {
    const auto [depth, n_values] = size_of(root_);
    if (depth > kMaxSchemaDepth || n_values > kMaxSchemaValues) {
      return error(ErrorCode::kInvalidArgument,
                   "{}: at most {} values nested at most {} deep expected, found {} and {}", what_,
                   kMaxSchemaValues, kMaxSchemaDepth, n_values, depth);
    }
    TRY(root, rule_of_reference("#", what_));
    // References are compiled one after another, so that a chain of them needs no deep stack.
    for (size_t i = 0; i < references_.size() && !builder_.too_large(); ++i) {
      const Reference reference = references_[i];
      TRY(body, value(*reference.schema, reference.where));
      builder_.define(reference.rule, body);
    }
    if (builder_.too_large()) return too_large();
    return root;
  }

 private:
  struct Reference {
    const Json* schema;
    uint32_t rule;
    std::string where;
  };

  Result<Fragment> value(const Json& schema, const std::string& where) {
    if (schema == true) return any_value();
    if (schema == false) return builder_.nothing();
    if (!schema.is_object()) {
      return error(ErrorCode::kInvalidArgument, "{}: a schema (an object) expected", where);
    }
    TRY_OK(count_step(where));
    TRY_OK(check_keywords(schema, where));
    if (schema.contains("$ref") && says_only(schema, "$ref")) {
      TRY(rule, rule_of_reference(schema["$ref"], where));
      return builder_.call(rule);
    }
    if (schema.contains("$ref") || schema.contains("allOf")) {
      TRY(flat, flatten(schema, where, 0));
      return value(flat, where);
    }
    for (const std::string_view keyword : {"const", "enum"}) {
      if (schema.contains(keyword)) return listed_values(schema, keyword, where);
    }
    for (const std::string_view keyword : {"anyOf", "oneOf"}) {
      if (schema.contains(keyword)) return alternatives(schema, std::string(keyword), where);
    }
    TRY(types, types_of(schema, where));
    const Fragment result = builder_.nothing();
    for (const std::string& type : types) {
      TRY(body, value_of_type(type, schema, where));
      builder_.link(result.start, body, result.end);
    }
    return result;
  }

  Status count_step(const std::string& where) {
    if (builder_.too_large()) return too_large();
    if (++n_steps_ <= kMaxSchemaSteps) return Ok{};
    return error(ErrorCode::kUnsupported, "{}: too large a schema: at most {} parts expected",
                 where, kMaxSchemaSteps);
  }

  Error too_large() const {
    return error(ErrorCode::kUnsupported, "{}: rules of at most {} states expected, found more",
                 what_, RuleBuilder::kMaxStates);
  }

  static Status check_keywords(const Json& schema, const std::string& where) {
    for (const auto& [key, content] : schema.items()) {
      const bool known =
          is_annotation(key) ||
          std::ranges::find(kTypedKeywords, key, &TypedKeyword::name) != std::end(kTypedKeywords) ||
          std::ranges::find(kOtherKeywords, key) != std::end(kOtherKeywords) ||
          (key == "uniqueItems" && content == false);
      if (!known) return unsupported_keyword(where, key);
    }
    return Ok{};
  }

  // Whether no other keyword says anything about the value.
  static bool says_only(const Json& schema, std::string_view keyword) {
    return std::ranges::all_of(schema.items(), [&](const auto& item) {
      return item.key() == keyword || item.key() == "$defs" || item.key() == "definitions" ||
             is_annotation(item.key());
    });
  }

  // "#" and "#/a/0/b", with ~0 and ~1.
  Result<const Json*> find_reference(const Json& reference, const std::string& where) {
    const std::string text = reference.is_string() ? reference.get<std::string>() : "";
    if (text != "#" && !text.starts_with("#/")) {
      return error(ErrorCode::kUnsupported,
                   "{}.$ref: a reference into the schema (#/...) expected, found {}", where,
                   reference.is_string() ? quote(text) : "no text");
    }
    const Json* at = &root_;
    for (size_t begin = 1; begin < text.size();) {
      const size_t end = std::min(text.find('/', begin + 1), text.size());
      const std::string name = unescaped(text.substr(begin + 1, end - begin - 1));
      begin = end;
      if (const Json* member = find_member(*at, name)) {
        at = member;
        continue;
      }
      const bool index = at->is_array() && !name.empty() && name.size() < 7 &&
                         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; }) &&
                         std::stoul(name) < at->size();
      if (!index) {
        return error(ErrorCode::kInvalidArgument, "{}.$ref: {} is not in the schema", where,
                     quote(text));
      }
      at = &(*at)[std::stoul(name)];
    }
    return at;
  }

  // Objects of ordered_json are searched from the beginning: those that references go through get
  // an index.
  const Json* find_member(const Json& object, const std::string& name) {
    if (!object.is_object()) return nullptr;
    const auto [index, is_new] = members_.try_emplace(&object);
    if (is_new) {
      for (const auto& [key, content] : object.items()) index->second.emplace(key, &content);
    }
    const auto found = index->second.find(name);
    return found == index->second.end() ? nullptr : found->second;
  }

  static std::string unescaped(const std::string& name) {
    std::string result;
    for (size_t i = 0; i < name.size(); ++i) {
      const bool escape = name[i] == '~' && i + 1 < name.size() && (name[i + 1] | 1) == '1';
      result += escape ? (name[++i] == '0' ? '~' : '/') : name[i];
    }
    return result;
  }

  Result<uint32_t> rule_of_reference(const Json& reference, const std::string& where) {
    TRY(schema, find_reference(reference, where));
    const auto [found, is_new] = rules_.try_emplace(schema, 0);
    if (is_new) {
      const auto name = reference.get<std::string>();
      found->second = builder_.declare(name == "#" ? what_ : name);
      references_.push_back({schema, found->second, name == "#" ? what_ : name});
    }
    return found->second;
  }

  // The schema as one without $ref and allOf at its top.
  Result<Json> flatten(const Json& schema, const std::string& where, size_t depth) {
    if (!schema.is_object()) {
      return error(ErrorCode::kInvalidArgument, "{}: a schema (an object) expected", where);
    }
    if (depth > kMaxSchemaDepth) {
      return error(ErrorCode::kInvalidArgument,
                   "{}: allOf and $ref at most {} deep expected, found more", where,
                   kMaxSchemaDepth);
    }
    TRY_OK(count_step(where));
    TRY_OK(check_keywords(schema, where));
    Json result = schema;
    result.erase("$ref");
    result.erase("allOf");
    if (schema.contains("$ref")) {
      TRY(target, find_reference(schema["$ref"], where));
      TRY_OK(join_flat(result, *target, where, depth));
    }
    if (!schema.contains("allOf")) return result;
    if (!schema["allOf"].is_array()) {
      return not_expected(where, "allOf", "an array of schemas", schema["allOf"]);
    }
    for (const Json& part : schema["allOf"]) {
      TRY_OK(join_flat(result, part, where, depth));
    }
    return result;
  }

  Status join_flat(Json& into, const Json& part, const std::string& where, size_t depth) {
    if (part == true) return Ok{};
    TRY(flat, flatten(part, where + ".allOf", depth + 1));
    for (const auto& [key, content] : flat.items()) {
      if (into.contains(key)) n_steps_ += into[key].size() * content.size() / kComparisonsOfStep;
    }
    TRY_OK(count_step(where));
    TRY(joined, join_schemas(into, flat, where));
    into = std::move(joined);
    return Ok{};
  }

  Result<Fragment> listed_values(const Json& schema, std::string_view keyword,
                                 const std::string& where) {
    const bool is_enum = keyword == "enum";
    for (const auto& [key, content] : schema.items()) {
      if (key == keyword || key == "type" || key == "nullable" || is_annotation(key) ||
          key == "$defs" || key == "definitions" || key == "uniqueItems") {
        continue;
      }
      return unsupported_beside(where, key, keyword);
    }
    const Json& content = schema[std::string(keyword)];
    if (is_enum && !content.is_array()) return not_expected(where, keyword, "an array", content);
    TRY(types, types_of(schema, where));
    const Fragment result = builder_.nothing();
    const Json values = is_enum ? content : Json::array({content});
    for (const Json& item : values) {
      const bool fits = std::ranges::any_of(
          types, [&](const std::string& type) { return is_type_of(type, item); });
      if (!fits && schema.contains("type")) continue;
      builder_.link(result.start, text_.literal(item), result.end);
    }
    return result;
  }

  // Each alternative together with what stands beside them.
  Result<Fragment> alternatives(const Json& schema, const std::string& keyword,
                                const std::string& where) {
    const Json& list = schema[keyword];
    if (!list.is_array()) return not_expected(where, keyword, "an array of schemas", list);
    Json beside = schema;
    beside.erase(keyword);
    const bool alone = says_only(schema, keyword);
    const Fragment result = builder_.nothing();
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = fmt::format("{}.{}[{}]", where, keyword, i);
      const Json joined = alone ? Json() : Json{{"allOf", Json::array({beside, list[i]})}};
      TRY(body, value(alone ? list[i] : joined, place));
      builder_.link(result.start, body, result.end);
    }
    return result;
  }

  Result<std::vector<std::string>> types_of(const Json& schema, const std::string& where) const {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      for (const Json& name : type.is_array() ? type : Json::array({type})) {
        const bool known =
            name.is_string() &&
            (name == "integer" ||
             std::ranges::find(kAllTypes, name.get<std::string>()) != std::end(kAllTypes));
        if (!known) return not_expected(where, "type", "the name of a type", name);
        types.push_back(name);
      }
      if (schema.contains("nullable") && schema["nullable"] == true) types.emplace_back("null");
    } else {
      for (const TypedKeyword& keyword : kTypedKeywords) {
        if (schema.contains(keyword.name)) types.emplace_back(keyword.type);
      }
      if (types.empty()) types.assign(std::begin(kAllTypes), std::end(kAllTypes));
    }
    std::ranges::sort(types);
    types.erase(std::unique(types.begin(), types.end()), types.end());
    if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
    return types;
  }

  Result<Fragment> value_of_type(std::string_view type, const Json& schema,
                                 const std::string& where) {
    if (type == "object") return object(schema, where);
    if (type == "array") return array(schema, where);
    if (type == "string") return string(schema, where);
    if (type == "integer") return integer(schema, where);
    if (type == "number") return number(schema, where);
    if (type == "null") return builder_.bytes("null");
    return builder_.either(builder_.bytes("true"), builder_.bytes("false"));
  }

  Result<Fragment> any_value() {
    if (!any_value_) {
      any_value_ = builder_.declare("any value");
      TRY(body, value(Json::object(), "any value"));
      builder_.define(*any_value_, body);
    }
    return builder_.call(*any_value_);
  }

  Result<uint32_t> rule_of_value(const Json& schema, const std::string& where) {
    TRY(body, value(schema, where));
    return builder_.add_rule(where, body);
  }

  struct Property {
    std::string name;
    bool required = false;
    uint32_t rule = 0;
  };

  Result<std::vector<Property>> properties_of(const Json& schema, const std::string& where) {
    const Json none = Json::object();
    const Json& listed = schema.contains("properties") ? schema["properties"] : none;
    if (!listed.is_object()) return not_expected(where, "properties", "an object", listed);
    std::vector<Property> result;
    for (const auto& [name, content] : listed.items()) {
      TRY(rule, rule_of_value(content, fmt::format("{}.properties.{}", where, name)));
      result.push_back({name, false, rule});
    }
    if (schema.contains("required")) {
      TRY_OK(mark_required(schema, where, result));
    }
    if (!text_.is_json()) {
      const auto lower = [](const Property& property) {
        std::string name = property.name;
        for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
        return name;
      };
      std::ranges::stable_sort(result, {}, lower);
    }
    return result;
  }

  // Names that are not among the properties follow the schema of additional ones.
  Status mark_required(const Json& schema, const std::string& where, std::vector<Property>& known) {
    const Json& names = schema["required"];
    if (!names.is_array()) return not_expected(where, "required", "an array of names", names);
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < known.size(); ++i) index.emplace(known[i].name, i);
    for (const Json& name : names) {
      if (!name.is_string()) return not_expected(where, "required", "an array of names", name);
      const auto [found, is_new] = index.try_emplace(name, known.size());
      if (is_new) {
        const Json any = true;
        const bool given = schema.contains("additionalProperties");
        TRY(rule, rule_of_value(given ? schema["additionalProperties"] : any,
                                where + ".additionalProperties"));
        known.push_back({name, false, rule});
      }
      known[found->second].required = true;
    }
    return Ok{};
  }

  Result<Fragment> object(const Json& schema, const std::string& where) {
    TRY(properties, properties_of(schema, where));
    const auto opened = builder_.bytes("{");
    const uint32_t closed = builder_.new_state();
    uint32_t none = opened.end;  // no property so far
    uint32_t some = builder_.new_state();
    const auto member = [&](Fragment before, Fragment key, uint32_t rule) {
      return builder_.sequence({before, key, text_.colon(), builder_.call(rule)});
    };
    std::vector<std::string> names;
    for (const Property& property : properties) {
      names.push_back(property.name);
      const uint32_t next_none = builder_.new_state();
      const uint32_t next_some = builder_.new_state();
      const auto key = [&] { return text_.key(property.name); };
      builder_.link(none, member(text_.space(), key(), property.rule), next_some);
      builder_.link(some, member(text_.comma(), key(), property.rule), next_some);
      if (!property.required) {
        builder_.link(none, next_none);
        builder_.link(some, next_some);
      }
      none = next_none;
      some = next_some;
    }
    const Json any = properties.empty();
    const Json& other =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : any;
    if (other != false) {
      TRY(rule, rule_of_value(other, where + ".additionalProperties"));
      const uint32_t key = builder_.add_rule(where, text_.other_key(names));
      builder_.link(none, member(text_.space(), builder_.call(key), rule), some);
      builder_.link(some, member(text_.comma(), builder_.call(key), rule), some);
    }
    builder_.link(none, builder_.bytes("}"), closed);
    builder_.link(some, builder_.sequence(text_.space(), builder_.bytes("}")), closed);
    return Fragment{opened.start, closed};
  }

  // A number of elements or characters: 0 to kMaxRepeats.
  static Result<uint32_t> count_of(const Json& schema, const std::string& keyword,
                                   uint32_t otherwise, const std::string& where) {
    if (!schema.contains(keyword)) return otherwise;
    const Json& value = schema[keyword];
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < 0 || number > RuleBuilder::kMaxRepeats || std::trunc(number) != number) {
      return not_expected(where, keyword,
                          fmt::format("an integer from 0 to {}", RuleBuilder::kMaxRepeats), value);
    }
    return static_cast<uint32_t>(number);
  }

  Result<Fragment> array(const Json& schema, const std::string& where) {
    TRY(min, count_of(schema, "minItems", 0, where));
    TRY(max, count_of(schema, "maxItems", RuleBuilder::kUnbounded, where));
    const Json prefix = schema.value("prefixItems", Json::array());
    if (!prefix.is_array()) return not_expected(where, "prefixItems", "an array", prefix);
    const Json any = true;
    const Json& items = schema.contains("items") ? schema["items"] : any;
    const auto opened = builder_.bytes("[");
    const uint32_t closed = builder_.new_state();
    uint32_t at = opened.end;
    uint32_t n = 0;
    const auto close = [&] {
      if (n < min) return;
      const Fragment end = builder_.bytes("]");
      builder_.link(at, n == 0 ? end : builder_.sequence(text_.space(), end), closed);
    };
    const auto add = [&](Fragment element) {
      close();
      const Fragment before = n == 0 ? text_.space() : text_.comma();
      builder_.link(at, before.start);
      at = builder_.sequence(before, element).end;
      ++n;
    };
    for (size_t i = 0; i < prefix.size() && n < max; ++i) {
      TRY(element, value(prefix[i], fmt::format("{}.prefixItems[{}]", where, i)));
      add(element);
    }
    if (items != false && n < max) {
      TRY(rule, rule_of_value(items, where + ".items"));
      add(builder_.call(rule));
      const Fragment more = builder_.repeat(
          builder_.sequence(text_.comma(), builder_.call(rule)), min > n ? min - n : 0,
          max == RuleBuilder::kUnbounded ? max : std::max(max, min) - n);
      builder_.link(at, more.start);
      at = more.end;
      n = std::max(n, min);
    }
    if (min <= max) close();
    return Fragment{opened.start, closed};
  }

  Result<Fragment> string(const Json& schema, const std::string& where) {
    TRY(min, count_of(schema, "minLength", 0, where));
    TRY(max, count_of(schema, "maxLength", RuleBuilder::kUnbounded, where));
    std::string_view pattern_keyword;
    for (const std::string_view keyword : {"pattern", "format", "minLength", "maxLength"}) {
      if (!schema.contains(keyword)) continue;
      if (!pattern_keyword.empty()) return unsupported_beside(where, keyword, pattern_keyword);
      if (keyword == "pattern" || keyword == "format") pattern_keyword = keyword;
    }
    if (pattern_keyword.empty()) {
      return min <= max ? text_.string(min, max) : builder_.nothing();
    }
    const Json& content = schema[std::string(pattern_keyword)];
    if (!content.is_string()) return not_expected(where, pattern_keyword, "a string", content);
    auto pattern = content.get<std::string>();
    if (pattern_keyword == "format") {
      const auto* format = std::ranges::find(kFormats, pattern, &Format::name);
      if (format == std::end(kFormats)) {
        return error(ErrorCode::kUnsupported, "{}: format {} is not supported", where,
                     quote(pattern));
      }
      pattern = format->pattern;
    }
    TRY(body, add_pattern(text_, pattern, where));
    return builder_.sequence({text_.quote(), body, text_.quote()});
  }

  // The bound of an integer, or `otherwise`; `exclusive` is added for an exclusive one.
  static Result<int64_t> bound_of(const Json& schema, const std::string& keyword, int exclusive,
                                  int64_t otherwise, const std::string& where) {
    if (!schema.contains(keyword)) return otherwise;
    const Json& value = schema[keyword];
    const auto limit = static_cast<double>(kMaxRangeInteger);
    if (!value.is_number() || !(std::abs(value.get<double>()) < limit)) {
      return not_expected(where, keyword, "a number of at most 18 digits", value);
    }
    if (value.is_number_integer()) return value.get<int64_t>() + exclusive;
    const double number = value.get<double>();
    const bool from_below = otherwise < 0;
    if (std::trunc(number) == number) return static_cast<int64_t>(number) + exclusive;
    return static_cast<int64_t>(from_below ? std::ceil(number) : std::floor(number));
  }

  Result<Fragment> integer(const Json& schema, const std::string& where) {
    constexpr int64_t kMost = kMaxRangeInteger;
    TRY(min, bound_of(schema, "minimum", 0, -kMost, where));
    TRY(above, bound_of(schema, "exclusiveMinimum", 1, -kMost, where));
    TRY(max, bound_of(schema, "maximum", 0, kMost, where));
    TRY(below, bound_of(schema, "exclusiveMaximum", -1, kMost, where));
    const int64_t first = std::max(min, above);
    const int64_t last = std::min(max, below);
    if (first == -kMost && last == kMost) return text_.integer();
    return first <= last ? integer_range(builder_, first, last) : builder_.nothing();
  }

  Result<Fragment> number(const Json& schema, const std::string& where) {
    for (const TypedKeyword& keyword : kTypedKeywords) {
      if (keyword.type == "integer" && schema.contains(keyword.name)) {
        return error(ErrorCode::kUnsupported,
                     "{}: keyword '{}' is not supported for numbers that are not integers", where,
                     keyword.name);
      }
    }
    return text_.number();
  }

  ValueText& text_;
  RuleBuilder& builder_;
  const Json& root_;
  const std::string& what_;
  size_t n_steps_ = 0;
  std::map<const Json*, uint32_t> rules_;  // of references
  std::map<const Json*, std::unordered_map<std::string, const Json*>> members_;
  std::vector<Reference> references_;
  std::optional<uint32_t> any_value_;
};

}  // namespace

Result<uint32_t> add_schema(ValueText& text, const Json& schema, const std::string& what) {
  return SchemaCompiler(text, schema, what).run();
}

Result<uint32_t> add_json_schema(RuleBuilder& builder, const Json& schema) {
  ValueText text(builder);
  return add_schema(text, schema, "schema");
}

}  // namespace hf2q
