#include "grammar/tool_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/tool_call.h"
#include "grammar/grammar_for_tests.h"

namespace hf2q {
namespace {

using Json = nlohmann::ordered_json;
using grammar_test::random_text;
using grammar_test::tokenizer;
using grammar_test::vocabulary;
using testing::HasSubstr;
using testing_support::value_of;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_tide", "parameters": {
    "type": "object", "required": ["port", "Day"], "properties": {
      "port": {"type": "string"}, "Day": {"type": "integer", "minimum": 1, "maximum": 31},
      "units": {"enum": ["m", "a\"b"]}, "odd key": {"type": "boolean"},
      "near": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}}}}},
  {"type": "function", "function": {"name": "stop", "description": "no parameters"}}])");

Grammar::Shared tool_grammar(const CallChoice& choice, const GrammarOptions& options = {}) {
  return value_of(tool_call_grammar(kTools, choice, vocabulary(), options));
}

// Reads text in which markers stand as such.
bool reads_marked(GrammarState& state, std::string_view text) {
  while (!text.empty()) {
    int32_t id = 4 + static_cast<uint8_t>(text[0]);
    size_t n = 1;
    for (const std::string_view name :
         {"<|\"|>", "<|tool_call>", "<tool_call|>", "<|channel>", "<channel|>"}) {
      if (!text.starts_with(name)) continue;
      id = *vocabulary()->marker(name);
      n = name.size();
    }
    if (!state.accept(id)) return false;
    text.remove_prefix(n);
  }
  return true;
}
bool matches_marked(const Grammar::Shared& grammar, std::string_view text) {
  GrammarState state(grammar);
  return reads_marked(state, text) && state.may_end();
}

TEST(ToolGrammar, Examples) {
  const Grammar::Shared any = tool_grammar({});
  const std::string tide =
      R"(<|tool_call>call:get_tide{Day:4,port:<|"|>Brest, "b"}<|"|>}<tool_call|>)";
  const std::string stop = "<|tool_call>call:stop{}<tool_call|>";
  EXPECT_TRUE(matches_marked(any, tide));
  EXPECT_TRUE(matches_marked(any, stop));
  EXPECT_TRUE(matches_marked(any, R"(<|tool_call>call:stop{a:[1,{b:<|"|>x<|"|>}]}<tool_call|>)"));
  EXPECT_TRUE(matches_marked(
      any,
      R"(<|tool_call>call:get_tide{Day:31,near:[{x:1.5}],<|"|>odd key<|"|>:true,port:<|"|><|"|>,units:<|"|>a"b<|"|>}<tool_call|>)"));
  EXPECT_FALSE(
      matches_marked(any, R"(<|tool_call>call:get_tide{Day:32,port:<|"|>x<|"|>}<tool_call|>)"));
  EXPECT_FALSE(matches_marked(any, R"(<|tool_call>call:get_tide{port:<|"|>x<|"|>}<tool_call|>)"));
  EXPECT_FALSE(matches_marked(any, R"(<|tool_call>call:get_tide{Day:4,port:"x"}<tool_call|>)"));
  EXPECT_FALSE(matches_marked(any, "hello"));
  EXPECT_FALSE(matches_marked(any, tide + stop));
  EXPECT_TRUE(matches_marked(tool_grammar({"", true}), tide + stop));
  EXPECT_FALSE(matches_marked(tool_grammar({"get_tide", false}), stop));
  EXPECT_TRUE(matches_marked(tool_grammar({"stop", false}), stop));
}

TEST(ToolGrammar, ACallOrAnAnswerOfAForm) {
  const std::string stop = "<|tool_call>call:stop{}<tool_call|>";
  const Grammar::Shared json = tool_grammar({.or_schema = Json{{"const", "x"}}});
  const Grammar::Shared text = tool_grammar({.or_gbnf = "root ::= [a-c]+"});
  for (const Grammar::Shared& grammar : {json, text}) {
    EXPECT_TRUE(matches_marked(grammar, stop));
    EXPECT_FALSE(matches_marked(grammar, stop + stop));
    EXPECT_FALSE(matches_marked(grammar, ""));
  }
  EXPECT_TRUE(matches_marked(json, "\"x\""));
  EXPECT_FALSE(matches_marked(json, "abc"));
  EXPECT_TRUE(matches_marked(text, "abc"));
  EXPECT_FALSE(matches_marked(text, "abc" + stop));
}

TEST(ToolGrammar, ThoughtsBefore) {
  const std::string stop = "<|tool_call>call:stop{}<tool_call|>";
  const Grammar::Shared may = tool_grammar({}, {Thought::kMay});
  EXPECT_TRUE(matches_marked(may, stop));
  EXPECT_TRUE(matches_marked(may, "<|channel>thought\n{é<channel|>" + stop));
  EXPECT_FALSE(matches_marked(may, "thought<channel|>" + stop));
  EXPECT_FALSE(matches_marked(may, "<|channel>thought\n<|channel><channel|>" + stop));
  const Grammar::Shared open = tool_grammar({}, {Thought::kOpen});
  EXPECT_TRUE(matches_marked(open, "so it is\n<channel|>\n" + stop));
  EXPECT_FALSE(matches_marked(open, stop));
}

TEST(ToolGrammar, RandomCallsAreReadByTheParser) {
  const Grammar::Shared grammar = tool_grammar({});
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::string text = random_text(grammar, seed);
    ASSERT_TRUE(text.starts_with("<|tool_call>") && text.ends_with("<tool_call|>")) << text;
    text = text.substr(12, text.size() - 24);
    for (size_t at = 0; (at = text.find("<|\"|>", at)) != std::string::npos;) {
      text.replace(at, 5, 1, kQuoteMark);
    }
    const auto call = parse_tool_call(text);
    ASSERT_TRUE(call.has_value()) << text;
    const Json arguments = Json::parse(call->arguments);
    if (call->name != "get_tide") continue;
    ASSERT_TRUE(arguments["port"].is_string() && arguments["Day"].is_number_integer()) << text;
  }
}

TEST(ToolGrammar, Refusals) {
  const auto refusal = [](const Json& tools, const CallChoice& choice) {
    const auto made = tool_call_grammar(tools, choice, vocabulary());
    return made.ok() ? "accepted" : made.error().message;
  };
  EXPECT_EQ(refusal(kTools, {"go", false}), "tools: the function \"go\" expected, found none");
  EXPECT_EQ(refusal(Json::array(), {}), "tools: a function expected, found none");
  EXPECT_EQ(refusal(Json::object(), {}), "tools: an array expected");
  EXPECT_EQ(refusal({1}, {}), "tools[0].function: an object expected");
  const Json odd =
      Json::parse(R"([{"function":{"name":"f","parameters":{"properties":{"p":{"not":{}}}}}}])");
  EXPECT_EQ(refusal(odd, {}),
            "tools[0].function.parameters.properties.p: keyword 'not' is not supported");
}

}  // namespace
}  // namespace hf2q
