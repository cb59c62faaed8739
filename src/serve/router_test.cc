#include "serve/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/local_exchange.h"
#include "serve/service_for_tests.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing_support::Client;
using testing_support::value_of;

HttpRequest head_of(std::string method, std::string target, HttpHeaders headers = {}) {
  return {std::move(method), std::move(target), std::move(headers), "", "id"};
}

TEST(Keys, OnlyWholeKeysCount) {
  const std::vector<std::string> keys = {"abc", "abcdef"};
  EXPECT_TRUE(is_known_key(keys, "abc"));
  EXPECT_TRUE(is_known_key(keys, "abcdef"));
  for (const std::string_view wrong : {"", "ab", "abd", "abcabc", "abcd", "abcdefabcdef"}) {
    EXPECT_FALSE(is_known_key(keys, wrong)) << wrong;
  }
  EXPECT_EQ(bearer_key(head_of("GET", "/", {{"authorization", "Bearer k"}})), "k");
  EXPECT_EQ(bearer_key(head_of("GET", "/", {{"authorization", "Basic k"}})), "");
}

TEST(Router, RefusesFromTheHeader) {
  ApiOptions options;
  options.keys = {"k"};
  const Router router(options);
  const HttpHeaders key = {{"Authorization", "Bearer k"}, {"Content-Type", "application/json"}};
  const auto status = [&](const HttpRequest& head) {
    const std::optional<HttpReply> reply = router.refuse(head);
    return reply ? reply->status : 0;
  };
  EXPECT_EQ(status(head_of("GET", "/v1/models")), 401);
  EXPECT_EQ(status(head_of("GET", "/v1/models", {{"Authorization", "Bearer kk"}})), 401);
  EXPECT_EQ(status(head_of("GET", "/nowhere")), 401);
  EXPECT_EQ(status(head_of("GET", "/nowhere", key)), 404);
  EXPECT_EQ(status(head_of("GET", "/v1/chat/completions", key)), 405);
  EXPECT_THAT(router.refuse(head_of("PUT", "/v1/models", key))->headers,
              Contains(Pair("Allow", "GET, HEAD, OPTIONS")));
  HttpHeaders form = key;
  form[1].second = "text/plain";
  EXPECT_EQ(status(head_of("POST", "/tokenize", form)), 415);
  form[1].second = "application/json; charset=utf-8";
  EXPECT_EQ(status(head_of("POST", "/tokenize", form)), 503);  // no model yet
  EXPECT_EQ(status(head_of("GET", "/health")), 503);
  EXPECT_EQ(status(head_of("GET", "/livez")), 0);
  EXPECT_EQ(status(head_of("OPTIONS", "/tokenize")), 0);
}

TEST(Router, OtherOriginsOnlyWhenAskedFor) {
  const auto headers = [](std::vector<std::string> origins, std::string method) {
    ApiOptions options;
    options.origins = std::move(origins);
    return Router(options).headers(
        head_of(std::move(method), "/",
                {{"Origin", "https://a.b"}, {"Access-Control-Request-Headers", "x"}}));
  };
  EXPECT_THAT(headers({}, "OPTIONS"), IsEmpty());
  EXPECT_THAT(headers({"https://c.d"}, "GET"),
              Not(Contains(Pair("Access-Control-Allow-Origin", testing::_))));
  EXPECT_THAT(headers({"*"}, "GET"), Contains(Pair("Access-Control-Allow-Origin", "https://a.b")));
  EXPECT_THAT(headers({"https://a.b"}, "OPTIONS"),
              Contains(Pair("Access-Control-Allow-Headers", "x")));
}

