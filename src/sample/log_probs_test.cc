#include "sample/log_probs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace hf2q {
namespace {

TEST(LogProbs, ByHand) {
  // p = 1/10, 2/10, 3/10, 4/10.
  const std::vector<float> logits = {0, std::log(2.0F), std::log(3.0F), std::log(4.0F)};
  const LogProbs result = log_probs(logits, 1, 2).value();
  EXPECT_EQ(result.chosen.token, 1);
  EXPECT_NEAR(result.chosen.log_prob, std::log(0.2), 1e-6);
  ASSERT_EQ(result.top.size(), 2U);
  EXPECT_EQ(result.top[0].token, 3);
  EXPECT_NEAR(result.top[0].log_prob, std::log(0.4), 1e-6);
  EXPECT_EQ(result.top[1].token, 2);
  EXPECT_NEAR(result.top[1].log_prob, std::log(0.3), 1e-6);
}

TEST(LogProbs, MatchesLongDoubleOnARealVocabulary) {
  std::mt19937 random(1);
  std::vector<float> logits(262144);
  long double sum = 0;
  for (float& logit : logits) {
    logit = 60 * float(random()) * 0x1p-32F - 30;
    sum += std::exp(static_cast<long double>(logit));
  }
  for (int32_t token : {0, 77, 262143}) {
    const long double expected = static_cast<long double>(logits[size_t(token)]) - std::log(sum);
    const LogProbs result = log_probs(logits, token, 0).value();
    EXPECT_NEAR(result.chosen.log_prob, double(expected),
                4e-6);  // one unit in the last place at 60
    EXPECT_TRUE(result.top.empty());
  }
}

TEST(LogProbs, ImpossibleTokensHaveTheLowestValue) {
  const std::vector<float> logits = {1, -std::numeric_limits<float>::infinity(), 1};
  const LogProbs result = log_probs(logits, 1, 20).value();
  EXPECT_EQ(result.chosen.log_prob, -9999);
  ASSERT_EQ(result.top.size(), 2U);
  EXPECT_EQ(result.top[0].token, 0);
  EXPECT_NEAR(result.top[1].log_prob, std::log(0.5), 1e-7);
}

TEST(LogProbs, BadLogitsAreErrors) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> nan = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(log_probs(nan, 0, 1).error().code, ErrorCode::kCorrupt);
  const std::vector<float> none = {-kInfinity, -kInfinity};
  EXPECT_EQ(log_probs(none, 0, 1).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace hf2q
