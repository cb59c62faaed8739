// Events of the service to replies and streams.

#include <gtest/gtest.h>

#include "serve/chat_answers.h"
#include "serve/completion_answers.h"
#include "support/value_of.h"
#include "tokenizer/tokenizer_json.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;
using testing_support::value_of;

class AnswersTest : public testing::Test {
 protected:
  ReplyHead head() const { return {"id", 1, "m", "f"}; }
  // The text's tokens as the service tells of them, when no stop string holds any back.
  void speak(ChatAnswers& answers, std::string_view text, uint32_t answer = 0) {
    StreamDecoder decoder(tokenizer_, SpecialText::kHide);
    uint32_t n_tokens = 0;
    for (const int32_t id : tokenizer_.encode(text, {.parse_special = true})) {
      TokenEvent event{answer, id, decoder.push(id), std::nullopt};
      if (log_probs_) event.log_probs = LogProbs{{id, -1}, {{id, -1}}};
      answers.take(0, event);
      ++n_tokens;
    }
    answers.take(0, AnswerEnd{answer, decoder.finish(), "stop", n_tokens, 1});
  }
  ordered_json reply_to(std::string_view text, ChatAnswersOptions options) {
    ChatAnswers answers(head(), options, tokenizer_, markers_, nullptr);
    speak(answers, text);
    answers.take(0, RequestEnd{3, 0, 1});
    return ordered_json::parse(answers.reply())["choices"][0];
  }
  // The choices of the chunks, in order.
  std::vector<ordered_json> stream_of(std::string_view text, ChatAnswersOptions options) {
    std::vector<ordered_json> choices;
    ChatAnswers answers(head(), options, tokenizer_, markers_, [&](const std::string& chunk) {
      choices.push_back(ordered_json::parse(chunk)["choices"][0]);
    });
    speak(answers, text);
    return choices;
  }

  bool log_probs_ = false;
  Tokenizer tokenizer_ = value_of(
      Tokenizer::create(value_of(read_tokenizer_json(HF2Q_MODELS "/tiny-gemma4/tokenizer.json"))));
  MarkerIds markers_ = output_markers(tokenizer_);
};

constexpr std::string_view kTwoCalls =
    "<|channel>thought\nhm\n<channel|><|tool_call>call:f{a:<|\"|>x{,}:\"\n<|\"|>,n:1.5}<tool_call|>"
    "<|tool_call>call:g{tags:[bug,ui],z:null}<tool_call|>";

