#include "grammar/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <regex>

#include "grammar/grammar_for_tests.h"

namespace hf2q {
namespace {

using Json = nlohmann::ordered_json;
using grammar_test::matches;
using grammar_test::random_text;
using grammar_test::schema;
using testing::HasSubstr;

// Whether the value follows the schema, by the definitions of JSON Schema 2020-12.
bool follows(const Json& value, const Json& rule, const Json& root);

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
  }
  return type == (value.is_number()    ? "number"
                  : value.is_boolean() ? "boolean"
                                       : value.type_name());
}

bool follows_object(const Json& value, const Json& rule, const Json& root) {
  for (const Json& name : rule.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const Json properties = rule.value("properties", Json::object());
  for (const auto& [name, item] : value.items()) {
    const Json& part = properties.contains(name) ? properties[name]
                                                 : rule.value("additionalProperties", Json(true));
    if (!follows(item, part, root)) return false;
  }
  return true;
}

bool follows_array(const Json& value, const Json& rule, const Json& root) {
  if (value.size() < rule.value("minItems", size_t{0})) return false;
  if (value.size() > rule.value("maxItems", SIZE_MAX)) return false;
  const Json prefix = rule.value("prefixItems", Json::array());
  for (size_t i = 0; i < value.size(); ++i) {
    const Json part = i < prefix.size() ? prefix[i] : rule.value("items", Json(true));
    if (!follows(value[i], part, root)) return false;
  }
  return true;
}

bool follows_string(const std::string& text, const Json& rule) {
  const auto length =
      static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  if (length < rule.value("minLength", size_t{0}) || length > rule.value("maxLength", SIZE_MAX))
    return false;
  return !rule.contains("pattern") ||
         std::regex_search(text, std::regex(rule["pattern"].get<std::string>()));
}

bool follows(const Json& value, const Json& rule, const Json& root) {
  if (rule.is_boolean()) return rule.get<bool>();
  if (rule.contains("$ref") &&
      !follows(value, root.at(Json::json_pointer(rule["$ref"].get<std::string>().substr(1))),
               root)) {
    return false;
  }
  if (rule.contains("const") && value != rule["const"]) return false;
  const auto any_of = [](const Json& list, const auto& check) {
    return std::any_of(list.begin(), list.end(), check);
  };
  if (rule.contains("enum") && !any_of(rule["enum"], [&](const Json& one) { return one == value; }))
    return false;
  if (rule.contains("anyOf") &&
      !any_of(rule["anyOf"], [&](const Json& part) { return follows(value, part, root); }))
    return false;
  for (const Json& part : rule.value("allOf", Json::array())) {
    if (!follows(value, part, root)) return false;
  }
  if (rule.contains("type")) {
    const Json types = rule["type"].is_array() ? rule["type"] : Json::array({rule["type"]});
    if (!any_of(types, [&](const Json& type) { return has_type(value, type); })) return false;
  }
  if (value.is_number() && value.get<double>() < rule.value("minimum", -HUGE_VAL)) return false;
  if (value.is_number() && value.get<double>() > rule.value("maximum", HUGE_VAL)) return false;
  if (value.is_object()) return follows_object(value, rule, root);
  if (value.is_array()) return follows_array(value, rule, root);
  return !value.is_string() || follows_string(value.get<std::string>(), rule);
}

const char* const kSchemas[] = {
    "{}",
    R"({"type":"object"})",
    R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{}},"required":["b"]})",
    R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"type":"number"},"required":["x","a"]})",
    R"({"type":"object","properties":{"a":{"type":"null"},"ab":true,"é":false},"additionalProperties":{"type":"boolean"}})",
    R"({"type":"array","items":{"type":["integer","null"]},"minItems":2,"maxItems":4})",
    R"({"type":"array","prefixItems":[{"const":1},{"type":"string"}],"items":{"type":"boolean"},"minItems":1})",
    R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":false})",
    R"({"type":"string","minLength":2,"maxLength":5})",
    R"({"type":"string","pattern":"^[a-c]{2,3}(x|y+)?$"})",
    R"({"type":"string","pattern":"x.y|^a"})",
    R"({"type":"integer","minimum":-17,"maximum":1204})",
    R"({"enum":["a","é\n\"",1,1.5,null,{"k":[1,2]},true]})",
    R"({"anyOf":[{"type":"string"},{"type":"object","properties":{"k":{"const":"v"}},"required":["k"]}]})",
    R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string"}}}]})",
    R"({"type":"object","properties":{"k":{"type":"integer"}},"anyOf":[{"required":["k"]},{"properties":{"z":{"type":"null"}},"required":["z"]}]})",
    R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}}})",
    R"({"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},"required":["kids"]})",
};

