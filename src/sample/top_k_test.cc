#include "sample/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace hf2q {
namespace {

std::vector<int32_t> ids(std::span<const Candidate> candidates) {
  std::vector<int32_t> tokens;
  for (const Candidate& c : candidates) tokens.push_back(c.token);
  return tokens;
}

std::vector<int32_t> by_sorting(std::span<const float> logits, size_t k) {
  std::vector<int32_t> order;
  for (size_t t = 0; t < logits.size(); ++t) {
    if (logits[t] != -std::numeric_limits<float>::infinity()) order.push_back(int32_t(t));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  order.resize(std::min(order.size(), k));
  return order;
}

TEST(TopK, MatchesSortingEverything) {
  std::mt19937 random(1);
  std::vector<Candidate> best;
  for (int round = 0; round < 500; ++round) {
    std::vector<float> logits(random() % 3000);
    const uint32_t levels = 1 + random() % 400;
    for (float& logit : logits) {
      const uint32_t level = random() % levels;
      logit = level == 0 ? -std::numeric_limits<float>::infinity() : float(level) - 100;
    }
    const size_t k = random() % 200;
    top_k(logits, k, best);
    EXPECT_EQ(ids(best), by_sorting(logits, k));
  }
}

TEST(TopK, AscendingAndDescendingInput) {
  std::vector<float> logits(10000);
  for (size_t t = 0; t < logits.size(); ++t) logits[t] = float(t);
  std::vector<Candidate> best;
  top_k(logits, 3, best);
  EXPECT_EQ(ids(best), (std::vector<int32_t>{9999, 9998, 9997}));
  std::reverse(logits.begin(), logits.end());
  top_k(logits, 3, best);
  EXPECT_EQ(ids(best), (std::vector<int32_t>{0, 1, 2}));
}

TEST(TopK, BestTokenAndMaximum) {
  EXPECT_EQ(max_logit({}).value(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(best_token({}, max_logit({}).value()), -1);
  for (size_t size : {1, 15, 16, 17, 33}) {
    for (size_t place = 0; place < size; ++place) {
      std::vector<float> logits(size, -5);
      logits[place] = -2;
      EXPECT_EQ(max_logit(logits).value(), -2);
      EXPECT_EQ(best_token(logits, -2), int32_t(place));
    }
  }
}

}  // namespace
}  // namespace hf2q
