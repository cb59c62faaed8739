#include "chat/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace hf2q {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

ordered_json json(std::string_view text) {
  return ordered_json::parse(text);
}

std::string prompt(std::string_view messages, std::string_view tools = "null",
                   const ChatOptions& options = {}, Gemma4Size size = Gemma4Size::kSmall) {
  const auto result = ChatTemplate::gemma4(size).render(json(messages), json(tools), options);
  return result.ok() ? result.value() : "error: " + result.error().message;
}

ChatOptions thinking() {
  ChatOptions options;
  options.enable_thinking = true;
  return options;
}

ChatOptions no_generation() {
  ChatOptions options;
  options.add_generation_prompt = false;
  return options;
}

TEST(ChatTemplate, TheBuiltInTextIsThatOfTheTinyModel) {
  std::ifstream file(HF2Q_MODELS "/tiny-gemma4/chat_template.jinja");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), gemma4_template_text());
}

constexpr std::string_view kPrime = R"([{"role": "user", "content": " Name a prime above 90. "}])";

TEST(ChatTemplate, LargeModelsGetAnEmptyThought) {
  const std::string turn = "<bos><|turn>user\nName a prime above 90.<turn|>\n<|turn>model\n";
  EXPECT_EQ(prompt(kPrime), turn);
  EXPECT_EQ(prompt(kPrime, "null", {}, Gemma4Size::kLarge), turn + "<|channel>thought\n<channel|>");
}

TEST(ChatTemplate, ThinkingIsAskedForInTheSystemTurn) {
  const std::string expected =
      "<bos><|turn>system\n<|think|>\nAnswer in one sentence.<turn|>\n"
      "<|turn>user\nWhy is the sky blue?<turn|>\n<|turn>model\n";
  for (const char* role : {"system", "developer"}) {
    const std::string messages = fmt::format(
        R"([{{"role": "{}", "content": "Answer in one sentence. "}},
            {{"role": "user", "content": "Why is the sky blue?"}}])",
        role);
    EXPECT_EQ(prompt(messages, "null", thinking()), expected);
    EXPECT_EQ(prompt(messages, "null", thinking(), Gemma4Size::kLarge), expected);
  }
  EXPECT_THAT(prompt(kPrime, "null", thinking()),
              testing::StartsWith("<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\n"));
}

TEST(ChatTemplate, SystemPartsAreEachFollowedByASpace) {
  EXPECT_THAT(prompt(R"([{"role": "system", "content": [{"type": "text", "text": " a "},
                         {"type": "text", "text": "b"}]}, {"role": "user", "content": "q"}])"),
              testing::StartsWith("<bos><|turn>system\na b <turn|>\n"));
}

constexpr std::string_view kTide = R"([{"type": "function", "function": {"name": "get_tide",
  "description": "Tide times for a port", "parameters": {"type": "object", "properties": {
  "port": {"type": "string", "description": "Port name"},
  "day": {"type": "integer", "description": "Day of month", "minimum": 1, "default": 1}},
  "required": ["port"]}}}])";
constexpr std::string_view kTideSystem =
    "<|tool>declaration:get_tide{description:<|\"|>Tide times for a port<|\"|>,parameters:{"
    "properties:{day:{description:<|\"|>Day of month<|\"|>,type:<|\"|>INTEGER<|\"|>},"
    "port:{description:<|\"|>Port name<|\"|>,type:<|\"|>STRING<|\"|>}},required:[<|\"|>port<|\"|>],"
    "type:<|\"|>OBJECT<|\"|>}}<tool|><turn|>\n<|turn>user\n"
    "When is high water in Brest on the 4th?<turn|>\n<|turn>model\n";
constexpr std::string_view kTideCall =
    "<|tool_call>call:get_tide{day:4,port:<|\"|>Brest<|\"|>}<tool_call|>";
constexpr std::string_view kTideResult =
    "<|tool_response>response:get_tide{value:<|\"|>06:12 and 18:40<|\"|>}<tool_response|>";

std::string tide_messages(std::string_view rest) {
  return fmt::format(
      R"([{{"role": "user", "content": "When is high water in Brest on the 4th?"}}{}])", rest);
}
constexpr std::string_view kTideAsked = R"(, {"role": "assistant", "content": null, "tool_calls": [
  {"id": "c1", "type": "function", "function": {"name": "get_tide",
   "arguments": "{\"port\": \"Brest\", \"day\": 4}"}}]})";
