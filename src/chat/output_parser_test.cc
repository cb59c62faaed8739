#include "chat/output_parser.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "chat/tool_call.h"

namespace hf2q {
namespace {

using Kind = OutputEvent::Kind;

const std::map<std::string_view, int32_t>& vocabulary() {
  static const std::map<std::string_view, int32_t> kIds = {
      {"<|tool_call>", 48}, {"<tool_call|>", 49}, {"<|tool_response>", 50},
      {"<|\"|>", 52},       {"<|channel>", 100},  {"<channel|>", 101},
      {"<|turn>", 105},     {"<turn|>", 106},     {"<tool_response|>", 51}};
  return kIds;
}

MarkerIds markers() {
  return find_markers([](std::string_view text) -> std::optional<int32_t> {
    const auto found = vocabulary().find(text);
    return found == vocabulary().end() ? std::nullopt : std::optional(found->second);
  });
}

struct Token {
  int32_t id;
  std::string text;
};

// Markers become single tokens, other text tokens of `size` bytes.
std::vector<Token> tokens_of(std::string_view text, size_t size) {
  std::vector<Token> tokens;
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) tokens.push_back({1000, std::exchange(plain, {})});
  };
  while (!text.empty()) {
    int32_t id = 0;
    for (const auto& [marker, marker_id] : vocabulary()) {
      if (!text.starts_with(marker)) continue;
      flush();
      id = marker_id;
      tokens.push_back({id, std::string(marker)});
      text.remove_prefix(marker.size());
      break;
    }
    if (id != 0) continue;
    plain += text.front();
    text.remove_prefix(1);
    if (plain.size() == size) flush();
  }
  flush();
  return tokens;
}

struct Answer {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments

  bool operator==(const Answer&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  out << "content [" << answer.content << "] reasoning [" << answer.reasoning << "]";
  for (const auto& [name, arguments] : answer.calls) out << " " << name << arguments;
  return out;
}

void collect(const std::vector<OutputEvent>& events, Answer& answer) {
  for (const OutputEvent& event : events) {
    if (event.kind == Kind::kContent) answer.content += event.text;
    if (event.kind == Kind::kReasoning) answer.reasoning += event.text;
    if (event.kind == Kind::kCallBegin) {
      ASSERT_EQ(static_cast<size_t>(event.index), answer.calls.size());
      answer.calls.emplace_back(event.text, "");
    }
    if (event.kind == Kind::kArguments)
      answer.calls.at(static_cast<size_t>(event.index)).second += event.text;
  }
}

Answer parsed(std::string_view text, size_t size, bool in_thought = false) {
  OutputParser parser(markers(), in_thought);
  Answer answer;
  for (const Token& token : tokens_of(text, size))
    collect(parser.on_token(token.id, token.text), answer);
  collect(parser.finish(), answer);
  return answer;
}

struct Case {
  const char* text;
  Answer expected;
  bool in_thought = false;
};
const Case kCases[] = {
    {"Hello.", {"Hello.", "", {}}},
    {"", {"", "", {}}},
    {" keeps\n\nwhite space\n", {" keeps\n\nwhite space\n", "", {}}},
    {"<|channel>thought\nWhy?\nSo.\n<channel|>Blue.", {"Blue.", "Why?\nSo.", {}}},
    {"<|channel>thought\n\n\nx\n\n<channel|>\n\nBlue.", {"Blue.", "\n\nx\n", {}}},
    {"<|channel>thought\n<channel|>Blue.", {"Blue.", "", {}}},
    {"<|channel>thought<channel|>Blue.", {"Blue.", "", {}}},
    {"Why?\nSo.\n<channel|>Blue.", {"Blue.", "Why?\nSo.", {}}, true},
    {"<|channel>thought\nnever closed", {"", "never closed", {}}},
    {"<|channel>thou", {"", "", {}}},
    {"a<channel|>b", {"ab", "", {}}},
    {"say <|\"|>x<|\"|>", {"say \"x\"", "", {}}},
    {"<|tool_call>call:g{}<tool_call|><|tool_response>", {"", "", {{"g", "{}"}}}},
    {"<|tool_call>call:get_weather{city:<|\"|>Lima<|\"|>}<tool_call|>",
     {"", "", {{"get_weather", R"({"city":"Lima"})"}}}},
    {"<|channel>thought\nT\n<channel|><|tool_call>call:g{a:1}<tool_call|>\n<|tool_call>call:h{b:[]}"
     "<tool_call|>\n",
     {"", "T", {{"g", R"({"a":1})"}, {"h", R"({"b":[]})"}}}},
    {"Let me look.<|tool_call>call:g{}<tool_call|> Done.",
     {"Let me look.Done.", "", {{"g", "{}"}}}},
    // Strings are literal up to the quote marker.
    {"<|tool_call>call:w{s:<|\"|>a,{}[]:\"b\"\n\\c<|\"|>,t:<|\"|><|\"|>}<tool_call|>",
     {"", "", {{"w", R"({"s":"a,{}[]:\"b\"\n\\c","t":""})"}}}},
    {"<|tool_call>call:w{tags:[bug,ui],n:-1.50e+3,b:true,c:false,d:null,e:None,z:007}<tool_call|>",
     {"",
      "",
      {{"w",
        R"({"tags":["bug","ui"],"n":-1.50e+3,"b":true,"c":false,"d":null,"e":null,"z":"007"})"}}}},
    {"<|tool_call>call:w{o:{p:[[1,2],{q:<|\"|>r<|\"|>}],e:{}},<|\"|>k y<|\"|>:New "
     "York}<tool_call|>",
     {"", "", {{"w", R"({"o":{"p":[[1,2],{"q":"r"}],"e":{}},"k y":"New York"})"}}}},
    {"<|tool_call>call:w{ \"a\": \"x\\ny\", t: 12:30 , n : [ ] }<tool_call|>",
     {"", "", {{"w", R"({"a":"x\ny","t":"12:30","n":[]})"}}}},
    {"<|tool_call>call:w{n:123456789012345678901234567890}<tool_call|>",
     {"", "", {{"w", R"({"n":123456789012345678901234567890})"}}}},
    // Malformed or cut off: content.
    {"<|tool_call>call:w{s:<|\"|>a<|\"|>", {"call:w{s:\"a\"", "", {}}},
    {"<|tool_call>call:w{s:<|\"|>a}<tool_call|>", {"call:w{s:\"a}", "", {}}},
    {"<|tool_call>call:w{a:1} and more<tool_call|>", {"call:w{a:1} and more", "", {}}},
    {"<|tool_call>call:w{a}<tool_call|>", {"call:w{a}", "", {}}},
    {"<|tool_call>call:w{a:}<tool_call|>", {"call:w{a:}", "", {}}},
    {"<|tool_call>call:w{a:1,}<tool_call|>", {"call:w{a:1,}", "", {}}},
    {"<|tool_call>call:w{a:x<|\"|>y<|\"|>}<tool_call|>", {"call:w{a:x\"y\"}", "", {}}},
    {"<|tool_call>call:{a:1}<tool_call|>", {"call:{a:1}", "", {}}},
    {"<|tool_call>call:a b{}<tool_call|>", {"call:a b{}", "", {}}},
    {"<|tool_call>w{a:1}<tool_call|>", {"w{a:1}", "", {}}},
    {"<|tool_call><tool_call|>", {"", "", {}}},
    {"<|tool_call>call:g{a:<|tool_call>call:h{}<tool_call|>", {"call:g{a:", "", {{"h", "{}"}}}},
    {"<|tool_call>call:g{<|channel>thought\nx<channel|>y", {"call:g{y", "x", {}}},
    {"<|tool_call>bad<tool_call|> then", {"bad then", "", {}}},
};

TEST(OutputParser, SplitsAnswersHoweverTheTextIsCut) {
  for (const Case& example : kCases) {
    for (const size_t size : {1, 2, 3, 7, 1000}) {
      EXPECT_EQ(parsed(example.text, size, example.in_thought), example.expected)
          << example.text << " in pieces of " << size;
    }
  }
}

TEST(OutputParser, ArgumentsAreValidJson) {
  for (const Case& example : kCases) {
    for (const auto& [name, arguments] : parsed(example.text, 3).calls) {
      EXPECT_TRUE(nlohmann::json::parse(arguments).is_object()) << name;
    }
  }
}

TEST(OutputParser, StreamsContentAndReasoningAsTheyCome) {
  OutputParser parser(markers(), false);
  EXPECT_EQ(parser.on_token(7, "Hel"), (std::vector<OutputEvent>{{Kind::kContent, "Hel"}}));
  EXPECT_TRUE(parser.on_token(100, "<|channel>").empty());
  EXPECT_TRUE(parser.on_token(7, "thought").empty());
  EXPECT_TRUE(parser.on_token(107, "\n").empty());
  EXPECT_EQ(parser.on_token(7, "a\n"), (std::vector<OutputEvent>{{Kind::kReasoning, "a"}}));
  EXPECT_EQ(parser.on_token(7, "b"), (std::vector<OutputEvent>{{Kind::kReasoning, "\nb"}}));
}

TEST(OutputParser, CallsComeWhole) {
  OutputParser parser(markers(), false);
  EXPECT_TRUE(parser.on_token(48, "").empty());
  EXPECT_TRUE(parser.on_token(7, "call:f{x:1}").empty());
  EXPECT_EQ(parser.on_token(49, ""), (std::vector<OutputEvent>{{Kind::kCallBegin, "f", 0},
                                                               {Kind::kArguments, "{\"x\":1}", 0},
                                                               {Kind::kCallEnd, "", 0}}));
  EXPECT_EQ(parser.n_calls(), 1);
}

TEST(OutputParser, MarkersAreKnownByIdNotByText) {
  OutputParser parser(markers(), false);
  EXPECT_EQ(parser.on_token(7, "<|tool_call>"),
            (std::vector<OutputEvent>{{Kind::kContent, "<|tool_call>"}}));
  OutputParser without({}, false);
  EXPECT_EQ(without.on_token(48, "x"), (std::vector<OutputEvent>{{Kind::kContent, "x"}}));
  EXPECT_EQ(without.on_token(-1, "y"), (std::vector<OutputEvent>{{Kind::kContent, "y"}}));
}

TEST(OutputParser, MalformedUtf8InACallGivesValidJson) {
  OutputParser parser(markers(), false);
  Answer answer;
  const std::pair<int32_t, const char*> kTokens[] = {
      {48, ""}, {7, "call:f{x:"}, {52, ""}, {7, "\xC3(\xFF"}, {52, ""}, {7, "}"}, {49, ""}};
  for (const auto& [id, text] : kTokens) collect(parser.on_token(id, text), answer);
  ASSERT_EQ(answer.calls.size(), 1U);
  EXPECT_EQ(answer.calls[0].second, "{\"x\":\"\xEF\xBF\xBD(\xEF\xBF\xBD\"}");
}

TEST(ToolCall, NestingIsBounded) {
  const auto nested = [](size_t depth) {
    return "call:f{a:" + std::string(depth, '[') + "1" + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(parse_tool_call(nested(99)).has_value());
  EXPECT_FALSE(parse_tool_call(nested(100)).has_value());
  EXPECT_FALSE(parse_tool_call(nested(1'000'000)).has_value());
  EXPECT_FALSE(parse_tool_call("call:f{a:" + std::string(1'000'000, '{')).has_value());
}

TEST(ToolCall, ALaterKeyReplacesAnEarlierOne) {
  EXPECT_EQ(parse_tool_call("call:f{a:1,b:2,a:3}")->arguments, R"({"a":3,"b":2})");
}

TEST(ToolCall, EveryCutOfACallIsMalformed) {
  const std::string mark(1, kQuoteMark);
  const std::string body = "call:f{a:[1,{b:" + mark + "x}" + mark + "}],c:\"y\",d:true}";
  ASSERT_TRUE(parse_tool_call(body).has_value());
  for (size_t cut = 0; cut < body.size(); ++cut) {
    EXPECT_FALSE(parse_tool_call(body.substr(0, cut)).has_value()) << cut;
  }
}

}  // namespace
}  // namespace hf2q