TEST_F(AnswersTest, TwoCallsBehindAThought) {
  const ordered_json choice = reply_to(kTwoCalls, {.may_call = true});
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const ordered_json& message = choice["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["reasoning_content"], "hm");
  ASSERT_EQ(message["tool_calls"].size(), 2U);
  const auto arguments = [&](size_t i) {
    return ordered_json::parse(
        message["tool_calls"][i]["function"]["arguments"].get<std::string>());
  };
  EXPECT_EQ(arguments(0), ordered_json({{"a", "x{,}:\"\n"}, {"n", 1.5}}));
  EXPECT_EQ(arguments(1), ordered_json({{"tags", {"bug", "ui"}}, {"z", nullptr}}));
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
}

TEST_F(AnswersTest, StreamedCallsHaveIndicesAndTheirNameOnce) {
  const std::vector<ordered_json> choices = stream_of(kTwoCalls, {.may_call = true});
  EXPECT_EQ(choices.front()["delta"], ordered_json({{"role", "assistant"}}));
  EXPECT_EQ(choices.back()["delta"], ordered_json::object());
  EXPECT_EQ(choices.back()["finish_reason"], "tool_calls");
  std::string names;
  std::string reasoning;
  std::vector<std::string> arguments(2);
  for (const ordered_json& choice : choices) {
    const ordered_json& delta = choice["delta"];
    reasoning += delta.value("reasoning_content", "");
    if (!delta.contains("tool_calls")) continue;
    const ordered_json& call = delta["tool_calls"][0];
    EXPECT_EQ(call.contains("id"), call["function"].contains("name"));
    names += call["function"].value("name", "");
    arguments.at(call["index"]) += call["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(names, "fg");
  EXPECT_EQ(reasoning, "hm");
  EXPECT_EQ(ordered_json::parse(arguments[1]),
            ordered_json({{"tags", {"bug", "ui"}}, {"z", nullptr}}));
}

TEST_F(AnswersTest, OneCallAtATime) {
  const ordered_json choice = reply_to(kTwoCalls, {.may_call = true, .several_calls = false});
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
}

// Truncated, malformed, and where nobody offered tools.
TEST_F(AnswersTest, WhatIsNoCallIsContentWithoutMarkers) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"<|tool_call>call:f{a:<|\"|>b", "call:f{a:\"b"},
      {"<|tool_call>call:f{a:}<tool_call|>", "call:f{a:}"},
      {"<|tool_call>call:f{a:<|\"|>b<|\"|>} and<tool_call|>", "call:f{a:\"b\"} and"},
      {"no <|\"|>quote", "no \"quote"}};
  for (const auto& [text, content] : kCases) {
    const ordered_json choice = reply_to(text, {.may_call = true});
    EXPECT_EQ(choice["message"]["content"], content);
    EXPECT_FALSE(choice["message"].contains("tool_calls"));
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
  EXPECT_EQ(reply_to("<|tool_call>call:f{a:1}<tool_call|>", {})["message"]["content"],
            "call:f{\"a\":1}");
}

// As many entries as tokens, also of those that show nothing.
TEST_F(AnswersTest, ALogProbForEveryToken) {
  log_probs_ = true;
  const std::string_view text = "a\U0001F9FF<|tool_call>call:f{}<tool_call|><turn|>";
  const size_t n = tokenizer_.encode(text, {.parse_special = true}).size();
  const ordered_json whole = reply_to(text, {.may_call = true, .log_probs = true});
  ASSERT_EQ(whole["logprobs"]["content"].size(), n);
  EXPECT_EQ(whole["logprobs"]["content"][1]["bytes"], ordered_json::array({0xF0}));
  EXPECT_EQ(whole["logprobs"]["content"][0]["top_logprobs"][0]["token"], "a");
  size_t streamed = 0;
  for (const ordered_json& choice : stream_of(text, {.may_call = true, .log_probs = true})) {
    if (choice["logprobs"].is_object()) streamed += choice["logprobs"]["content"].size();
  }
  EXPECT_EQ(streamed, n);
}

TEST_F(AnswersTest, CompletionsOfTwoPromptsWithEchoes) {
  const auto feed = [](CompletionAnswers& answers) {
    answers.take(1, TokenEvent{0, 300, "c", std::nullopt});
    answers.take(0, TokenEvent{1, 300, "b", std::nullopt});
    answers.take(0, TokenEvent{0, 300, "a", std::nullopt});
    for (size_t prompt = 0; prompt < 2; ++prompt) {
      for (uint32_t answer = 0; answer < 2; ++answer) {
        answers.take(prompt, AnswerEnd{answer, "!", "length", 2, 1});
      }
      answers.take(prompt, RequestEnd{3, 1, 1});
    }
  };
  const CompletionOptions options = {.n_answers = 2, .echoes = {"P", "Q"}, .include_usage = true};
  CompletionAnswers whole(head(), options, tokenizer_, nullptr);
  feed(whole);
  const auto reply = ordered_json::parse(whole.reply());
  EXPECT_EQ(reply["object"], "text_completion");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 8);
  std::vector<std::string> texts;
  for (const auto& choice : reply["choices"]) texts.push_back(choice["text"]);
  EXPECT_EQ(texts, (std::vector<std::string>{"Pa!", "Pb!", "Qc!", "Q!"}));
  std::vector<std::string> streamed(4);
  std::vector<std::string> chunks;
  CompletionAnswers stream(head(), options, tokenizer_,
                           [&](const std::string& chunk) { chunks.push_back(chunk); });
  feed(stream);
  stream.end_stream();
  EXPECT_EQ(chunks.back(), "[DONE]");
  chunks.pop_back();
  EXPECT_EQ(ordered_json::parse(chunks.back())["usage"]["prompt_tokens"], 6);
  for (const std::string& chunk : chunks) {
    const auto parsed = ordered_json::parse(chunk);
    for (const auto& choice : parsed["choices"]) {
      streamed.at(choice["index"]) += choice["text"].get<std::string>();
    }
  }
  EXPECT_EQ(streamed, texts);
}

}  // namespace
}  // namespace hf2q