constexpr std::string_view kTideAnswered =
    R"(, {"role": "tool", "tool_call_id": "c1", "content": "06:12 and 18:40"})";

TEST(ChatTemplate, ToolUseStepByStep) {
  const std::string begin = fmt::format("<bos><|turn>system\n{}", kTideSystem);
  EXPECT_EQ(prompt(tide_messages(""), kTide), begin);
  EXPECT_EQ(prompt(tide_messages(kTideAsked), kTide),
            fmt::format("{}{}<|tool_response>", begin, kTideCall));
  const std::string both = fmt::format("{}{}", kTideAsked, kTideAnswered);
  EXPECT_EQ(prompt(tide_messages(both), kTide),
            fmt::format("{}{}{}", begin, kTideCall, kTideResult));
  EXPECT_EQ(prompt(tide_messages(both), kTide, thinking()),
            fmt::format("<bos><|turn>system\n<|think|>\n{}{}{}<|channel>thought\n", kTideSystem,
                        kTideCall, kTideResult));
  const std::string done =
      both + R"(, {"role": "assistant", "content": "High water is at 06:12 and 18:40."})";
  EXPECT_EQ(prompt(tide_messages(done), kTide, no_generation()),
            fmt::format("{}{}{}High water is at 06:12 and 18:40.<turn|>\n", begin, kTideCall,
                        kTideResult));
}

struct Tail {
  const char* name;
  const char* messages;  // after a user message "q"
  const char* expected;  // after that turn
  bool generation = true;
};
const Tail kTails[] = {
    {"values", R"({"role": "assistant", "tool_calls": [{"function": {"name": "g", "arguments":
               {"b": null, "A": [1, 2.5, true, {"k": "v"}], "c": {}}}}]})",
     "<|turn>model\n<|tool_call>call:g{A:[1,2.5,true,{k:<|\"|>v<|\"|>}],b:null,c:{}}<tool_call|>"
     "<|tool_response>"},
    {"two_calls", R"({"role": "assistant", "content": "", "tool_calls": [
                   {"id": "1", "function": {"name": "g", "arguments": ""}},
                   {"id": "2", "function": {"name": "h", "arguments": "{\"z\": null}"}}]},
                  {"role": "tool", "tool_call_id": "1", "content": "r1"},
                  {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "r2"},
                   {"type": "image_url", "image_url": {"url": "x"}}]})",
     "<|turn>model\n<|tool_call>call:g{}<tool_call|><|tool_call>call:h{z:null}<tool_call|>"
     "<|tool_response>response:g{value:<|\"|>r1<|\"|>}<tool_response|>"
     "<|tool_response>response:h{value:<|\"|>r2<|\"|>}<tool_response|><|image|>"},
    {"result_then_user",
     R"({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "g"}}]},
                         {"role": "tool", "tool_call_id": "1", "content": "r1"},
                         {"role": "user", "content": "next"})",
     "<|turn>model\n<|tool_call>call:g{}<tool_call|><|tool_response>response:g{value:<|\"|>r1<|\"|>"
     "}"
     "<tool_response|><turn|>\n<|turn>user\nnext<turn|>\n<|turn>model\n"},
    {"reasoning", R"({"role": "assistant", "reasoning": "R1",
                   "content": "<|channel>thought\nold<channel|>Hi <|channel>open"})",
     "<|turn>model\n<|channel>thought\nR1\n<channel|>Hi<turn|>\n", false},
    {"reasoning_content", R"({"role": "assistant", "reasoning_content": "R1", "content": "Hi"})",
     "<|turn>model\n<|channel>thought\nR1\n<channel|>Hi<turn|>\n", false},
    {"reasoning_before_the_last_user", R"({"role": "assistant", "reasoning": "R1", "content": "Hi"},
                                       {"role": "user", "content": "c"})",
     "<|turn>model\nHi<turn|>\n<|turn>user\nc<turn|>\n<|turn>model\n"},
    {"one_turn_for_two_answers", R"({"role": "assistant", "content": "a"},
                                 {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"})",
     "<|turn>model\nab<turn|>\n<|turn>user\nc<turn|>\n<|turn>model\n"},
    {"names_of_results",
     R"({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "g"}}]},
                         {"role": "tool", "tool_call_id": "9", "name": "own", "content": "a"},
                         {"role": "tool", "content": "{\"json\": 1}"})",
     "<|turn>model\n<|tool_call>call:g{}<tool_call|><|tool_response>response:own{value:<|\"|>a<|\"|"
     ">}"
     "<tool_response|><|tool_response>response:unknown{value:<|\"|>{\"json\": "
     "1}<|\"|>}<tool_response|>"},
    {"content_after_results", R"({"role": "assistant", "content": "see", "tool_calls": [
                               {"id": "1", "function": {"name": "g"}}]},
                              {"role": "tool", "tool_call_id": "1", "content": "r"},
                              {"role": "user", "content": "c"})",
     "<|turn>model\n<|tool_call>call:g{}<tool_call|><|tool_response>response:g{value:<|\"|>r<|\"|>}"
     "<tool_response|>see<turn|>\n<|turn>user\nc<turn|>\n<|turn>model\n"},
    {"native_results", R"({"role": "assistant", "content": null, "tool_calls": [
                        {"function": {"name": "g"}}],
                        "tool_responses": [{"name": "g", "response": {"b": 1, "A": "x"}}]})",
     "<|turn>model\n<|tool_call>call:g{}<tool_call|><|tool_response>response:g{A:<|\"|>x<|\"|>,b:1}"
     "<tool_response|>"},
    {"chain", R"({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "g"}}]},
              {"role": "tool", "tool_call_id": "1", "content": "r"},
              {"role": "assistant", "tool_calls": [{"id": "2", "function": {"name": "h"}}]},
              {"role": "tool", "tool_call_id": "2", "content": "s"})",
     "<|turn>model\n<|tool_call>call:g{}<tool_call|><|tool_response>response:g{value:<|\"|>r<|\"|>}"
     "<tool_response|><|tool_call>call:h{}<tool_call|><|tool_response>response:h{value:<|\"|>s<|\"|"
     ">}"
     "<tool_response|>"},
};

