// Four lanes: SSE2, which every x86-64 has, or Advanced SIMD on Arm.

#include "quant/kernels_lanes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace hf2q {
namespace {

struct Vector128 {
  static constexpr size_t kLanes = 4;
  using F = float __attribute__((vector_size(16)));
  using I = int32_t __attribute__((vector_size(16)));
  using B = uint8_t __attribute__((vector_size(4)));
  using H = uint16_t __attribute__((vector_size(8)));

  static F sqrt(F v) {
#if defined(__SSE2__)
    return F(_mm_sqrt_ps(__m128(v)));
#elif defined(__ARM_NEON)
    return F(vsqrtq_f32(float32x4_t(v)));
#else
    return F{__builtin_sqrtf(v[0]), __builtin_sqrtf(v[1]), __builtin_sqrtf(v[2]),
             __builtin_sqrtf(v[3])};
#endif
  }
  static F lookup(const float* table, I index) {
    return F{table[index[0] & 7], table[index[1] & 7], table[index[2] & 7], table[index[3] & 7]};
  }
};

}  // namespace

constinit const QuantKernels kQuantVector128 = LaneKernels<Vector128>::table("vector128");

}  // namespace hf2q
