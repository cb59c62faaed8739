#include "ops/activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace hf2q {
namespace {

constexpr float kSmallest = 0x1p-100F;
constexpr size_t kBlocksPerRange = 128;  // some 10 microseconds of work

uint32_t largest_magnitude_bits(const float* x) {
  uint32_t largest = 0;  // bit patterns order like magnitudes, NaN above infinity
  for (int i = 0; i < 32; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF);
  }
  return largest;
}

void quantize_block(const float* x, ActivationBlock& dst) {
  dst = {};
  const float amax = std::bit_cast<float>(largest_magnitude_bits(x));
  if (!std::isfinite(amax)) {
    dst.scale = dst.sum = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  if (amax < kSmallest) return;
  dst.scale = amax / 127;
  const float inverse = 127 / amax;
  for (int i = 0; i < 32; ++i) {
    dst.q[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
    dst.half_sums[i / 16] = static_cast<int16_t>(dst.half_sums[i / 16] + dst.q[i]);
  }
  dst.sum = dst.scale * static_cast<float>(dst.half_sums[0] + dst.half_sums[1]);
}

struct QuantizeKernel {
  Isa isa;
  void (*run)(const float* x, size_t n, ActivationBlock* dst);
};

// Best first.
constexpr QuantizeKernel kKernels[] = {
#if defined(__x86_64__)
    {Isa::kAvx2, quantize_blocks_avx2},
#endif
    {Isa::kScalar, quantize_blocks_scalar},
};

}  // namespace

void quantize_blocks_scalar(const float* x, size_t n, ActivationBlock* dst) {
  for (size_t b = 0; b < n; ++b) quantize_block(x + 32 * b, dst[b]);
}

size_t activation_blocks(size_t m, size_t cols) {
  CHECK(cols % 32 == 0);
  return m * (cols / 32);
}

Activations quantize_rows(Exec& exec, const float* x, size_t m, size_t cols, ActivationBlock* dst) {
  const auto* kernel = std::find_if(std::begin(kKernels), std::end(kKernels),
                                    [&](const QuantizeKernel& k) { return k.isa <= exec.isa(); });
  exec.parallel_for(activation_blocks(m, cols), kBlocksPerRange, [&](size_t begin, size_t end) {
    kernel->run(x + 32 * begin, end - begin, dst + begin);
  });
  return {x, dst, m, cols};
}

}  // namespace hf2q