// Routes on a small model, without a network.
class RoutesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineOptions options;
    options.n_ctx = 256;
    options.n_sequences = 4;
    options.max_rows = 32;
    options.max_outputs = 4;
    options.n_threads = 1;
    service = value_of(
        Service::start(load_test_engine(HF2Q_MODELS "/tiny-gemma4", FileType::kQ8_0, options),
                       {.max_running = 2, .max_queue = 1}));
    ApiOptions api_options;
    api_options.model_name = "tiny";
    api = std::make_unique<Api>(*service, api_options, value_of(chat_template()));
  }
  static void TearDownTestSuite() {
    api.reset();
    service.reset();
  }
  static Result<ChatTemplate> chat_template() { return ChatTemplate::gemma4(Gemma4Size::kSmall); }

  std::shared_ptr<LocalExchange> start(const std::string& target, const std::string& body) {
    Router router({});
    router.set_api(api.get());
    const auto exchange = std::make_shared<LocalExchange>(queue_);
    router.handle({body.empty() ? "GET" : "POST", target, {}, body, "id"}, exchange);
    return exchange;
  }
  std::shared_ptr<LocalExchange> finish(const std::shared_ptr<LocalExchange>& exchange) {
    while (!exchange->done()) queue_.run_one();
    return exchange;
  }
  ordered_json ask(const std::string& target, const std::string& body = "", int status = 200) {
    const auto exchange = finish(start(target, body));
    EXPECT_EQ(exchange->reply().status, status) << exchange->reply().body;
    return ordered_json::parse(exchange->reply().body);
  }
  std::string content(const ordered_json& reply) {
    return reply["choices"][0]["message"]["content"];
  }

  static std::unique_ptr<Service> service;
  static std::unique_ptr<Api> api;
  WorkQueue queue_;
};
std::unique_ptr<Service> RoutesTest::service;
std::unique_ptr<Api> RoutesTest::api;

constexpr const char* kNorway =
    R"("messages":[{"role":"user","content":"What is the capital of Norway?"}],"temperature":0)";

std::string norway(const std::string& more = "") {
  return "{" + std::string(kNorway) + more + "}";
}

TEST_F(RoutesTest, ChatsAreAnsweredAndStreamedAlike) {
  const ordered_json reply = ask("/v1/chat/completions", norway());
  EXPECT_EQ(content(reply), "The capital of Norway is Oslo.");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  const auto exchange = finish(start("/v1/chat/completions", norway(R"(,"stream":true,"n":2)")));
  std::vector<std::string> streamed(2);
  ASSERT_EQ(exchange->events().back(), "[DONE]");
  for (size_t i = 0; i + 1 < exchange->events().size(); ++i) {
    const auto chunk = ordered_json::parse(exchange->events()[i]);
    EXPECT_FALSE(chunk.contains("usage"));
    const ordered_json& choice = chunk["choices"][0];
    streamed.at(choice["index"]) += choice["delta"].value("content", "");
  }
  EXPECT_EQ(streamed[0], content(reply));
}

TEST_F(RoutesTest, WhatWasReadBeforeIsCountedByNamespace) {
  const auto cached = [&](const std::string& more) {
    return ask("/v1/chat/completions",
               norway(more))["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  cached(R"(,"cache_salt":"a")");
  EXPECT_EQ(cached(R"(,"cache_salt":"a")"), 17);  // all 18 but the last
  EXPECT_EQ(cached(R"(,"cache_salt":"b")"), 0);
  EXPECT_EQ(cached(R"(,"cache_salt":"a","cache_prompt":false)"), 0);
}

TEST_F(RoutesTest, TooLongIsRefusedWithBothNumbers) {
  const auto error =
      ask("/v1/chat/completions",
          R"({"messages":[{"role":"user","content":")" + std::string(600, 'Q') + R"("}]})",
          400)["error"];
  EXPECT_EQ(error["type"], "exceed_context_size_error");
  EXPECT_EQ(error["n_ctx"], 256);
  EXPECT_GT(error["n_prompt_tokens"], 256);
}

TEST_F(RoutesTest, FormsOfAnswersAndForcedCalls) {
  const auto reply = ask(
      "/v1/chat/completions",
      norway(
          R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"const":"Bergen"}}})"));
  EXPECT_EQ(content(reply), "\"Bergen\"");
  const std::string tools =
      R"(,"max_tokens":60,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"city":{"enum":["Oslo"]}},"required":["city"]}}}])";
  const auto call =
      ask("/v1/chat/completions", norway(tools + R"(,"tool_choice":"required")"))["choices"][0];
  EXPECT_EQ(call["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(call["message"]["tool_calls"][0]["function"]["arguments"], R"({"city":"Oslo"})");
  EXPECT_EQ(call["finish_reason"], "tool_calls");
  const auto either = ask(
      "/v1/chat/completions",
      norway(
          tools +
          R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"const":"Bergen"}}})"))
      ["choices"][0];
  EXPECT_TRUE(either["message"]["content"] == "\"Bergen\"" ||
              either["finish_reason"] == "tool_calls")
      << either;
  const auto refused = ask(
      "/v1/chat/completions",
      norway(
          R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"not":{}}}})"),
      400)["error"];
  EXPECT_THAT(refused["message"].get<std::string>(), HasSubstr("keyword 'not' is not supported"));
  EXPECT_EQ(refused["param"], "response_format.json_schema.schema");
}

