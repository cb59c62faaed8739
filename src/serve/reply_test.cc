// Replies against the shapes of OpenAI's API reference.

#include <gtest/gtest.h>

#include "serve/batch_lines.h"
#include "serve/chat_reply.h"
#include "serve/embedding_reply.h"
#include "serve/metrics_text.h"
#include "serve/request_log.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;
using testing_support::value_of;

const ReplyHead kHead = {"chatcmpl-1", 1700000000, "m", "f"};

ReplyTotals totals() {
  ReplyTotals totals;
  totals.add(RequestEnd{10, 4, 3.0});
  totals.add(AnswerEnd{0, "", "stop", 5, 2.0});
  totals.add(AnswerEnd{1, "", "stop", 7, 4.0});
  return totals;
}

constexpr const char* kUsage = R"({"prompt_tokens":10,"completion_tokens":12,"total_tokens":22,
  "prompt_tokens_details":{"cached_tokens":4}})";
constexpr const char* kTimings = R"({"cache_n":4,"prompt_n":6,"prompt_ms":3.0,
  "prompt_per_second":2000.0,"predicted_n":12,"predicted_ms":4.0,"predicted_per_second":3000.0})";

TEST(ChatReply, IsAsTheReferenceHasIt) {
  ChatAnswer said{"Hello", "hm", {}, nullptr, "stop"};
  ChatAnswer called{"", "", {{"call_1", "f", "{\"a\":1}"}}, ordered_json::array({1}), "tool_calls"};
  ordered_json expected = ordered_json::parse(R"({
    "id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m",
    "system_fingerprint":"f","choices":[
      {"index":0,"message":{"role":"assistant","content":"Hello","reasoning_content":"hm"},
       "logprobs":null,"finish_reason":"stop"},
      {"index":1,"message":{"role":"assistant","content":null,"tool_calls":[
         {"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
       "logprobs":{"content":[1]},"finish_reason":"tool_calls"}]})");
  expected["usage"] = ordered_json::parse(kUsage);
  expected["timings"] = ordered_json::parse(kTimings);
  EXPECT_EQ(chat_reply(kHead, std::vector<ChatAnswer>{said, called}, totals()), expected);
}

TEST(ChatReply, FinishReasons) {
  EXPECT_EQ(chat_finish_reason("stop", false), "stop");
  EXPECT_EQ(chat_finish_reason("stop", true), "tool_calls");
  EXPECT_EQ(chat_finish_reason("length", true), "length");
}

TEST(ChatReply, Chunks) {
  const auto chunk = [](const char* choices) {
    ordered_json expected = ordered_json::parse(R"({"id":"chatcmpl-1",
      "object":"chat.completion.chunk","created":1700000000,"model":"m","system_fingerprint":"f"})");
    expected["choices"] = ordered_json::parse(choices);
    return expected;
  };
  EXPECT_EQ(chat_chunk(kHead, delta_choice(1, {{"content", "x"}}, nullptr, "")),
            chunk(R"([{"index":1,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}])"));
  EXPECT_EQ(chat_chunk(kHead, delta_choice(0, ordered_json::object(), nullptr, "length")),
            chunk(R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}])"));
  EXPECT_EQ(call_begin_delta(1, {"call_1", "f", "{}"}), ordered_json::parse(R"({"tool_calls":[
    {"index":1,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]})"));
  EXPECT_EQ(arguments_delta(1, "{\"a"), ordered_json::parse(R"({"tool_calls":[
    {"index":1,"function":{"arguments":"{\"a"}}]})"));
  ordered_json usage = chunk("[]");
  usage["usage"] = ordered_json::parse(kUsage);
  usage["timings"] = ordered_json::parse(kTimings);
  EXPECT_EQ(chat_usage_chunk(kHead, totals()), usage);
  ordered_json progress = chunk("[]");
  progress["prompt_progress"] =
      ordered_json::parse(R"({"total":9,"cache":2,"processed":5,"time_ms":1.5})");
  EXPECT_EQ(chat_progress_chunk(kHead, {9, 2, 5, 1.5}), progress);
}

// RFC 4648, section 10.
TEST(EmbeddingReply, Base64) {
  constexpr std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                              {"f", "Zg=="},
                                                              {"fo", "Zm8="},
                                                              {"foo", "Zm9v"},
                                                              {"foob", "Zm9vYg=="},
                                                              {"fooba", "Zm9vYmE="},
                                                              {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : kVectors) {
    const std::string text = plain;
    EXPECT_EQ(base64({reinterpret_cast<const uint8_t*>(text.data()), text.size()}), coded);
  }
}

// 1.0F is 00 00 80 3F, -2.0F is 00 00 00 C0; 0.1F is 0.1 in the fewest digits.
TEST(EmbeddingReply, BothForms) {
  const std::vector<std::vector<float>> vectors = {{1.0F, -2.0F}, {0.1F, 1e-10F}};
  EXPECT_EQ(embedding_reply("a\"b", vectors, false, 7),
            R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,-2]},)"
            R"({"object":"embedding","index":1,"embedding":[0.1,1e-10]}],"model":"a\"b",)"
            R"("usage":{"prompt_tokens":7,"total_tokens":7}})");
  const auto coded = ordered_json::parse(embedding_reply("m", vectors, true, 7));
  EXPECT_EQ(coded["data"][0]["embedding"], "AACAPwAAAMA=");
}