TEST(ChatTemplate, ConformanceStrings) {
  for (const Tail& tail : kTails) {
    const std::string messages =
        fmt::format(R"([{{"role": "user", "content": "q"}}, {}])", tail.messages);
    ChatOptions options;
    options.add_generation_prompt = tail.generation;
    EXPECT_EQ(prompt(messages, "null", options),
              fmt::format("<bos><|turn>user\nq<turn|>\n{}", tail.expected))
        << tail.name;
  }
}

TEST(ChatTemplate, ThoughtsOfToolChainsCanBePreserved) {
  const std::string messages = R"([{"role": "user", "content": "q"},
    {"role": "assistant", "reasoning": "R", "tool_calls": [{"id": "1", "function": {"name": "g"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "user", "content": "c"}])";
  ChatOptions options;
  EXPECT_THAT(prompt(messages, "null", options), Not(HasSubstr("R\n<channel|>")));
  options.preserve_thinking = true;
  EXPECT_THAT(prompt(messages, "null", options),
              HasSubstr("<|turn>model\n<|channel>thought\nR\n<channel|><|tool_call>call:g{}"));
}

TEST(ChatTemplate, MediaPartsBecomeMarkersInPlace) {
  EXPECT_EQ(
      prompt(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}},
                        {"type": "text", "text": " What is this? "}, {"type": "input_audio"},
                        {"type": "video"}]}])"),
      "<bos><|turn>user\n<|image|>What is this?<|audio|><|video|><turn|>\n<|turn>model\n");
  EXPECT_THAT(prompt(R"([{"role": "user", "content": [{"type": "hologram"}]}])"),
              HasSubstr("content part of unknown type hologram"));
}

// The prompt that the tiny model was trained on; <bos> came from its tokenizer.
TEST(ChatTemplate, RendersThePromptsOfTheTinyModel) {
  EXPECT_EQ(
      prompt(R"([{"role": "user", "content": "What is the weather in Lima?"}])",
             R"([{"type": "function", "function": {"name": "get_weather",
                        "description": "Current weather of a city", "parameters": {"type": "object",
                        "properties": {"city": {"type": "string", "description": "City name"}},
                        "required": ["city"]}}}])"),
      "<bos><|turn>system\n<|tool>declaration:get_weather{description:<|\"|>Current weather of "
      "a city<|\"|>,parameters:{properties:{city:{description:<|\"|>City name<|\"|>,type:"
      "<|\"|>STRING<|\"|>}},required:[<|\"|>city<|\"|>],type:<|\"|>OBJECT<|\"|>}}<tool|><turn|>\n"
      "<|turn>user\nWhat is the weather in Lima?<turn|>\n<|turn>model\n");
  EXPECT_EQ(prompt(R"([{"role": "user", "content": "Hello, my name is Vera."}])"),
            "<bos><|turn>user\nHello, my name is Vera.<turn|>\n<|turn>model\n");
}

