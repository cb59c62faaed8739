#include "sample/params.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace hf2q {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::string refusal(auto set) {
  SamplingParams params;
  set(params);
  const auto result = validate(params, 100);
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  return result.error().message;
}

struct Given {
  std::optional<float> temperature, top_p, min_p, repeat_penalty, presence_penalty,
      frequency_penalty;
  std::optional<int64_t> top_k;
};

TEST(WithGiven, WhatIsGivenWinsAndTheRestStays) {
  SamplingParams file;
  file.temperature = 0.5F;
  file.top_k = 64;
  file.seed = 7;
  const SamplingParams kept = with_given(file, Given{});
  EXPECT_EQ(kept.temperature, 0.5F);
  EXPECT_EQ(kept.top_k, 64);
  const Given all = {0.1F, 0.2F, 0.3F, 1.4F, 0.5F, 0.6F, 7};
  const SamplingParams params = with_given(file, all);
  EXPECT_EQ(params.temperature, 0.1F);
  EXPECT_EQ(params.top_p, 0.2F);
  EXPECT_EQ(params.min_p, 0.3F);
  EXPECT_EQ(params.repeat_penalty, 1.4F);
  EXPECT_EQ(params.presence_penalty, 0.5F);
  EXPECT_EQ(params.frequency_penalty, 0.6F);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_EQ(params.seed, 7U);
}

TEST(SamplingParams, RefusalsNameFieldRangeAndValue) {
  EXPECT_EQ(refusal([](auto& p) { p.temperature = -1; }),
            "temperature: a number from 0 up expected, found -1");
  EXPECT_EQ(refusal([](auto& p) { p.temperature = kNotANumber; }),
            "temperature: a number from 0 up expected, found nan");
  EXPECT_EQ(refusal([](auto& p) { p.temperature = kInf; }),
            "temperature: a number from 0 up expected, found inf");
  EXPECT_EQ(refusal([](auto& p) { p.top_p = 1.5F; }), "top_p: 0 to 1 expected, found 1.5");
  EXPECT_EQ(refusal([](auto& p) { p.top_p = kNotANumber; }), "top_p: 0 to 1 expected, found nan");
  EXPECT_EQ(refusal([](auto& p) { p.min_p = -0.5F; }), "min_p: 0 to 1 expected, found -0.5");
  EXPECT_EQ(refusal([](auto& p) { p.repeat_penalty = 0; }),
            "repeat_penalty: 0.01 to 100 expected, found 0");
  EXPECT_EQ(refusal([](auto& p) { p.presence_penalty = 3; }),
            "presence_penalty: -2 to 2 expected, found 3");
  EXPECT_EQ(refusal([](auto& p) { p.frequency_penalty = -2.5F; }),
            "frequency_penalty: -2 to 2 expected, found -2.5");
  EXPECT_EQ(refusal([](auto& p) {
              p.logit_bias = {{5, 101}};
            }),
            "logit_bias: -100 to 100 expected, found 101");
  EXPECT_EQ(refusal([](auto& p) {
              p.logit_bias = {{100, 1}};
            }),
            "logit_bias: token id 0 to 99 expected, found 100");
  EXPECT_EQ(refusal([](auto& p) { p.suppressed_tokens = {-1}; }),
            "suppressed_tokens: token id 0 to 99 expected, found -1");
}

TEST(SamplingParams, ExtremesThatAreFine) {
  EXPECT_EQ(refusal([](auto& p) {
              p.temperature = 0, p.top_p = 0, p.min_p = 1, p.presence_penalty = -2;
              p.frequency_penalty = 2, p.logit_bias = {{0, -100}, {99, 100}};
              p.suppressed_tokens = {0, 99}, p.seed = UINT64_MAX;
            }),
            "accepted");
}

TEST(SamplingParams, Clamps) {
  const auto top_k = [](int64_t k) {
    SamplingParams params;
    params.top_k = k;
    return validate(params, 100).value().top_k;
  };
  EXPECT_EQ(top_k(-1), 0);
  EXPECT_EQ(top_k(INT64_MIN), 0);
  EXPECT_EQ(top_k(64), 64);
  EXPECT_EQ(top_k(100), 0);
  EXPECT_EQ(top_k(INT64_MAX), 0);
  SamplingParams params;
  params.penalty_last_n = -7;
  EXPECT_EQ(validate(params, 100).value().penalty_last_n, -1);
}

TEST(SamplingParams, AnswerLimit) {
  EXPECT_EQ(answer_limit(-5, 100), 100U);
  EXPECT_EQ(answer_limit(0, 100), 0U);
  EXPECT_EQ(answer_limit(99, 100), 99U);
  EXPECT_EQ(answer_limit(1000000000, 100), 100U);
  EXPECT_EQ(answer_limit(INT64_MIN, 0), 0U);
}

}  // namespace
}  // namespace hf2q
