// AVX-512: 16 lanes are one vector, and four rows of K meet four queries in registers.

#include <immintrin.h>

#include "ops/attention_lanes.h"
#include "ops/attention_rows_avx512.h"
#include "ops/attention_softmax.h"
#include "ops/attention_table.h"

namespace hf2q {
namespace {

struct Avx512 {
  using Lanes = __m512;
  static constexpr Isa kIsa = Isa::kAvx512;
  static constexpr size_t kRows = 4;
  static constexpr size_t kSums = 16;

  static Lanes zero() { return _mm512_setzero_ps(); }
  static Lanes load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Lanes v) { _mm512_storeu_ps(p, v); }
  static Lanes broadcast(float x) { return _mm512_set1_ps(x); }
  static Lanes fma(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }

  template <size_t kN, size_t kRowsNow>
  static void store_sums(const Lanes (&acc)[kN][kRowsNow], float* const* scores, size_t j) {
    for (size_t i = 0; i < kN; ++i) {
      if constexpr (kRowsNow == 1) {
        scores[i][j] = sum(acc[i][0]);
      } else {
        _mm_storeu_ps(scores[i] + j, sums(acc[i]));
      }
    }
  }

 private:
  // l + (l + 8), then 4, 2, 1.
  static float sum(Lanes v) {
    const __m256 eight = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xFF, v, 0),
                                       _mm512_maskz_extractf32x8_ps(0xFF, v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The same of four vectors at once. Numbers: which quarters of which operand.
  static __m128 sums(const Lanes (&v)[4]) {
    const __m512 eights[2] = {add_quarters<0x44, 0xEE>(v[0], v[1]),
                              add_quarters<0x44, 0xEE>(v[2], v[3])};
    const __m512 fours = add_quarters<0x88, 0xDD>(eights[0], eights[1]);
    const __m512 twos = _mm512_add_ps(fours, _mm512_maskz_permute_ps(kAll, fours, 0x4E));
    const __m512 ones = _mm512_add_ps(twos, _mm512_maskz_permute_ps(kAll, twos, 0xB1));
    const __m512i firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    return _mm512_maskz_extractf32x4_ps(0xF, _mm512_maskz_permutexvar_ps(kAll, firsts, ones), 0);
  }
  template <int kLow, int kHigh>
  static __m512 add_quarters(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAll, a, b, kLow),
                         _mm512_maskz_shuffle_f32x4(kAll, a, b, kHigh));
  }
};

struct F16Row {
  static constexpr KvFormat kFormat = KvFormat::kF16;
  static constexpr size_t kBytes = 2;
  static __m512 load(const std::byte* row, size_t i) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 2 * i));
    return _mm512_maskz_cvtph_ps(kAll, halves);
  }
};

struct Bf16Row {
  static constexpr KvFormat kFormat = KvFormat::kBF16;
  static constexpr size_t kBytes = 2;
  static __m512 load(const std::byte* row, size_t i) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 2 * i));
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, bits);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
  }
};

using Kernels = AttentionLanes<Avx512>;
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
    Kernels::tiled_kernel_for<LoadedPairRow<KvFormat::kTq3Half, 7>>(),
    Kernels::tiled_kernel_for<PairRow<KvFormat::kTq2Half, 5>>(),
};
constexpr SoftmaxKernels kSoftmax = {softmax, merge};

}  // namespace

std::span<const AttentionKernel> attention_kernels_avx512() {
  return kKernels;
}
const SoftmaxKernels& softmax_kernels_avx512() {
  return kSoftmax;
}

}  // namespace hf2q
