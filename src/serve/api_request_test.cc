#include "serve/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "serve/api_error.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::value_of;

RequestDefaults defaults() {
  RequestDefaults defaults;
  defaults.vocab_size = 100;
  defaults.hidden_dim = 8;
  return defaults;
}

// A chat body with one message and the members of `more`.
ordered_json chat(const std::string& more = "{}") {
  ordered_json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(ordered_json::parse(more));
  return body;
}

template <class T>
ApiError refusal(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? ApiError{} : api_error(result.error());
}
ApiError chat_refusal(const std::string& more) {
  return refusal(parse_chat_request(chat(more), defaults()));
}

TEST(ParseBody, RefusesWhatIsNoObject) {
  for (const std::string text :
       {"", "[]", "\"x\"", "{", "{\"a\":1} x", "{\"a\":\"\xff\"}", "nul"}) {
    EXPECT_EQ(refusal(parse_body(text)).status, 400) << text;
  }
  EXPECT_EQ(refusal(parse_body(std::string(1000000, '['))).status, 400);
  EXPECT_EQ(refusal(parse_body("{\"a\":" + std::string(1000000, '['))).status, 400);
  EXPECT_THAT(refusal(parse_body("[1]")).message,
              HasSubstr("a JSON object expected, found an array"));
  EXPECT_EQ(value_of(parse_body("{\"a\":1}"))["a"], 1);
}

struct Wrong {
  const char* more;
  const char* param;
};

TEST(ParseChat, WrongFieldsAreNamed) {
  constexpr Wrong kWrong[] = {
      {R"({"temperature":"1"})", "temperature"},
      {R"({"temperature":-1})", "temperature"},
      {R"({"temperature":1e300})", "temperature"},
      {R"({"top_p":1.5})", "top_p"},
      {R"({"top_k":"x"})", "top_k"},
      {R"({"top_k":1.5})", "top_k"},
      {R"({"top_k":1e30})", "top_k"},
      {R"({"seed":1e300})", "seed"},
      {R"({"seed":2.5})", "seed"},
      {R"({"seed":"x"})", "seed"},
      {R"({"n":0})", "n"},
      {R"({"n":1000000000})", "n"},
      {R"({"max_tokens":-5})", "max_tokens"},
      {R"({"max_completion_tokens":true})", "max_completion_tokens"},
      {R"({"stop":7})", "stop"},
      {R"({"stop":["a",7]})", "stop"},
      {R"({"stop":""})", "stop"},
      {R"({"stream":"yes"})", "stream"},
      {R"({"stream_options":[]})", "stream_options"},
      {R"({"stream_options":{"include_usage":1}})", "stream_options.include_usage"},
      {R"({"logit_bias":[]})", "logit_bias"},
      {R"({"logit_bias":{"100":1}})", "logit_bias"},
      {R"({"logit_bias":{"-1":1}})", "logit_bias"},
      {R"({"logit_bias":{"1":101}})", "logit_bias"},
      {R"({"top_logprobs":3})", "top_logprobs"},
      {R"({"logprobs":true,"top_logprobs":21})", "top_logprobs"},
      {R"({"logprobs":1})", "logprobs"},
      {R"({"response_format":"json"})", "response_format"},
      {R"({"response_format":{"type":"xml"}})", "response_format.type"},
      {R"({"response_format":{}})", "response_format.type"},
      {R"({"response_format":{"type":"json_schema"}})", "response_format.json_schema"},
      {R"({"response_format":{"type":"json_schema","json_schema":{}}})",
       "response_format.json_schema.schema"},
      {R"({"response_format":{"type":"json_object"},"grammar":"root ::= \"a\""})", "grammar"},
      {R"({"tools":{}})", "tools"},
      {R"({"tools":[7]})", "tools[0]"},
      {R"({"tool_choice":"x"})", "tool_choice"},
      {R"({"tool_choice":"required"})", "tool_choice"},
      {R"({"tool_choice":{"type":"function"}})", "tool_choice.function.name"},
      {R"({"tool_choice":{"function":{"name":"f"}}})", "tool_choice.function.name"},
      {R"({"reasoning_effort":"most"})", "reasoning_effort"},
      {R"({"chat_template_kwargs":{"enable_thinking":1}})", "chat_template_kwargs.enable_thinking"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"x"})", "messages"},
      {R"({"messages":null})", "messages"},
      {R"({"messages":[{"role":"user","content":null}]})", "messages[0].content"},
      {R"({"messages":[{"role":"robot","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":"}}]}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       "messages[0].content[0]"},
      {R"({"model":7})", "model"},
  };
  for (const Wrong& wrong : kWrong) {
    const ApiError error = chat_refusal(wrong.more);
    EXPECT_EQ(error.status, 400) << wrong.more;
    EXPECT_EQ(error.type, "invalid_request_error") << wrong.more;
    EXPECT_EQ(error.param, wrong.param) << wrong.more << ": " << error.message;
  }
}

TEST(ParseChat, ImagesAreRefusedInThoseWords) {
  EXPECT_THAT(
      chat_refusal(
          R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]})")
          .message,
      HasSubstr("messages[0].content[1]: image input is not supported"));
}