TEST(MetricsText, Form) {
  ServiceStats stats;
  stats.groups = {{100, 60}};
  stats.budget_bytes = 160;
  stats.metrics.outcomes.stop = 3;
  stats.metrics.first_token.observe(0.003);
  stats.metrics.first_token.observe(200);
  const std::string text = metrics_text({"0.1", "a\"b\\c\n", 1.5, {{"full", "f16", "tq8"}}}, stats);
  for (const std::string line :
       {"# HELP hf2q_requests_running Sequences with a place in the next batch\n"
        "# TYPE hf2q_requests_running gauge\nhf2q_requests_running 0\n",
        "hf2q_build_info{version=\"0.1\",model=\"a\\\"b\\\\c\\n\"} 1\n",
        "hf2q_requests_total{outcome=\"stop\"} 3\n",
        "hf2q_cache_bytes{group=\"full\",k_format=\"f16\",v_format=\"tq8\",use=\"live\"} 40\n",
        "hf2q_cache_usage_ratio 0.25\n", "# TYPE hf2q_time_to_first_token_seconds histogram\n",
        "hf2q_time_to_first_token_seconds_bucket{le=\"0.002\"} 0\n",
        "hf2q_time_to_first_token_seconds_bucket{le=\"0.005\"} 1\n",
        "hf2q_time_to_first_token_seconds_bucket{le=\"+Inf\"} 2\n"
        "hf2q_time_to_first_token_seconds_sum 200.003\n"
        "hf2q_time_to_first_token_seconds_count 2\n"}) {
    EXPECT_NE(text.find(line), text.npos) << line << "\nin\n" << text;
  }
}

TEST(RequestLog, ALineForEach) {
  const std::chrono::system_clock::time_point time{std::chrono::milliseconds(1700000000007)};
  EXPECT_EQ(utc_time(time), "2023-11-14T22:13:20.007Z");
  HttpLogEntry entry;
  entry.id = "r";
  entry.client = "::1";
  entry.method = "GET";
  entry.path = "/a\"b";
  entry.status = 200;
  entry.sent_bytes = 9;
  entry.milliseconds = 1.26;
  EXPECT_EQ(json_log_line(entry, "T"),
            R"({"time":"T","id":"r","client":"::1","method":"GET","path":"/a\"b","status":200,)"
            R"("ms":1.3,"bytes":9})");
  entry.left_early = true;
  entry.notes = {{"prompt_tokens", 4}};
  EXPECT_TRUE(json_log_line(entry, "T").ends_with(R"(,"left_early":true,"prompt_tokens":4})"));
  EXPECT_EQ(text_log_line(entry, "T"),
            "T ::1 GET /a\"b 200 1.3 ms 9 bytes left early prompt_tokens=4 id=r");
}

constexpr const char* kAsk =
    R"({"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"input":"x"}})";

TEST(BatchLines, InAndOut) {
  const BatchLine line = value_of(parse_batch_line(kAsk));
  EXPECT_EQ(line.request.target, "/v1/embeddings");
  EXPECT_EQ(line.request.body, R"({"input":"x"})");
  const auto result = ordered_json::parse(batch_result_line(line, {200, R"({"x":1})"}));
  EXPECT_EQ(result["custom_id"], "a");
  EXPECT_EQ(result["response"]["status_code"], 200);
  EXPECT_EQ(result["response"]["body"], ordered_json({{"x", 1}}));
  EXPECT_TRUE(result["error"].is_null());
  const auto failed =
      ordered_json::parse(batch_error_line("", {ErrorCode::kInvalidArgument, "no"}));
  EXPECT_TRUE(failed["custom_id"].is_null() && failed["response"].is_null());
  EXPECT_EQ(failed["error"]["message"], "no");
}

TEST(BatchLines, WrongLinesAreNamed) {
  constexpr std::pair<const char*, const char*> kWrong[] = {
      {"{", "body: JSON"},
      {R"({"method":"POST"})", "custom_id: a text expected, found none"},
      {R"({"custom_id":7})", "custom_id: a string expected, found 7"},
      {R"({"custom_id":"a","url":"/metrics"})", "url: one of"},
      {R"({"custom_id":"a","url":"/v1/embeddings","method":"GET"})", "method: one of POST"},
      {R"({"custom_id":"a","url":"/v1/embeddings","body":[]})", "body: an object expected"},
      {R"({"custom_id":"a","url":"/v1/completions","body":{"stream":true}})",
       "body.stream: false"}};
  for (const auto& [line, message] : kWrong) {
    const auto parsed = parse_batch_line(line);
    ASSERT_FALSE(parsed.ok()) << line;
    EXPECT_TRUE(parsed.error().message.starts_with(message)) << parsed.error().message;
  }
}

TEST(BatchLines, WhatIsDoneIsKept) {
  const std::string input = std::string(kAsk) + "\n\n{bad\r\n" + kAsk;
  const std::vector<std::string_view> lines = batch_lines(input);
  ASSERT_EQ(lines.size(), 3U);
  const std::string first = R"({"custom_id":"a"})"
                            "\n";
  const std::string second = R"({"custom_id":null,"error":{}})"
                             "\n";
  EXPECT_EQ(value_of(batch_done("", lines)).n_lines, 0U);
  const BatchDone two = value_of(batch_done(first + second + first.substr(0, 9), lines));
  EXPECT_EQ(two.n_lines, 2U);
  EXPECT_EQ(two.n_bytes, first.size() + second.size());
  EXPECT_FALSE(batch_done(second, lines).ok());
  EXPECT_FALSE(batch_done(first + second + first + first, lines).ok());
}

}  // namespace
}  // namespace hf2q
