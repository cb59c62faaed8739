#include "ops/lloyd_max.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace hf2q {
namespace {

// Tables of the literature (Max 1960; 7 digits) and, beyond them, the fixed point of Lloyd's
// iteration run to convergence elsewhere.
TEST(LloydMax, LevelsAreTheKnownOnes) {
  const std::map<size_t, std::vector<double>> positive = {
      {2, {0.7978846}},
      {4, {0.4527800, 1.5104176}},
      {5, {0.7645676, 1.7241474}},
      {6, {0.3177164, 1.0001060, 1.8935948}},
      {8, {0.2450942, 0.7560053, 1.3439093, 2.1519457}},
      {11, {0.3674581, 0.7523673, 1.1788264, 1.6926390, 2.4257464}},
      {16,
       {0.1283950, 0.3880483, 0.6567591, 0.9423405, 1.2562312, 1.6180464, 2.0690172, 2.7325896}},
      {32,
       {0.0658897, 0.1980518, 0.3313783, 0.4666995, 0.6049336, 0.7471357, 0.8945651, 1.0487833,
        1.2118044, 1.3863403, 1.5762281, 1.7872332, 2.0287284, 2.3177394, 2.6911196, 3.2607325}},
  };
  for (const auto& [n, expected] : positive) {
    const std::vector<double> levels = lloyd_max_levels(n);
    ASSERT_EQ(levels.size(), n);
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t at = n - expected.size() + i;
      EXPECT_NEAR(levels[at], expected[i], 6e-8) << n;
      EXPECT_EQ(levels[n - 1 - at], -levels[at]);
    }
    EXPECT_EQ(levels[n / 2] == 0, n % 2 == 1);
  }
}

TEST(LloydMax, LargeTablesHaveTheKnownSumsAndAnchors) {
  const std::vector<double> levels = lloyd_max_levels(256);
  const std::map<size_t, double> anchors = {{128, 0.0084462}, {129, 0.0253394}, {130, 0.0422350},
                                            {143, 0.2628362}, {159, 0.5407663}, {191, 1.1523054},
                                            {223, 1.9638784}, {239, 2.6065215}, {247, 3.1371325},
                                            {253, 3.9256378}, {254, 4.1865954}, {255, 4.6035356}};
  for (const auto& [at, level] : anchors) EXPECT_NEAR(levels[at], level, 6e-8) << at;

  const auto sums = [](size_t n) {
    const std::vector<double> all = lloyd_max_levels(n);
    const std::vector<double> half(all.begin() + static_cast<ptrdiff_t>(n / 2), all.end());
    return std::pair(std::accumulate(half.begin(), half.end(), 0.0),
                     std::inner_product(half.begin(), half.end(), half.begin(), 0.0));
  };
  EXPECT_NEAR(sums(64).first, 42.506492, 1e-6);
  EXPECT_NEAR(sums(64).second, 85.705010, 1e-6);
  EXPECT_NEAR(sums(256).first, 174.758768, 1e-6);
  EXPECT_NEAR(sums(256).second, 369.637181, 1e-6);
}

TEST(LloydMax, ErrorsAreTheKnownOnes) {
  const std::map<size_t, double> expected = {
      {2, 0.3633802},    {4, 0.1174818},     {5, 0.0799411},     {6, 0.0579777},
      {8, 0.0345478},    {11, 0.0192195},    {16, 0.0095010},    {32, 0.00250467},
      {64, 0.000644240}, {128, 0.000163478}, {256, 0.0000411851}};
  for (const auto& [n, error] : expected) {
    EXPECT_NEAR(mean_squared_error(lloyd_max_levels(n)) / error, 1, 3e-6) << n;
  }
}

}  // namespace
}  // namespace hf2q