TEST(JsonSchema, RandomTextsFollowTheSchema) {
  for (const char* text : kSchemas) {
    const Json rule = Json::parse(text);
    const Grammar::Shared grammar = schema(text);
    for (uint32_t seed = 0; seed < 100; ++seed) {
      const std::string answer = random_text(grammar, seed);
      const Json value = Json::parse(answer, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text << "\n" << answer;
      ASSERT_TRUE(follows(value, rule, rule)) << text << "\n" << answer;
    }
  }
}

struct Example {
  const char* schema;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};

TEST(JsonSchema, Examples) {
  const Example examples[] = {
      {kSchemas[2],
       {R"({"b":1})", R"({"a":"","b":-20,"c":[{}]})", R"({"a": "x", "b": 0})", "{\n  \"b\": 1\n}",
        R"({ "b": 1 })"},
       {R"({})", R"({"b":1,"a":""})", R"({"b":01})", R"({"b":1.5})", R"({"b":1,})", R"({"b":1} )",
        R"({"b":1,"d":1})", R"({  "b":1})"}},
      {"{}",
       {"null", "[]", "[1,[2]]", R"({"x":{"y":[true,false]}})", R"("\u00e9\ud83d\ude00")",
        "-0.5e+10", R"("é日")"},
       {"", "nul", "[1,]", R"("\ud83d")", R"("\u00e")", "01", "1.", "\"\x01\"", "\"\xC3\"",
        "\"\xED\xA0\x80\"", R"("\x")"}},
      {kSchemas[4],
       {R"({"b":true})", R"({"a":null,"abc":false,"ac":true})", R"({"":true})"},
       {R"({"a":true})", R"({"é":true})", R"({"b":1})"}},
      {kSchemas[11],
       {"-17", "0", "9", "10", "999", "1204"},
       {"-18", "-0", "1205", "00", "2000", "10000"}},
      {kSchemas[10],
       {R"("x-y")", R"("..x\"y..")", R"("a")", R"("a\n")"},
       {R"("xy")", R"("ba")", R"("x\ny")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-02-28T23:59:59Z")"},
       {R"("2024-13-01T00:00:00Z")", R"("2024-02-30T00:00:00Z")"}},
      {R"({"type":"string","format":"ipv4"})",
       {R"("127.0.0.1")", R"("255.255.255.255")"},
       {R"("256.0.0.1")", R"("1.2.3")"}},
      {R"({"type":"string","nullable":true,"maxLength":1,"title":"t","default":4})",
       {"null", R"("é")", R"("\n")"},
       {R"("ab")"}},
      {R"({"oneOf":[{"type":"integer","exclusiveMinimum":1.5,"exclusiveMaximum":4},{"const":"z"}]})",
       {"2", "3", R"("z")"},
       {"1", "4"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"properties":{"a/b~c":{"type":"integer"},"d":{"$ref":"#/properties/a~1b~0c"}}})",
       {R"({"a/b~c":1,"d":2})", "{}"},
       {R"({"d":""})"}},
  };
  for (const Example& example : examples) {
    const Grammar::Shared grammar = schema(example.schema);
    for (const char* text : example.good)
      EXPECT_TRUE(matches(grammar, text)) << example.schema << " " << text;
    for (const char* text : example.bad)
      EXPECT_FALSE(matches(grammar, text)) << example.schema << " " << text;
  }
}

// Of the processor, so that a busy machine changes nothing.
double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Sanitizers make everything several times slower.
constexpr double kRefusalSeconds = 0.05;

std::string refusal(const Json& rule) {
  const auto& vocabulary = grammar_test::vocabulary();
  const std::clock_t start = std::clock();
  const Result<Grammar::Shared> made = Grammar::from_json_schema(rule, vocabulary);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds_since(start), kRefusalSeconds);
#else
  EXPECT_LT(seconds_since(start), 40 * kRefusalSeconds);
#endif
  return made.ok() ? "accepted" : made.error().message;
}
std::string refusal_of(const std::string& text) {
  return refusal(Json::parse(text));
}
std::string pattern_refusal(const std::string& pattern) {
  return refusal({{"type", "string"}, {"pattern", pattern}});
}

