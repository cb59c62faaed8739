// Eight lanes.

#include <immintrin.h>

#include "quant/kernels_lanes.h"

namespace hf2q {
namespace {

struct Avx2 {
  static constexpr size_t kLanes = 8;
  using F = float __attribute__((vector_size(32)));
  using I = int32_t __attribute__((vector_size(32)));
  using B = uint8_t __attribute__((vector_size(8)));
  using H = uint16_t __attribute__((vector_size(16)));

  static F sqrt(F v) { return F(_mm256_sqrt_ps(__m256(v))); }
  static F lookup(const float* table, I index) {
    return F(_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), __m256i(index)));
  }
};

}  // namespace

constinit const QuantKernels kQuantAvx2 = LaneKernels<Avx2>::table("avx2");

}  // namespace hf2q
