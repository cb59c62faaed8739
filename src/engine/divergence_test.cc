#include "engine/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "support/value_of.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::value_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Probabilities by the definition; good for logits of moderate size.
std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) sum += p.emplace_back(std::exp(double{x}));
  for (double& x : p) x /= sum;
  return p;
}

double plain_kl(const std::vector<float>& a, const std::vector<float>& b) {
  const std::vector<double> p = softmax(a);
  const std::vector<double> q = softmax(b);
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) kl += p[i] * std::log(p[i] / q[i]);
  return kl;
}

std::vector<float> random_logits(size_t n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

TEST(CompareRows, TwoTokensByHand) {
  const std::vector<float> a = {0, std::log(3.0F)};  // 1/4 and 3/4
  const std::vector<float> b = {std::log(3.0F), 0};  // 3/4 and 1/4
  const RowDivergence row = value_of(compare_rows(a, b, 1));
  EXPECT_NEAR(row.kl, 0.5 * std::log(3.0), 1e-7);  // the logits are rounded to F32
  EXPECT_NEAR(row.nll_a, std::log(4.0 / 3), 1e-7);
  EXPECT_NEAR(row.nll_b, std::log(4.0), 1e-7);
  EXPECT_FALSE(row.same_top1);
}

TEST(CompareRows, MatchesTheDefinition) {
  for (const size_t n : {1, 2, 7, 1000, 8192}) {
    for (const float noise : {0.0F, 1e-3F, 0.1F, 3.0F}) {
      const std::vector<float> a = random_logits(n, 4, 1);
      std::vector<float> b = random_logits(n, noise, 2);
      for (size_t i = 0; i < n; ++i) b[i] += a[i];
      const RowDivergence row = value_of(compare_rows(a, b, static_cast<int32_t>(n / 2)));
      EXPECT_NEAR(row.kl, plain_kl(a, b), 1e-12) << n << " tokens, noise " << noise;
      EXPECT_NEAR(row.nll_a, -std::log(softmax(a)[n / 2]), 1e-12);
      EXPECT_NEAR(row.nll_b, -std::log(softmax(b)[n / 2]), 1e-12);
      EXPECT_GE(row.kl, 0);
    }
  }
}

TEST(CompareRows, ATinyDivergenceKeepsItsDigits) {
  // Two tokens of a half each; b moves one logit by d: KL = ln(cosh(d / 2)), about d^2 / 8.
  const std::vector<float> a = {20, 20};
  const std::vector<float> b = {20, 20.0001F};
  const double moved = double{b[1]} - 20;
  EXPECT_NEAR(value_of(compare_rows(a, b, 0)).kl, moved * moved / 8, 1e-15);
}

TEST(CompareRows, LargeLogitsDoNotOverflow) {
  const RowDivergence row =
      value_of(compare_rows(std::vector<float>{3e38F, 0}, std::vector<float>{3e38F, -3e38F}, 1));
  EXPECT_EQ(row.kl, 0);
  EXPECT_EQ(row.nll_a, double{3e38F});
  EXPECT_EQ(row.nll_b, 2 * double{3e38F});
}

TEST(CompareRows, ShiftedLogitsAreTheSameDistribution) {
  const std::vector<float> a = {1, 2, 3, 4};
  EXPECT_NEAR(value_of(compare_rows(a, std::vector<float>{101, 102, 103, 104}, 0)).kl, 0, 1e-14);
}

TEST(CompareRows, TokensThatCannotCome) {
  const std::vector<float> open = {0, 0, 0};
  const std::vector<float> masked = {0, 0, -kInfinity};
  EXPECT_EQ(value_of(compare_rows(masked, masked, 0)).kl, 0);
  EXPECT_NEAR(value_of(compare_rows(masked, open, 0)).kl, std::log(1.5), 1e-15);
  EXPECT_EQ(value_of(compare_rows(open, masked, 0)).kl, kInfinity);
}

TEST(CompareRows, AmongEqualsTheLowestIdIsTheTop) {
  EXPECT_TRUE(value_of(compare_rows(std::vector<float>{1, 5, 5}, std::vector<float>{1, 5, 2}, 0))
                  .same_top1);
  EXPECT_FALSE(value_of(compare_rows(std::vector<float>{1, 5, 5}, std::vector<float>{1, 2, 5}, 0))
                   .same_top1);
}

TEST(CompareRows, RefusesWhatIsNoNumber) {
  const std::vector<float> good = {0, 1};
  for (const float bad : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const auto& result : {compare_rows(good, std::vector<float>{0, bad}, 0),
                               compare_rows(std::vector<float>{0, bad}, good, 0)}) {
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
    }
  }
  const auto none = compare_rows(good, std::vector<float>{-kInfinity, -kInfinity}, 0);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("all 2 are -infinity"));
}

RowDivergence row_of(double kl, bool same = true) {
  return {kl, same, 1.0, 2.0};
}

TEST(Summarize, OneRow) {
  const Divergence d = summarize(std::vector<RowDivergence>{row_of(0.25)});
  EXPECT_EQ(d.n_tokens, 1U);
  EXPECT_EQ(d.kl_mean, 0.25);
  EXPECT_EQ(d.kl_median, 0.25);
  EXPECT_EQ(d.kl_p99, 0.25);
  EXPECT_EQ(d.same_top1, 1);
  EXPECT_DOUBLE_EQ(d.ppl_a, std::exp(1.0));
  EXPECT_DOUBLE_EQ(d.ppl_b, std::exp(2.0));
}

TEST(Summarize, QuantilesInAnyOrder) {
  // 0 to 200 in some order: the median is 100, the 99th percentile at 0.99 * 200 = 198.
  std::vector<RowDivergence> rows;
  for (int i = 0; i <= 200; ++i) rows.push_back(row_of((i * 77) % 201, i % 4 != 0));
  const Divergence d = summarize(rows);
  EXPECT_DOUBLE_EQ(d.kl_mean, 100);
  EXPECT_DOUBLE_EQ(d.kl_median, 100);
  EXPECT_DOUBLE_EQ(d.kl_p99, 198);
  EXPECT_DOUBLE_EQ(d.same_top1, 150.0 / 201);
}

TEST(Summarize, QuantilesBetweenRows) {
  const Divergence d =
      summarize(std::vector<RowDivergence>{row_of(4), row_of(1), row_of(3), row_of(2)});
  EXPECT_DOUBLE_EQ(d.kl_median, 2.5);
  EXPECT_NEAR(d.kl_p99, 3.97, 1e-12);  // at 2.97 of the way from row 0 to row 3
}

}  // namespace
}  // namespace hf2q