TEST(JsonSchema, RefusesByName) {
  EXPECT_EQ(refusal_of(R"({"properties":{"x":{"type":"integer","multipleOf":2}}})"),
            "schema.properties.x: keyword 'multipleOf' is not supported");
  EXPECT_EQ(refusal_of(R"({"anyOf":[{"not":{}}]})"),
            "schema.anyOf[0]: keyword 'not' is not supported");
  EXPECT_EQ(refusal_of(R"({"type":"number","minimum":2})"),
            "schema: keyword 'minimum' is not supported for numbers that are not integers");
  EXPECT_EQ(refusal_of(R"({"type":"string","pattern":"a","maxLength":2})"),
            "schema: keyword 'maxLength' beside 'pattern' is not supported");
  EXPECT_EQ(refusal_of(R"({"type":"string","format":"hostname"})"),
            "schema: format \"hostname\" is not supported");
  EXPECT_EQ(refusal_of(R"({"type":"text"})"),
            R"(schema.type: the name of a type expected, found "\"text\"")");
  EXPECT_THAT(refusal_of(R"({"$ref":"http://x/y"})"),
              HasSubstr("a reference into the schema (#/...) expected"));
  EXPECT_EQ(refusal_of(R"({"$ref":"#/$defs/a"})"),
            "schema.$ref: \"#/$defs/a\" is not in the schema");
  EXPECT_THAT(refusal_of(R"({"type":"array","maxItems":100000})"),
              HasSubstr("schema.maxItems: an integer from 0 to 10000 expected"));
  EXPECT_THAT(refusal_of(R"({"type":"array","minItems":-1})"), HasSubstr("minItems"));
  EXPECT_THAT(refusal_of(R"({"$ref":"#"})"), HasSubstr("no text of finite length"));
  EXPECT_THAT(
      refusal_of(R"({"anyOf":[{"type":"null"},{"$ref":"#"}]})"),
      HasSubstr("schema: schema: it calls itself before it has read anything (left recursion)"));
  EXPECT_THAT(refusal_of(R"({"allOf":[{"$ref":"#"}]})"), HasSubstr("deep expected"));
  for (const char* text : {"false", R"({"enum":[]})",
                           R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
                           R"({"type":"integer","minimum":3,"maximum":2})",
                           R"({"type":"array","minItems":3,"maxItems":2})"}) {
    EXPECT_EQ(refusal_of(text), "schema: no text of finite length matches") << text;
  }
  EXPECT_THAT(refusal_of("[]"), HasSubstr("a schema (an object) expected"));
}

TEST(JsonSchema, RefusesPatterns) {
  EXPECT_THAT(pattern_refusal("^+[a-z]$"),
              HasSubstr("something to repeat expected, found \"+[a-z]$\""));
  EXPECT_THAT(pattern_refusal("^{2}x$"),
              HasSubstr("something to repeat expected, found \"{2}x$\""));
  EXPECT_THAT(pattern_refusal("a**"), HasSubstr("something to repeat"));
  EXPECT_THAT(pattern_refusal(std::string(60'000, '(')), HasSubstr("bytes expected, found 60000"));
  EXPECT_THAT(pattern_refusal(std::string(10'000, '(')), HasSubstr("nested at most 100 deep"));
  EXPECT_THAT(pattern_refusal("a{2000000000}"), HasSubstr("repeats of at most 10000"));
  EXPECT_THAT(pattern_refusal("a{99999999999999999999}"), HasSubstr("repeats of at most 10000"));
  EXPECT_THAT(pattern_refusal("[ab]*a[ab]{20}"), HasSubstr("too many steps"));
  EXPECT_THAT(pattern_refusal("(?=x)"), HasSubstr("\"(?=x\" is not supported"));
  EXPECT_THAT(pattern_refusal("(a)\\1"), HasSubstr("\"\\\\1\" is not supported"));
  EXPECT_THAT(pattern_refusal("\\bx"), HasSubstr("is not supported"));
  EXPECT_THAT(pattern_refusal("a^b"), HasSubstr("an anchor inside of a pattern"));
  for (const char* text : {"(", ")", "[a", "[b-a]", "a{", "\\", "\\u12", "[\\d-z]"}) {
    EXPECT_THAT(pattern_refusal(text), HasSubstr("schema: pattern: ")) << text;
  }
}

TEST(JsonSchema, HostileSchemasEndSoon) {
  Json deep = true;
  for (int i = 0; i < 5'000; ++i) deep = Json{{"items", std::move(deep)}};
  EXPECT_THAT(refusal(deep), HasSubstr("nested at most 64 deep expected, found 5001 and 5000"));
  // Sums and products of repeats.
  Json many;
  for (int i = 0; i < 20; ++i) {
    many["properties"]["p" + std::to_string(i)] = {{"type", "string"}, {"maxLength", 10'000 - i}};
  }
  EXPECT_THAT(refusal(many), HasSubstr("states"));
  std::string product = "a";
  for (int i = 0; i < 8; ++i) product = "(" + product + "){10000}";
  EXPECT_THAT(pattern_refusal("^" + product + "$"), HasSubstr("60000"));
  Json values = Json::array();
  for (int i = 0; i < 9'000; ++i) values.push_back(i);
  EXPECT_THAT(refusal({{"allOf", {{{"enum", values}}, {{"enum", values}}}}}),
              HasSubstr("too large"));
  // A schema that doubles with each reference.
  Json doubling = {{"$ref", "#/$defs/d0"}};
  for (int i = 0; i < 25; ++i) {
    const Json next = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    doubling["$defs"]["d" + std::to_string(i)] = {{"allOf", {next, next}}};
  }
  doubling["$defs"]["d25"] = {{"type", "object"}};
  EXPECT_THAT(refusal(doubling), HasSubstr("too large"));
}

TEST(JsonSchema, ChainsOfReferencesNeedNoStack) {
  Json chain = {{"$ref", "#/$defs/d0"}};
  for (int i = 0; i < 3'000; ++i) {
    chain["$defs"]["d" + std::to_string(i)] = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
  }
  chain["$defs"]["d3000"] = {{"type", "integer"}};
  EXPECT_TRUE(matches(schema(chain.dump()), "17"));
}

}  // namespace
}  // namespace hf2q