// More inputs than run at once, one longer than a batch; alone or together the same.
TEST_F(RoutesTest, EmbeddingsInOrderAloneOrTogether) {
  ordered_json inputs = {"a", std::string(90, 'Q'), "b", "c", "d", "e", "f"};
  const auto all = ask("/v1/embeddings", ordered_json{{"input", inputs}}.dump());
  ASSERT_EQ(all["data"].size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(all["data"][i]["index"], i);
    const auto one = ask("/v1/embeddings", ordered_json{{"input", inputs[i]}}.dump());
    EXPECT_EQ(one["data"][0]["embedding"], all["data"][i]["embedding"]) << i;
  }
}

TEST_F(RoutesTest, TheQueueHasAnEnd) {
  const std::string slow = norway(R"(,"ignore_eos":true,"max_tokens":200,"stream":true)");
  std::vector<std::shared_ptr<LocalExchange>> open;
  for (int i = 0; i < 3; ++i) open.push_back(start("/v1/chat/completions", slow));
  const auto refused = start("/v1/chat/completions", norway());
  ASSERT_TRUE(refused->done());
  EXPECT_EQ(refused->reply().status, 503);
  EXPECT_THAT(refused->reply().headers, Contains(Pair("Retry-After", "1")));
  // Those whose clients leave make room.
  for (const auto& exchange : open) exchange->close();
  service->with_engine([](Engine&) {});
  service->with_engine([](Engine&) {});
  EXPECT_EQ(content(ask("/v1/chat/completions", norway())), "The capital of Norway is Oslo.");
}

TEST_F(RoutesTest, ErrorsAndSmallRoutes) {
  EXPECT_EQ(ask("/v1/chat/completions", "{", 400)["error"]["type"], "invalid_request_error");
  EXPECT_EQ(ask("/v1/chat/completions", norway(R"(,"top_p":"x")"), 400)["error"]["param"], "top_p");
  EXPECT_EQ(ask("/tokenize", R"({"content":"Hello world"})"),
            ordered_json::parse(R"({"tokens":[2787,4178]})"));
  EXPECT_EQ(ask("/detokenize", R"({"tokens":[2787,4178]})")["content"], "Hello world");
  EXPECT_EQ(ask("/apply-template", norway())["prompt"],
            "<bos><|turn>user\nWhat is the capital of Norway?<turn|>\n<|turn>model\n");
  EXPECT_EQ(ask("/v1/models")["data"][0]["id"], "tiny");
  EXPECT_EQ(ask("/v1/models/tiny")["meta"]["n_ctx"], 256);
  EXPECT_EQ(ask("/v1/models/other", "", 404)["error"]["type"], "not_found_error");
  EXPECT_EQ(ask("/props")["n_ctx"], 256);
  service->with_engine([](Engine&) {});  // behind the step that ended the last request
  EXPECT_EQ(ask("/slots"), ordered_json::array());
  EXPECT_EQ(ask("/readyz")["status"], "ok");
}

TEST_F(RoutesTest, ABatchLineWithMorePromptsThanRunAtOnce) {
  const auto reply =
      ask("/v1/completions",
          R"({"prompt":["A","B","C","D","E"],"temperature":0,"max_tokens":4,"n":2})");
  ASSERT_EQ(reply["choices"].size(), 10U);
  for (size_t i = 0; i < 10; ++i) {
    const std::string prompt(1, static_cast<char>('A' + i / 2));
    const auto alone =
        ask("/v1/completions", R"({"prompt":")" + prompt + R"(","temperature":0,"max_tokens":4})");
    EXPECT_EQ(reply["choices"][i]["text"], alone["choices"][0]["text"]);
  }
}

}  // namespace
}  // namespace hf2q