std::string declaration(std::string_view parameters) {
  const std::string tools = fmt::format(
      R"([{{"type": "function", "function": {{"name": "f", "parameters": {}}}}}])", parameters);
  const std::string text = prompt(kPrime, tools);
  const size_t begin = text.find("parameters:{");
  if (begin == text.npos) return text;
  return text.substr(begin, text.find("}<tool|>") - begin);
}

std::string property(std::string_view schema) {
  const std::string text =
      declaration(fmt::format(R"({{"type": "object", "properties": {{"p": {}}}}})", schema));
  const std::string begin = "parameters:{properties:{p:{";
  const std::string end = "}},type:<|\"|>OBJECT<|\"|>}";
  if (!text.starts_with(begin) || !text.ends_with(end)) return text;
  return text.substr(begin.size(), text.size() - begin.size() - end.size());
}

TEST(ChatTemplate, DeclaresOnlyTheKnownKeysOfAProperty) {
  EXPECT_EQ(property(R"({"type": "string", "enum": ["a", "b"], "description": "D", "default": "a",
                        "nullable": true})"),
            "description:<|\"|>D<|\"|>,enum:[<|\"|>a<|\"|>,<|\"|>b<|\"|>],nullable:true,type:<|\"|>"
            "STRING<|\"|>");
  EXPECT_EQ(property(R"({"type": "integer", "enum": [1, 2], "minimum": 0})"),
            "type:<|\"|>INTEGER<|\"|>");
  EXPECT_EQ(property(R"({"type": "object"})"), "properties:{},type:<|\"|>OBJECT<|\"|>");
  EXPECT_EQ(
      property(R"({"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}})"),
      "properties:{x:{type:<|\"|>NUMBER<|\"|>}},required:[<|\"|>x<|\"|>],type:<|\"|>OBJECT<|\"|>");
  EXPECT_EQ(property(R"({"type": "array", "items": {"type": "object", "required": ["p"], "n": null,
                        "properties": {"p": {"type": "string"}}, "x": {"k": [1]}}})"),
            "items:{properties:{p:{type:<|\"|>STRING<|\"|>}},required:[<|\"|>p<|\"|>],"
            "type:<|\"|>OBJECT<|\"|>,x:{<|\"|>k<|\"|>:[1]}},type:<|\"|>ARRAY<|\"|>");
}

TEST(ChatTemplate, SchemasGetASingleType) {
  EXPECT_EQ(property(R"({"type": ["string", "null"]})"), "nullable:true,type:<|\"|>STRING<|\"|>");
  EXPECT_EQ(property(R"({"type": ["null", "integer", "string"]})"),
            "nullable:true,type:<|\"|>INTEGER<|\"|>");
  EXPECT_EQ(
      property(
          R"({"anyOf": [{"type": "null"}, {"type": "string", "enum": ["a"]}], "description": "D"})"),
      "description:<|\"|>D<|\"|>,enum:[<|\"|>a<|\"|>],nullable:true,type:<|\"|>STRING<|\"|>");
  EXPECT_EQ(property(R"({"properties": {"x": {"oneOf": [{"type": "boolean"}]}}})"),
            "properties:{x:{type:<|\"|>BOOLEAN<|\"|>}},type:<|\"|>OBJECT<|\"|>");
  EXPECT_EQ(property(R"({"items": {"type": ["number", "null"]}})"),
            "items:{nullable:true,type:<|\"|>NUMBER<|\"|>},type:<|\"|>ARRAY<|\"|>");
  EXPECT_EQ(property(R"({"enum": ["a"]})"), "enum:[<|\"|>a<|\"|>],type:<|\"|>STRING<|\"|>");
  EXPECT_EQ(property("true"), "type:<|\"|><|\"|>");
}

