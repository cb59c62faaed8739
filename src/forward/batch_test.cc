// What a Batch carries beside tokens: additions to the residual stream after a layer, and rotary
// positions with several axes. Expected values: an F64 computation of the same model.

#include "forward/batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "forward/scalar_model.h"
#include "forward/test_model.h"

namespace hf2q {
namespace {

constexpr double kScalarTolerance = 2e-4;  // as for the reference values (forward_test.cc)
const std::string kMicroPle = HF2Q_TEST_DATA "/micro-ple";

std::vector<float> random_values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.5F);
  std::vector<float> values(n);
  for (float& x : values) x = normal(random);
  return values;
}

double max_scalar_difference(std::span<const float> found,
                             const std::vector<ScalarModel::Row>& expected) {
  double worst = 0;
  size_t i = 0;
  for (const ScalarModel::Row& row : expected) {
    for (const double x : row) {
      const double difference = std::abs(x - found[i++]);
      if (!(difference <= worst)) worst = difference;  // a NaN counts
    }
  }
  EXPECT_EQ(i, found.size());
  return worst;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class BatchTest : public testing::Test {
 protected:
  static TestModel& model() {
    static TestModel model(kMicroPle, {});
    return model;
  }
  static ScalarModel& scalar() {
    static ScalarModel scalar(kMicroPle);
    return scalar;
  }
  // 40 tokens: more than the sliding window of 24.
  static std::vector<int32_t> ids() {
    std::vector<int32_t> ids = {2};
    while (ids.size() < 40) ids.push_back(static_cast<int32_t>(300 + ids.size() * 1709 % 7000));
    return ids;
  }
  static size_t hidden() { return model().config().hidden_dim; }
  static Batch batch_of(const std::vector<int32_t>& ids, size_t begin, size_t end) {
    Batch batch;
    for (size_t i = begin; i < end; ++i) {
      BatchRow& row = batch.rows.emplace_back();
      row.position = static_cast<uint32_t>(i);
      row.token = ids[i];
      row.wants = Wants::kLogits;
    }
    return batch;
  }
  static std::vector<float> run(const Batch& batch, const Observer* observer = nullptr) {
    Sequence sequence = model().new_sequence();
    Sequence* one[] = {&sequence};
    return model().step(batch, one, observer);
  }
};

TEST_F(BatchTest, TheOracleHasTheReferencesNumbers) {
  const Golden golden(kMicroPle);
  const std::vector<float> expected = golden.tensor("short.logits");
  EXPECT_LE(max_scalar_difference(expected, scalar().run(golden.prompt("short")).logits),
            kScalarTolerance);
  // Ten windows long.
  EXPECT_LE(max_scalar_difference(golden.tensor("doc.logits_last"),
                                  {scalar().run(golden.prompt("doc")).logits.back()}),
            kScalarTolerance);
}

TEST_F(BatchTest, AdditionsComeAfterTheLayerUnscaled) {
  const std::vector<float> values = random_values(3 * 3 * hidden(), 1);
  const std::span<const float> all = values;
  const size_t n = 3 * hidden();
  Batch batch = batch_of(ids(), 0, 40);
  batch.additions = {{0, {5, 6, 39}, all.subspan(0, n)},
                     {3, {5, 6, 38}, all.subspan(n, n)},
                     {5, {0, 7, 39}, all.subspan(2 * n, n)}};
  const ScalarModel::Output expected = scalar().run(ids(), batch.additions);
  std::vector<double> differences;
  const Observer observer = [&](const Point& point) {
    if (point.name != "l_out") return;
    differences.push_back(max_scalar_difference({point.data, point.n * point.cols},
                                                expected.layers[static_cast<size_t>(point.layer)]));
  };
  const std::vector<float> logits = run(batch, &observer);
  ASSERT_EQ(differences.size(), 6U);
  for (const double difference : differences) EXPECT_LE(difference, kScalarTolerance);
  EXPECT_LE(max_scalar_difference(logits, expected.logits), kScalarTolerance);
}

TEST_F(BatchTest, AnAdditionChangesNoEarlierRowAndEveryLaterOne) {
  const std::vector<float> plain = run(batch_of(ids(), 0, 40));
  const std::vector<float> values = random_values(hidden(), 2);
  Batch batch = batch_of(ids(), 0, 40);
  batch.additions = {{0, {20}, values}};
  const std::vector<float> changed = run(batch);
  const size_t vocab = model().config().vocab_size;
  for (size_t r = 0; r < 40; ++r) {
    const auto row = [&](const std::vector<float>& logits) {
      return std::span(logits).subspan(r * vocab, vocab);
    };
    EXPECT_EQ(same_bits(row(plain), row(changed)), r < 20) << r;
  }
}

TEST_F(BatchTest, AdditionsOfNothingChangeNoBit) {
  const std::vector<float> plain = run(batch_of(ids(), 0, 40));
  Batch batch = batch_of(ids(), 0, 40);
  batch.additions = {{2, {}, {}}};
  EXPECT_TRUE(same_bits(run(batch), plain));
}

TEST_F(BatchTest, AdditionsAreTheSameInChunks) {
  const std::vector<float> values = random_values(2 * hidden(), 3);
  const std::span<const float> all = values;
  Batch whole = batch_of(ids(), 0, 40);
  whole.additions = {{1, {3, 30}, all}};
  const std::vector<float> expected = run(whole);
  Batch head = batch_of(ids(), 0, 17);
  head.additions = {{1, {3}, all.first(hidden())}};
  Batch tail = batch_of(ids(), 17, 40);
  tail.additions = {{1, {13}, all.last(hidden())}};  // rows count within the batch
  Sequence sequence = model().new_sequence();
  Sequence* one[] = {&sequence};
  std::vector<float> found = model().step(head, one);
  const std::vector<float> rest = model().step(tail, one);
  found.insert(found.end(), rest.begin(), rest.end());
  EXPECT_TRUE(same_bits(found, expected));
}

// Text, an image of 4 x 3 places at 6, text: time, row and column.
RotaryPositions image_positions(size_t n, const std::vector<uint8_t>& axis_of_pair) {
  RotaryPositions rotary;
  rotary.n_axes = 3;
  rotary.axis_of_pair = axis_of_pair;
  for (size_t i = 0; i < n; ++i) {
    auto t = static_cast<int64_t>(i);
    std::array<int64_t, 3> position = {t, t, t};
    if (i >= 6 && i < 18) position = {6, 6 + (t - 6) / 4, 6 + (t - 6) % 4};
    if (i >= 18) position.fill(t - 18 + 6 + 4);
    rotary.positions.insert(rotary.positions.end(), position.begin(), position.end());
  }
  return rotary;
}

// For pair p: every third one row or column, the rest time. As long as a full layer's pairs, or
// shorter than those of any layer.
std::vector<uint8_t> interleaved(size_t n) {
  std::vector<uint8_t> axes(n);
  for (size_t p = 0; p < n; ++p) axes[p] = static_cast<uint8_t>(p % 3);
  return axes;
}

TEST_F(BatchTest, RotaryPositionsWithSeveralAxes) {
  const std::vector<float> plain = run(batch_of(ids(), 0, 40));
  for (const std::vector<uint8_t>& axes :
       {interleaved(64), interleaved(24), std::vector<uint8_t>{2, 2, 0, 1, 1}}) {
    Batch batch = batch_of(ids(), 0, 40);
    batch.rotary = image_positions(40, axes);
    const ScalarModel::Output expected = scalar().run(ids(), {}, batch.rotary);
    const std::vector<float> logits = run(batch);
    EXPECT_LE(max_scalar_difference(logits, expected.logits), kScalarTolerance)
        << axes.size() << " pairs";
    EXPECT_GT(hf2q::max_difference(logits, plain), 0.01);
  }
}

// Rows and columns that change places give other logits: the grid is not square.
TEST_F(BatchTest, AxesAreNotInterchangeable) {
  Batch batch = batch_of(ids(), 0, 40);
  batch.rotary = image_positions(40, interleaved(24));
  const std::vector<float> logits = run(batch);
  for (uint8_t& axis : batch.rotary.axis_of_pair) axis = static_cast<uint8_t>((3 - axis) % 3);
  EXPECT_GT(hf2q::max_difference(run(batch), logits), 0.01);
}

TEST_F(BatchTest, EqualAxesAreOrdinaryPositions) {
  const std::vector<float> plain = run(batch_of(ids(), 0, 40));
  Batch batch = batch_of(ids(), 0, 40);
  batch.rotary.n_axes = 3;
  batch.rotary.axis_of_pair = interleaved(32);
  for (int64_t i = 0; i < 40; ++i)
    batch.rotary.positions.insert(batch.rotary.positions.end(), 3, i);
  EXPECT_TRUE(same_bits(run(batch), plain));
}

// K as it goes to the cache, against the rotation of K before it, in F64.
TEST_F(BatchTest, KeysTurnByTheAxisOfTheirPair) {
  Batch batch = batch_of(ids(), 0, 40);
  batch.rotary = image_positions(40, interleaved(24));
  std::vector<float> before;
  double worst = 0;
  const Observer observer = [&](const Point& point) {
    if (point.name == "k_normed") before.assign(point.data, point.data + point.n * point.cols);
    if (point.name != "k_cached") return;
    const bool sliding = model().config().layers[static_cast<size_t>(point.layer)].sliding;
    const size_t half = point.cols / 2;  // one KV head
    const size_t n_pairs = sliding ? half : half / 4;
    for (size_t r = 0; r < point.n; ++r) {
      for (size_t p = 0; p < half; ++p) {
        const auto position = static_cast<double>(batch.rotary.positions[r * 3 + p % 24 % 3]);
        const double frequency =
            std::pow(sliding ? 1e4 : 1e6, -static_cast<double>(p) / static_cast<double>(half));
        const double angle = p < n_pairs ? position * frequency : 0;
        const double a = before[r * point.cols + p];
        const double b = before[r * point.cols + p + half];
        const float* found = point.data + r * point.cols + p;
        worst = std::max(worst, std::abs(a * std::cos(angle) - b * std::sin(angle) - found[0]));
        worst = std::max(worst, std::abs(b * std::cos(angle) + a * std::sin(angle) - found[half]));
      }
    }
  };
  (void)run(batch, &observer);
  ASSERT_FALSE(before.empty());
  // An angle of at most 40 is rounded three times on its way: 40 * 3 * 2^-24 = 7e-6, times |K| < 6.
  EXPECT_LE(worst, 5e-5);
}

using BatchDeathTest = BatchTest;

TEST_F(BatchDeathTest, WhatDoesNotFitIsACallersMistake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::vector<float> values = random_values(2 * hidden(), 4);
  const auto run_with = [&](const Addition& addition) {
    Batch batch = batch_of(ids(), 0, 4);
    batch.additions = {addition};
    (void)run(batch);
  };
  EXPECT_DEATH(run_with({6, {0, 1}, values}), "layer");      // there are 6
  EXPECT_DEATH(run_with({0, {0, 4}, values}), "rows");       // there are 4
  EXPECT_DEATH(run_with({0, {1, 1}, values}), "rows");       // twice
  EXPECT_DEATH(run_with({0, {0, 1, 2}, values}), "values");  // two rows are there
  Batch batch = batch_of(ids(), 0, 4);
  batch.rotary = image_positions(3, interleaved(8));
  EXPECT_DEATH((void)run(batch), "positions");
  batch.rotary = image_positions(4, {0, 1, 3});
  EXPECT_DEATH((void)run(batch), "axis");
}

}  // namespace
}  // namespace hf2q
