#include "ops/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/matmul_testing.h"

namespace hf2q {
namespace {

// x in both forms.
struct TestInput {
  std::vector<float> x;
  std::vector<ActivationBlock> blocks;
  Activations view;
};

TestInput make_input(std::vector<float> x, size_t m) {
  TestInput input;
  input.x = std::move(x);
  const size_t cols = input.x.size() / m;
  input.view = {input.x.data(), nullptr, m, cols};
  if (cols % 32 != 0) return input;
  Exec exec(1, Isa::kScalar);
  input.blocks.resize(activation_blocks(m, cols));
  input.view = quantize_rows(exec, input.x.data(), m, cols, input.blocks.data());
  return input;
}

// y [m, rows], each row of x as a product of its own on the scalar kernel.
std::vector<float> reference(const PackedMatrix& w, const Activations& x) {
  Exec exec(1, Isa::kScalar);
  std::vector<float> y(x.m * w.rows);
  for (size_t i = 0; i < x.m; ++i) {
    Activations row{x.x + i * x.cols, nullptr, 1, x.cols};
    if (x.blocks != nullptr) row.blocks = x.blocks + i * (x.cols / 32);
    const MatmulJob job{&w, {}, y.data() + i * w.rows, w.rows};
    matmul(exec, row, {&job, 1});
  }
  return y;
}

testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionResult(a.size() == b.size());
}

size_t smallest_cols(TensorType type) {
  return is_quantized(type) ? tensor_type_info(type).block_elements : 5;
}

class MatmulTest : public testing::TestWithParam<const MatmulKernel*> {
 protected:
  TensorType type() const { return GetParam()->type; }