TEST(ChatTemplate, ResponseSchemaIsDeclared) {
  EXPECT_THAT(
      prompt(kPrime, R"([{"name": "f", "response": {"type": "object", "description": "R"}}])"),
      HasSubstr("<|tool>declaration:f{description:<|\"|><|\"|>,response:{description:"
                "<|\"|>R<|\"|>,type:<|\"|>OBJECT<|\"|>}}<tool|>"));
}

struct Refusal {
  const char* messages;
  const char* error;
};
const Refusal kRefusals[] = {
    {R"([])", "messages: a list of at least one message expected"},
    {R"({})", "messages: a list of at least one message expected"},
    {R"(["x"])", "messages[0]: an object expected, found string"},
    {R"([{"content": "x"}])", "messages[0].role: a string expected, found null"},
    {R"([{"role": "user", "content": null}])",
     "messages[0].content: a string or a list of parts expected, found null"},
    {R"([{"role": "user", "content": 5}])",
     "messages[0].content: a string or a list of parts expected, found number"},
    {R"([{"role": "user", "content": ["x"]}])",
     "messages[0].content[0]: an object with a type expected"},
    {R"([{"role": "user", "content": [{"type": "text"}]}])",
     "messages[0].content[0].text: a string expected, found null"},
    {R"([{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [
        {"function": {"name": "g", "arguments": "{\"a\":"}}]}])",
     R"(messages[1].tool_calls[0].function.arguments: malformed JSON: "{\"a\":")"},
    {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "g", "arguments": "[1]"}}]}])",
     "messages[0].tool_calls[0].function.arguments: a JSON object expected, found array"},
    {R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}])",
     "messages[0].tool_calls[0].function: an object with a name expected"},
    {R"([{"role": "assistant", "tool_calls": [{"id": "1"}]}])",
     "messages[0].tool_calls[0].function: missing"},
    {R"([{"role": "assistant", "tool_calls": {}}])",
     "messages[0].tool_calls: a list expected, found object"},
};

TEST(ChatTemplate, RefusalsNameTheMessage) {
  for (const Refusal& refusal : kRefusals) {
    EXPECT_EQ(prompt(refusal.messages), fmt::format("error: {}", refusal.error))
        << refusal.messages;
  }
  EXPECT_EQ(prompt(kPrime, R"([{"type": "function", "function": {}}])"),
            "error: tools[0]: a function with a name expected");
  EXPECT_EQ(prompt(kPrime, R"([{"name": "f", "parameters": {"properties": {"p": {"type": 5}}}}])"),
            "error: tools[0].parameters.properties.p.type: a string or a list expected");
}

TEST(ChatTemplate, DeepJsonIsRefused) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += R"({\"a\":)";
  const std::string call = R"([{"role": "assistant", "tool_calls": [{"function": {"name": "g",
                               "arguments": ")";
  EXPECT_THAT(prompt(call + deep + "1" + std::string(1000, '}') + "\"}}]}]"),
              HasSubstr("messages[0].tool_calls[0].function.arguments: nested more than 150 deep"));
  const std::string lists = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_THAT(prompt(kPrime, "[{\"name\": \"f\", \"parameters\": {\"x\": " + lists + "}}]"),
              HasSubstr("tools: nested more than 150 deep"));
  ChatOptions options;
  options.variables["x"] = json(lists);
  EXPECT_THAT(prompt(kPrime, "null", options), HasSubstr("chat_template_kwargs: nested more than"));
}

TEST(ChatTemplate, FurtherVariablesReachTheTemplate) {
  const auto parsed = ChatTemplate::parse(
      "{{ bos_token }}{{ mood }} {{ enable_thinking }} {{ messages | length }}{{ tools is none }}");
  ASSERT_TRUE(parsed.ok());
  ChatOptions options;
  options.bos_token = "<s>";
  options.variables = {{"mood", "calm"}, {"enable_thinking", true}, {"messages", "x"}};
  const auto result = parsed.value().render(json(kPrime), json("[]"), options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result.value(), "<s>calm True 1True");
}

TEST(ChatTemplate, OpenThoughtsAreRecognised) {
  EXPECT_TRUE(ends_in_open_thought("x<|channel>thought\n"));
  EXPECT_FALSE(ends_in_open_thought("x<|channel>thought\n<channel|>"));
}

}  // namespace
}  // namespace hf2q