TEST(ParseChat, TakesWhatClientsSend) {
  const ChatRequest request = value_of(parse_chat_request(
      chat(
          R"({"model":"m","temperature":0.5,"top_k":-1,"n":2,"max_tokens":7,"max_completion_tokens":9,
               "stop":["a","b"],"seed":-1,"logprobs":true,"top_logprobs":3,"logit_bias":{"7":-100},
               "stream":true,"stream_options":{"include_usage":true},"user":"u","unknown":{"a":[1]},
               "response_format":{"type":"text"},"reasoning_effort":"low","presence_penalty":null})"),
      defaults()));
  const AnswerRequest& answer = request.answer;
  EXPECT_FLOAT_EQ(answer.sampling.temperature, 0.5F);
  EXPECT_EQ(answer.sampling.top_k, 0);
  EXPECT_EQ(answer.n_answers, 2U);
  EXPECT_EQ(answer.max_tokens, 9);
  EXPECT_THAT(answer.stops, ElementsAre("a", "b"));
  EXPECT_EQ(answer.sampling.seed, UINT64_MAX);
  EXPECT_EQ(answer.n_top_log_probs, 3U);
  ASSERT_EQ(answer.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(answer.sampling.logit_bias[0].token, 7);
  EXPECT_TRUE(answer.stream && answer.include_usage);
  EXPECT_TRUE(request.options.enable_thinking);
  EXPECT_FALSE(answer.format.schema);
}

TEST(ParseChat, SeedsDifferWhereNoneIsGiven) {
  const auto seed = [] {
    return value_of(parse_chat_request(chat(), defaults())).answer.sampling.seed;
  };
  EXPECT_NE(seed(), seed());
}

TEST(ParseChat, ToolChoice) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  const auto parsed = [&](const std::string& choice) {
    return value_of(parse_chat_request(chat("{" + tools + choice + "}"), defaults()));
  };
  using Kind = ToolChoice::Kind;
  EXPECT_EQ(parsed("").tool_choice.kind, Kind::kAuto);
  EXPECT_TRUE(parsed(R"(,"tool_choice":"none")").tools.is_null());
  EXPECT_EQ(parsed(R"(,"tool_choice":"required")").tool_choice.kind, Kind::kRequired);
  const ToolChoice named =
      parsed(R"(,"tool_choice":{"type":"function","function":{"name":"f"}})").tool_choice;
  EXPECT_EQ(named.kind, Kind::kNamed);
  EXPECT_EQ(named.name, "f");
}

TEST(ParseChat, KwargsWinOverEffort) {
  const auto thinks = [](const std::string& more) {
    return value_of(parse_chat_request(chat(more), defaults())).options.enable_thinking;
  };
  EXPECT_FALSE(thinks("{}"));
  EXPECT_FALSE(thinks(R"({"reasoning_effort":"none"})"));
  EXPECT_TRUE(
      thinks(R"({"reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true}})"));
}

TEST(ParseCompletion, PromptsOfEveryForm) {
  const auto prompts = [](const std::string& prompt) {
    const auto body = ordered_json::parse("{\"prompt\":" + prompt + "}");
    return value_of(parse_completion_request(body, defaults())).prompts;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_THAT(prompts(R"("a")"), ElementsAre(PromptInput("a")));
  EXPECT_THAT(prompts(R"(["a","b"])"), ElementsAre(PromptInput("a"), PromptInput("b")));
  EXPECT_THAT(prompts("[1,2]"), ElementsAre(PromptInput(Ids{1, 2})));
  EXPECT_THAT(prompts("[[1],[2,3]]"), ElementsAre(PromptInput(Ids{1}), PromptInput(Ids{2, 3})));
}

TEST(ParseCompletion, WrongFieldsAreNamed) {
  constexpr Wrong kWrong[] = {
      {R"({})", "prompt"},
      {R"({"prompt":""})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[100]})", "prompt"},
      {R"({"prompt":[1,-1]})", "prompt"},
      {R"({"prompt":[1,18446744073709551615]})", "prompt"},
      {R"({"prompt":[[1],[]]})", "prompt[1]"},
      {R"({"prompt":["a",7]})", "prompt[1]"},
      {R"({"prompt":"a","suffix":"b"})", "suffix"},
      {R"({"prompt":"a","best_of":2})", "best_of"},
      {R"({"prompt":"a","echo":true,"logprobs":1})", "echo"},
      {R"({"prompt":"a","logprobs":true})", "logprobs"},
  };
  for (const Wrong& wrong : kWrong) {
    const ApiError error =
        refusal(parse_completion_request(ordered_json::parse(wrong.more), defaults()));
    EXPECT_EQ(error.status, 400) << wrong.more;
    EXPECT_EQ(error.param, wrong.param) << wrong.more << ": " << error.message;
  }
}

TEST(ParseEmbedding, OnlyTheFullSize) {
  const auto parsed = [](const std::string& body) {
    return parse_embedding_request(ordered_json::parse(body), defaults());
  };
  EXPECT_TRUE(
      value_of(parsed(R"({"input":"a","dimensions":8,"encoding_format":"base64"})")).base64);
  EXPECT_EQ(refusal(parsed(R"({"input":"a","dimensions":4})")).param, "dimensions");
  EXPECT_EQ(refusal(parsed(R"({"input":"a","encoding_format":"int8"})")).param, "encoding_format");
  EXPECT_EQ(refusal(parsed(R"({"input":"a","pooling":"mean"})")).param, "pooling");
  EXPECT_EQ(refusal(parsed(R"({"input":["a",""]})")).param, "input[1]");
}

TEST(ApiErrors, StatusAndBody) {
  const HttpReply reply = error_reply(error(ErrorCode::kInvalidArgument, "top_p: 0 to 1 expected"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body,
            R"({"error":{"message":"top_p: 0 to 1 expected","type":"invalid_request_error",)"
            R"("param":"top_p","code":400}})");
  const HttpReply other = error_reply(error(ErrorCode::kCorrupt, "row 3: not finite"));
  EXPECT_EQ(other.status, 500);
  EXPECT_THAT(other.body, HasSubstr(R"("type":"server_error","param":null)"));
  EXPECT_EQ(api_error(error(ErrorCode::kUnsupported, "x")).type, "not_supported_error");
}

}  // namespace
}  // namespace hf2q
