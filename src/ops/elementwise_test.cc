#include "ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ops/exp.h"
#include "ops/rope.h"

namespace hf2q {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

std::vector<float> random_values(size_t n, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Exp, WithinTwoUnitsInTheLastPlace) {
  for (double x = -87.2; x < 88.2; x += 0.000937) {
    const auto arg = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(arg));
    ASSERT_NEAR(exp_f32(arg) / expected, 1.0, 2 * kEpsilon) << arg;
  }
  EXPECT_EQ(exp_f32(0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isfinite(exp_f32(1e30F)));
}

TEST(Exp, TanhAndGelu) {
  for (double x = -20; x < 20; x += 0.00173) {
    const auto arg = static_cast<float>(x);
    ASSERT_NEAR(tanh_f32(arg), std::tanh(static_cast<double>(arg)), 2e-7) << arg;
    const double a = arg;
    const double gelu = 0.5 * a * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
    ASSERT_NEAR(gelu_f32(arg), gelu, 3e-7 * (1 + std::abs(a))) << arg;
  }
  EXPECT_EQ(tanh_f32(1e30F), 1.0F);
  EXPECT_EQ(tanh_f32(-1e30F), -1.0F);
}

// Every instruction set that this machine has, so that a lower one is tested on a newer machine.
class Elementwise : public testing::TestWithParam<std::tuple<Isa, size_t>> {
 protected:
  Elementwise() : exec_(std::get<1>(GetParam()), std::get<0>(GetParam())) {}
  Exec exec_;
};

TEST_P(Elementwise, RmsNormMatchesF64) {
  for (const size_t cols : {1, 3, 16, 17, 64, 255, 2816}) {
    const size_t rows = 5;
    const std::vector<float> x = random_values(rows * cols, 3.0F, 1);
    const std::vector<float> weight = random_values(cols, 1.0F, 2);
    std::vector<float> y(x.size());
    rms_norm(exec_, x.data(), rows, cols, weight.data(), 1e-6F, y.data());
    for (size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (size_t c = 0; c < cols; ++c)
        sum += static_cast<double>(x[r * cols + c]) * x[r * cols + c];
      const double factor = 1 / std::sqrt(sum / static_cast<double>(cols) + 1e-6);
      for (size_t c = 0; c < cols; ++c) {
        const double expected = x[r * cols + c] * factor * weight[c];
        // 16 lanes of cols/16 additions, then four roundings.
        const double bound =
            kEpsilon * (static_cast<double>(cols) / 16 + 8) * std::abs(expected) + 1e-30;
        ASSERT_NEAR(y[r * cols + c], expected, bound) << cols;
      }
    }
  }
}

TEST_P(Elementwise, RmsNormWithoutWeightAndInPlace) {
  std::vector<float> x = {3.0F, 4.0F};
  rms_norm(exec_, x.data(), 1, 2, nullptr, 0.0F, x.data());
  EXPECT_NEAR(x[0], 3 / std::sqrt(12.5), 1e-7);
  EXPECT_NEAR(x[1], 4 / std::sqrt(12.5), 1e-7);
}

TEST_P(Elementwise, GeluMulReadsStrides) {
  const size_t rows = 3;
  const size_t cols = 2500;
  std::vector<float> both = random_values(rows * 2 * cols, 2.0F, 3);
  const std::vector<float> before = both;
  gelu_mul(exec_, both.data(), 2 * cols, both.data() + cols, 2 * cols, rows, cols);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < cols; ++c) {
      const double g = before[r * 2 * cols + c];
      const double gelu =
          0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
      const double up = before[r * 2 * cols + cols + c];
      ASSERT_NEAR(both[r * 2 * cols + c], gelu * up, 1e-6 * (1 + std::abs(g * up)));
      ASSERT_EQ(both[r * 2 * cols + cols + c], before[r * 2 * cols + cols + c]);
    }
  }
}

TEST_P(Elementwise, AddScaleAndSoftcap) {
  std::vector<float> x = random_values(40000, 10.0F, 4);
  const std::vector<float> before = x;
  add(exec_, before.data(), x.size(), x.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], before[i] + before[i]);
  const std::vector<float> per_channel = {2.0F, 0.5F, 1.0F, -1.0F};
  scale_rows(exec_, x.data(), x.size() / 4, 4, per_channel.data(), 4);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], 2 * before[i] * per_channel[i % 4]);
  std::vector<float> y = before;
  const float half = 0.5F;
  scale_rows(exec_, y.data(), 100, 400, &half, 1);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], before[i] / 2);
  y = before;
  softcap(exec_, y.data(), y.size(), 30.0F);
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], 30 * std::tanh(before[i] / 30.0), 30 * 3e-7);
  }
}

