// AVX2 and FMA.

#include <immintrin.h>

#include "ops/attention_lanes.h"
#include "ops/attention_rows_avx2.h"
#include "ops/attention_softmax.h"
#include "ops/attention_table.h"

namespace hf2q {
namespace {

struct TwoVectors {
  __m256 low;
  __m256 high;
};

struct Avx2 {
  using Lanes = TwoVectors;
  static constexpr Isa kIsa = Isa::kAvx2;
  static constexpr size_t kRows = 1;
  static constexpr size_t kSums = 4;

  static Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void store(float* p, const Lanes& v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  static Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }

  // l + (l + 8), then 4, 2, 1.
  static float sum(const Lanes& v) {
    const __m256 eight = _mm256_add_ps(v.low, v.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  template <size_t kN, size_t kRowsNow>
  static void store_sums(const Lanes (&acc)[kN][kRowsNow], float* const* scores, size_t j) {
    static_assert(kRowsNow == 1);
    for (size_t i = 0; i < kN; ++i) scores[i][j] = sum(acc[i][0]);
  }
};

struct F16Row {
  static constexpr KvFormat kFormat = KvFormat::kF16;
  static constexpr size_t kBytes = 2;
  static TwoVectors load(const std::byte* row, size_t i) {
    const auto* halves = reinterpret_cast<const __m128i*>(row + 2 * i);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
};

struct Bf16Row {
  static constexpr KvFormat kFormat = KvFormat::kBF16;
  static constexpr size_t kBytes = 2;
  static TwoVectors load(const std::byte* row, size_t i) {
    const auto* halves = reinterpret_cast<const __m128i*>(row + 2 * i);
    return {widen(_mm_loadu_si128(halves)), widen(_mm_loadu_si128(halves + 1))};
  }
  static __m256 widen(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
};

using Kernels = AttentionLanes<Avx2>;
constexpr AttentionKernel kKernels[] = {
    Kernels::f32_kernel(),
    Kernels::kernel_for<F16Row>(),
    Kernels::kernel_for<Bf16Row>(),
    Kernels::tiled_kernel_for<Q8Row>(),
    Kernels::tiled_kernel_for<Tq8Row>(),
    Kernels::tiled_kernel_for<CodeRow<KvFormat::kTq6, 6>>(),
    Kernels::tiled_kernel_for<CodeRow<KvFormat::kTq5, 5>>(),
    Kernels::tiled_kernel_for<CodeRow<KvFormat::kTq4, 4>>(),
    Kernels::tiled_kernel_for<CodeRow<KvFormat::kTq3, 3>>(),
    Kernels::tiled_kernel_for<CodeRow<KvFormat::kTq2, 2>>(),
    Kernels::tiled_kernel_for<PairRow<KvFormat::kTq3Half, 7>>(),
    Kernels::tiled_kernel_for<PairRow<KvFormat::kTq2Half, 5>>(),
};
constexpr SoftmaxKernels kSoftmax = {softmax, merge};

}  // namespace

std::span<const AttentionKernel> attention_kernels_avx2() {
  return kKernels;
}
const SoftmaxKernels& softmax_kernels_avx2() {
  return kSoftmax;
}

}  // namespace hf2q
