// Sixteen lanes.

#include <immintrin.h>

#include "quant/kernels_lanes.h"

namespace hf2q {
namespace {

struct Avx512 {
  static constexpr size_t kLanes = 16;
  using F = float __attribute__((vector_size(64)));
  using I = int32_t __attribute__((vector_size(64)));
  using B = uint8_t __attribute__((vector_size(16)));
  using H = uint16_t __attribute__((vector_size(32)));

  // The zero-masking forms with every lane on: g++ 12 takes the plain ones of its own header for
  // uses of an uninitialised variable.
  static constexpr __mmask16 kAll = 0xFFFF;

  static F sqrt(F v) { return F(_mm512_maskz_sqrt_ps(kAll, __m512(v))); }
  static F lookup(const float* table, I index) {
    const __m512 twice = _mm512_maskz_broadcast_f32x8(kAll, _mm256_loadu_ps(table));
    return F(_mm512_maskz_permutexvar_ps(kAll, __m512i(index), twice));
  }
};

}  // namespace

constinit const QuantKernels kQuantAvx512 = LaneKernels<Avx512>::table("avx512");

}  // namespace hf2q
