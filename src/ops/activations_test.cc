#include "ops/activations.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace hf2q {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Blocks of all sorts: normal numbers, ties, tiny, huge, constant, not finite.
std::vector<float> difficult_blocks() {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (float scale : {1.0F, 1e-20F, 3e-31F, 1e-31F, 1e-40F, 1e30F, 0.0F}) {
    for (int i = 0; i < 64; ++i) x.push_back(normal(rng) * scale);
  }
  for (int i = 0; i < 32; ++i) x.push_back(i == 5 ? 127.0F : static_cast<float>(i) + 0.5F);
  for (int i = 0; i < 32; ++i) x.push_back(-std::numeric_limits<float>::max());
  for (float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    for (int i = 0; i < 32; ++i) x.push_back(i == 17 ? bad : normal(rng));
  }
  return x;
}

std::vector<ActivationBlock> quantize(Exec& exec, const std::vector<float>& x, size_t m) {
  std::vector<ActivationBlock> blocks(activation_blocks(m, x.size() / m));
  const Activations result = quantize_rows(exec, x.data(), m, x.size() / m, blocks.data());
  EXPECT_EQ(result.blocks, blocks.data());
  EXPECT_EQ(result.x, x.data());
  EXPECT_EQ(result.m, m);
  return blocks;
}

class ActivationsTest : public testing::TestWithParam<Isa> {};

TEST_P(ActivationsTest, KnownBlock) {
  std::vector<float> x(32, 0.0F);
  x[0] = -127.0F;
  x[1] = 0.5F;  // ties go to even
  x[2] = 1.5F;
  x[3] = -2.5F;
  x[16] = 100.4F;
  x[31] = 126.6F;
  Exec exec(1, GetParam());
  const ActivationBlock block = quantize(exec, x, 1)[0];
  EXPECT_EQ(block.scale, 1.0F);
  EXPECT_EQ(block.q[0], -127);
  EXPECT_EQ(block.q[1], 0);
  EXPECT_EQ(block.q[2], 2);
  EXPECT_EQ(block.q[3], -2);
  EXPECT_EQ(block.q[16], 100);
  EXPECT_EQ(block.q[31], 127);
  EXPECT_EQ(block.half_sums[0], -127);
  EXPECT_EQ(block.half_sums[1], 227);
  EXPECT_EQ(block.sum, 100.0F);
}

TEST_P(ActivationsTest, ErrorIsAtMostHalfAStep) {
  std::mt19937 rng(4);
  std::normal_distribution<float> normal;
  std::vector<float> x(32 * 200);
  for (float& value : x) value = normal(rng);
  Exec exec(1, GetParam());
  const std::vector<ActivationBlock> blocks = quantize(exec, x, 1);
  for (size_t b = 0; b < blocks.size(); ++b) {
    double amax = 0;
    for (size_t i = 0; i < 32; ++i) amax = std::max(amax, std::abs(double{x[32 * b + i]}));
    // Half a step and the rounding of scale, inverse and product: |q| <= 127 times 2^-24 each.
    const double bound = amax / 254 * (1 + 3 * 254 * 0x1p-24);
    for (size_t i = 0; i < 32; ++i) {
      const double back = double{blocks[b].scale} * blocks[b].q[i];
      EXPECT_LE(std::abs(x[32 * b + i] - back), bound);
    }
  }
}

TEST_P(ActivationsTest, SameBitsAsTheReferenceWhateverTheThreadsAndRows) {
  const std::vector<float> blocks_of_all_sorts = difficult_blocks();
  std::vector<float> x(size_t{32} * 3000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = blocks_of_all_sorts[i % blocks_of_all_sorts.size()];
  Exec reference(1, Isa::kScalar);
  const std::vector<ActivationBlock> expected = quantize(reference, x, 1);
  for (size_t n_threads : {1, 2, 3}) {
    Exec exec(n_threads, GetParam());
    for (size_t m : {1, 3, 1000}) {
      const std::vector<ActivationBlock> blocks = quantize(exec, x, m);
      ASSERT_EQ(std::memcmp(blocks.data(), expected.data(), sizeof(blocks[0]) * blocks.size()), 0);
    }
  }
}

TEST_P(ActivationsTest, TinyBlocksAreZeroAndNonFiniteOnesAreNaN) {
  std::vector<float> x(4 * 32, 1.0F);
  std::fill(x.begin(), x.begin() + 32, 1e-38F);
  x[32 + 7] = kInfinity;
  x[64 + 9] = std::nanf("");
  Exec exec(1, GetParam());
  const std::vector<ActivationBlock> blocks = quantize(exec, x, 1);
  EXPECT_EQ(blocks[0].scale, 0.0F);
  EXPECT_EQ(blocks[0].sum, 0.0F);
  EXPECT_TRUE(std::isnan(blocks[1].scale) && std::isnan(blocks[1].sum));
  EXPECT_TRUE(std::isnan(blocks[2].scale) && std::isnan(blocks[2].sum));
  EXPECT_EQ(blocks[3].q[0], 127);
}

INSTANTIATE_TEST_SUITE_P(All, ActivationsTest,
                         testing::ValuesIn(usable_isas().begin(), usable_isas().end()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace hf2q