TEST_P(Elementwise, RotationTurnsPairsAndLeavesTheOthers) {
  const size_t head_dim = 512;
  const size_t n_pairs = 64;
  const std::vector<float> frequencies = rope_frequencies(1e6F, head_dim, n_pairs, 1.0F);
  std::vector<float> cos(2 * n_pairs);
  std::vector<float> sin(2 * n_pairs);
  rope_angles(frequencies, 7, cos.data(), sin.data());
  rope_angles(frequencies, 1458, cos.data() + n_pairs, sin.data() + n_pairs);
  std::vector<float> x = random_values(2 * 3 * head_dim, 1.0F, 5);
  const std::vector<float> before = x;
  rotate_pairs(exec_, x.data(), 2, 3, head_dim, cos.data(), sin.data(), n_pairs);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t h = 0; h < 3; ++h) {
      const float* a = before.data() + (r * 3 + h) * head_dim;
      const float* b = x.data() + (r * 3 + h) * head_dim;
      for (size_t i = 0; i < head_dim / 2; ++i) {
        const double angle = i < n_pairs ? (r == 0 ? 7.0 : 1458.0) *
                                               std::pow(1e6, -2.0 * static_cast<double>(i) / 512)
                                         : 0;
        ASSERT_NEAR(b[i], a[i] * std::cos(angle) - a[i + 256] * std::sin(angle), 1e-3);
        ASSERT_NEAR(b[i + 256], a[i + 256] * std::cos(angle) + a[i] * std::sin(angle), 1e-3);
        if (i >= n_pairs) {
          ASSERT_EQ(b[i], a[i]);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Elementwise,
                         testing::Combine(testing::ValuesIn(usable_isas().begin(),
                                                            usable_isas().end()),
                                          testing::Values(1, 3)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_threads_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(ElementwiseBits, AreTheSameOnEveryInstructionSetAndThreadCount) {
  const std::vector<float> input = random_values(9 * 777, 4.0F, 6);
  std::vector<std::vector<float>> results;
  for (const Isa isa : usable_isas()) {
    for (const size_t n_threads : {1, 2, 5}) {
      Exec exec(n_threads, isa);
      std::vector<float> x = input;
      rms_norm(exec, x.data(), 9, 777, input.data(), 1e-6F, x.data());
      gelu_mul(exec, x.data(), 777, input.data(), 777, 9, 777);
      softcap(exec, x.data(), x.size(), 30.0F);
      results.push_back(x);
    }
  }
  for (const std::vector<float>& result : results) EXPECT_TRUE(same_bits(result, results.front()));
}

// Published values of the two kinds of layer.
TEST(Rope, Frequencies) {
  const std::vector<float> sliding = rope_frequencies(1e4F, 256, 128, 1.0F);
  EXPECT_EQ(sliding[0], 1.0F);
  EXPECT_FLOAT_EQ(sliding[1], 0.93057203F);
  EXPECT_FLOAT_EQ(sliding[64], 0.01F);
  EXPECT_FLOAT_EQ(sliding[127], 1.0746079e-4F);
  const std::vector<float> full = rope_frequencies(1e6F, 512, 64, 1.0F);
  EXPECT_FLOAT_EQ(full[1], 0.94746351F);
  EXPECT_FLOAT_EQ(full[32], 0.17782794F);
  EXPECT_FLOAT_EQ(full[63], 0.033376247F);
  EXPECT_EQ(rope_frequencies(1e6F, 512, 64, 2.0F)[0], 0.5F);
}

TEST(Rope, AnglesAreThoseOfTheRoundedProduct) {
  const std::vector<float> frequencies = rope_frequencies(1e4F, 256, 128, 1.0F);
  std::vector<float> cos(128);
  std::vector<float> sin(128);
  for (const int64_t position : {0, 1, 4097, 262143}) {
    rope_angles(frequencies, position, cos.data(), sin.data());
    for (size_t i = 0; i < 128; ++i) {
      const double angle = static_cast<float>(position) * frequencies[i];  // rounded to F32
      ASSERT_NEAR(cos[i], std::cos(angle), 1e-7);
      ASSERT_NEAR(sin[i], std::sin(angle), 1e-7);
    }
  }
}

TEST(Rope, AxesTurnTheirOwnPairs) {
  const std::vector<float> frequencies = {1.0F, 0.5F, 0.25F};
  const std::vector<int64_t> positions = {3, 10};
  const std::vector<uint8_t> axes = {0, 1, 0};
  std::vector<float> cos(3);
  std::vector<float> sin(3);
  rope_angles(frequencies, positions, axes, cos.data(), sin.data());
  EXPECT_FLOAT_EQ(cos[0], std::cos(3.0F));
  EXPECT_FLOAT_EQ(sin[1], std::sin(5.0F));
  EXPECT_FLOAT_EQ(sin[2], std::sin(0.75F));
}

}  // namespace
}  // namespace hf2q
