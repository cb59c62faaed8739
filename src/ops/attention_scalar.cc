// The reference: plain loops in the order that attention.h gives.

#include <cstring>

#include "base/half.h"
#include "ops/attention_softmax.h"
#include "ops/attention_table.h"

namespace hf2q {
namespace {

struct F32Row {
  static constexpr KvFormat kFormat = KvFormat::kF32;
  static constexpr size_t kBytes = 4;
  static float load(const std::byte* row, size_t i) {
    float value = 0;
    std::memcpy(&value, row + 4 * i, 4);
    return value;
  }
};

struct F16Row {
  static constexpr KvFormat kFormat = KvFormat::kF16;
  static constexpr size_t kBytes = 2;
  static float load(const std::byte* row, size_t i) {
    uint16_t bits = 0;
    std::memcpy(&bits, row + 2 * i, 2);
    return f16_to_f32(bits);
  }
};

struct Bf16Row {
  static constexpr KvFormat kFormat = KvFormat::kBF16;
  static constexpr size_t kBytes = 2;
  static float load(const std::byte* row, size_t i) {
    uint16_t bits = 0;
    std::memcpy(&bits, row + 2 * i, 2);
    return bf16_to_f32(bits);
  }
};

template <class Row>
void score(const float* const* q, size_t n_queries, const KvRun& run, size_t head_dim,
           float* const* scores) {
  for (size_t j = 0; j < run.n; ++j) {
    const std::byte* row = run.codes + j * head_dim * Row::kBytes;
    for (size_t i = 0; i < n_queries; ++i) {
      float lanes[kLanes] = {};
      for (size_t d = 0; d < head_dim; ++d) {
        lanes[d % kLanes] = __builtin_fmaf(q[i][d], Row::load(row, d), lanes[d % kLanes]);
      }
      scores[i][j] = tree_sum(lanes);
    }
  }
}

template <class Row>
void accumulate(const float* const* p, size_t n_queries, const KvRun& run, size_t head_dim,
                float* const* acc) {
  for (size_t j = 0; j < run.n; ++j) {
    const std::byte* row = run.codes + j * head_dim * Row::kBytes;
    for (size_t i = 0; i < n_queries; ++i) {
      for (size_t d = 0; d < head_dim; ++d) {
        acc[i][d] = __builtin_fmaf(p[i][j], Row::load(row, d), acc[i][d]);
      }
    }
  }
}

template <class Row>
constexpr AttentionKernel kernel_for() {
  return {Row::kFormat, Isa::kScalar, score<Row>, accumulate<Row>};
}

constexpr AttentionKernel kKernels[] = {kernel_for<F32Row>(), kernel_for<F16Row>(),
                                        kernel_for<Bf16Row>()};
constexpr SoftmaxKernels kSoftmax = {softmax, merge};

}  // namespace

std::span<const AttentionKernel> attention_kernels_scalar() {
  return kKernels;
}
const SoftmaxKernels& softmax_kernels_scalar() {
  return kSoftmax;
}

}  // namespace hf2q
