#include "forward/moe.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace hf2q {
namespace {

using testing::ElementsAre;

// Shared factors of the weights vanish in the norm behind the experts, so that logits do not show
// them.
TEST(Moe, WeightsAreSharesOfTheChosenTimesTheExpertsScale) {
  // exp of the logits: 1 3 2 4, and 8 1 1 2.
  std::vector<float> logits;
  for (const double p : {1, 3, 2, 4, 8, 1, 1, 2}) {
    logits.push_back(static_cast<float>(std::log(p)));
  }
  const std::vector<float> scale = {1, 10, 100, 1000};
  std::vector<uint32_t> ids(4);
  std::vector<float> weights(4);
  choose_experts(logits, 2, 4, 2, scale, ids, weights);
  EXPECT_THAT(ids, ElementsAre(3, 1, 0, 3));
  const double expected[] = {1000 * 4 / 7.0, 10 * 3 / 7.0, 1 * 8 / 10.0, 1000 * 2 / 10.0};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(weights[i], expected[i], 1e-6 * expected[i]) << i;
}

TEST(Moe, TiesGoToTheLowerId) {
  std::vector<float> logits = {-2, 5, 5, 5, 0, 0, 0, 0};
  const std::vector<float> scale(4, 1);
  std::vector<uint32_t> ids(4);
  std::vector<float> weights(4);
  choose_experts(logits, 2, 4, 2, scale, ids, weights);
  EXPECT_THAT(ids, ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(weights, ElementsAre(0.5F, 0.5F, 0.5F, 0.5F));
}

TEST(Moe, PairsLieExpertByExpert) {
  const std::vector<uint32_t> ids = {3, 1, 0, 3, 1, 3};  // of three rows
  std::vector<uint32_t> pair_of(6);
  std::vector<uint32_t> pair_row(6);
  std::vector<uint32_t> begin(5);
  order_by_expert(ids, 3, 4, 2, pair_of, pair_row, begin);
  EXPECT_THAT(begin, ElementsAre(0, 1, 3, 3, 6));
  EXPECT_THAT(pair_row, ElementsAre(1, 0, 2, 0, 1, 2));
  EXPECT_THAT(pair_of, ElementsAre(3, 1, 0, 4, 2, 5));
}

}  // namespace
}  // namespace hf2q