  // The kernel under test on `n_threads`, all rows.
  std::vector<float> run(size_t n_threads, const PackedMatrix& w, const Activations& x) const {
    Exec exec(n_threads, GetParam()->isa);
    std::vector<float> y(x.m * w.rows, -1.0F);
    const MatmulJob job{&w, {}, y.data(), w.rows};
    matmul(exec, x, {&job, 1});
    return y;
  }
};

TEST_P(MatmulTest, EveryNumberOfRowsGivesTheBitsOfSingleRows) {
  const size_t cols = 3 * smallest_cols(type());
  const OwnedMatrix w = pack(type(), 17, cols, random_rows(type(), 17, cols, 1));
  const TestInput input = make_input(random_x(33 * cols, 2), 33);
  const std::vector<float> expected = reference(w.view, input.view);
  for (size_t m = 1; m <= 33; ++m) {
    Activations x = input.view;
    x.m = m;
    ASSERT_TRUE(same_bits(run(1, w.view, x), std::span(expected).first(m * 17))) << "m " << m;
  }
}

TEST_P(MatmulTest, EveryShapeAndNumberOfThreadsGivesTheSameBits) {
  for (size_t rows : {1, 7, 17, 100}) {
    for (size_t blocks : {1, 2, 5}) {
      const size_t cols = blocks * smallest_cols(type());
      const OwnedMatrix w = pack(type(), rows, cols, random_rows(type(), rows, cols, 3));
      const size_t m = blocks == 2 ? 70 : 5;  // 70 rows: more than one group
      const TestInput input = make_input(random_x(m * cols, 4), m);
      const std::vector<float> expected = reference(w.view, input.view);
      for (size_t n_threads : {1, 2, 3}) {
        ASSERT_TRUE(same_bits(run(n_threads, w.view, input.view), expected))
            << rows << " x " << cols << ", " << n_threads << " threads";
      }
    }
  }
}

TEST_P(MatmulTest, ExtremeCodesDoNotOverflow) {
  const size_t cols = 2 * smallest_cols(type());
  for (Fill fill : {Fill::kOnes, Fill::kZeros}) {
    const OwnedMatrix w = pack(type(), 16, cols, random_rows(type(), 16, cols, 5, fill));
    std::vector<float> x(6 * cols, 1.0F);
    for (size_t i = 0; i < cols; ++i) {
      x[cols + i] = -1.0F;
      x[2 * cols + i] = i % 2 == 0 ? 1.0F : -1.0F;
    }
    const TestInput input = make_input(x, 6);
    EXPECT_TRUE(same_bits(run(1, w.view, input.view), reference(w.view, input.view)));
    Activations one = input.view;
    one.m = 1;
    EXPECT_TRUE(same_bits(run(1, w.view, one), reference(w.view, one)));
  }
}

TEST_P(MatmulTest, NotFiniteRowsSpoilThemselvesOnly) {
  const size_t cols = 2 * smallest_cols(type());
  const OwnedMatrix w = pack(type(), 20, cols, random_rows(type(), 20, cols, 6));
  std::vector<float> x = random_x(5 * cols, 7);
  x[cols + 3] = std::numeric_limits<float>::quiet_NaN();
  const TestInput input = make_input(x, 5);
  const std::vector<float> y = run(1, w.view, input.view);
  for (size_t i = 0; i < 5; ++i) {
    for (size_t r = 0; r < 20; ++r) EXPECT_EQ(std::isnan(y[20 * i + r]), i == 1);
  }
}

// sum over k of w * x for one row in f64, and of |w| * |x|.
struct ExactDot {
  double sum = 0;
  double magnitude = 0;
  double activation_error = 0;  // bound on what rounding x to int8 changes
};

ExactDot exact_dot(std::span<const float> w, std::span<const float> x) {
  ExactDot dot;
  for (size_t k = 0; k < w.size(); ++k) {
    const double product = double{w[k]} * double{x[k]};
    dot.sum += product;
    dot.magnitude += std::abs(product);
  }
  for (size_t b = 0; b + 32 <= w.size(); b += 32) {
    double amax = 0;
    double weights = 0;
    for (size_t k = b; k < b + 32; ++k) {
      amax = std::max(amax, std::abs(double{x[k]}));
      weights += std::abs(double{w[k]});
    }
    dot.activation_error += weights * amax / 254;
  }
  return dot;
}

TEST_P(MatmulTest, AgreesWithF64OnDecodedWeights) {
  const size_t rows = 33;
  const size_t cols = 1024;
  const OwnedMatrix w = pack(type(), rows, cols, random_rows(type(), rows, cols, 8));
  const TestInput input = make_input(random_x(3 * cols, 9), 3);
  const std::vector<float> y = run(1, w.view, input.view);
  std::vector<float> row(cols);
  for (size_t r = 0; r < rows; ++r) {
    unpack_row(w.view, r, row.data());
    for (size_t i = 0; i < 3; ++i) {
      const ExactDot dot = exact_dot(row, std::span(input.x).subspan(i * cols, cols));
      // `cols` roundings of sums no larger than the magnitude. Scale and minimum parts of a weight
      // are up to a few times the weight itself: a factor of 8 covers them.
      double bound = 8 * static_cast<double>(cols) * 0x1p-24 * dot.magnitude;
      if (is_quantized(type())) bound += dot.activation_error * (1 + 0x1p-10);
      ASSERT_NEAR(y[rows * i + r], dot.sum, bound) << r << ", " << i;
    }
  }
}

std::vector<const MatmulKernel*> usable_kernels() {
  std::vector<const MatmulKernel*> kernels;
  for (const MatmulKernel& kernel : matmul_kernels()) {
    if (kernel.isa <= cpu_isa()) kernels.push_back(&kernel);
  }
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(All, MatmulTest, testing::ValuesIn(usable_kernels()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(Matmul, EveryTypeHasAScalarKernel) {
  for (TensorType type : kAllTypes) {
    EXPECT_TRUE(std::any_of(
        matmul_kernels().begin(), matmul_kernels().end(),
        [&](const MatmulKernel& k) { return k.type == type && k.isa == Isa::kScalar; }));
  }
}

TEST(Matmul, JobsOfDifferentTypesShareARegionAndPickTheirRows) {
  const size_t cols = 256;
  const size_t m = 9;
  const TestInput input = make_input(random_x(m * cols, 10), m);
  const std::vector<uint32_t> picked = {7, 0, 3, 3};
  std::vector<OwnedMatrix> matrices;
  std::vector<std::vector<float>> ys;
  std::vector<MatmulJob> jobs;
  const size_t n_types = std::size(kAllTypes);
  matrices.reserve(n_types);
  ys.reserve(n_types);
  for (size_t t = 0; t < n_types; ++t) {
    const size_t rows = 5 + 11 * t;
    matrices.push_back(pack(kAllTypes[t], rows, cols,
                            random_rows(kAllTypes[t], rows, cols, static_cast<uint32_t>(t))));
    ys.emplace_back(m * (rows + 3), -7.0F);
    jobs.push_back({&matrices[t].view, {}, ys[t].data(), rows + 3});
    if (t % 2 == 1) jobs[t].rows = picked;
  }
  Exec exec(3);
  matmul(exec, input.view, jobs);
  for (size_t t = 0; t < n_types; ++t) {
    const size_t rows = matrices[t].view.rows;
    const std::vector<float> expected = reference(matrices[t].view, input.view);
    const size_t n = t % 2 == 1 ? picked.size() : m;
    for (size_t i = 0; i < m; ++i) {
      const std::span<const float> y = std::span(ys[t]).subspan(i * (rows + 3), rows + 3);
      const size_t source = t % 2 == 1 && i < n ? picked[i] : i;
      if (i < n) {
        EXPECT_TRUE(same_bits(y.first(rows), std::span(expected).subspan(source * rows, rows)));
      }
      // Nothing is written beside the outputs.
      for (float value : y.subspan(i < n ? rows : 0)) EXPECT_EQ(value, -7.0F);
    }
  }
}

}  // namespace
}  // namespace hf2q
