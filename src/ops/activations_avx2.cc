#include <immintrin.h>

#include "ops/activations.h"

namespace hf2q {
namespace {

uint32_t max_lane(__m256i v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

// 32 codes in column order out of four vectors of eight.
__m256i narrow(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i ab = _mm256_packs_epi32(a, b);
  const __m256i cd = _mm256_packs_epi32(c, d);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
}

// The sums of the lower and upper 16 codes, as two i16 in one word.
uint32_t half_sums(__m256i codes) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4E));
  fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xB1));
  const int low = _mm256_cvtsi256_si32(fours);
  const int high = _mm_cvtsi128_si32(_mm256_extracti128_si256(fours, 1));
  return (static_cast<uint32_t>(low) & 0xFFFF) | static_cast<uint32_t>(high) << 16;
}

// Blocks with tiny or non-finite values are left to the scalar kernel.
bool quantize_block(const float* x, ActivationBlock& dst) {
  __m256 v[4];
  __m256i largest = _mm256_setzero_si256();
  for (size_t i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(v[i]), _mm256_set1_epi32(0x7FFFFFFF));
    largest = _mm256_max_epu32(largest, magnitude);
  }
  const uint32_t bits = max_lane(largest);
  if (bits < 0x0D800000 || bits >= 0x7F800000) return false;  // below 2^-100, or not finite
  const float amax = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
  const __m256 inverse = _mm256_set1_ps(127 / amax);
  __m256i q[4];
  for (size_t i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  const __m256i codes = narrow(q[0], q[1], q[2], q[3]);
  const uint32_t sums = half_sums(codes);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst.q), codes);
  dst.scale = amax / 127;
  dst.half_sums[0] = static_cast<int16_t>(sums & 0xFFFF);
  dst.half_sums[1] = static_cast<int16_t>(sums >> 16);
  dst.sum = dst.scale * static_cast<float>(dst.half_sums[0] + dst.half_sums[1]);
  return true;
}

}  // namespace

void quantize_blocks_avx2(const float* x, size_t n, ActivationBlock* dst) {
  for (size_t b = 0; b < n; ++b) {
    if (!quantize_block(x + 32 * b, dst[b])) quantize_blocks_scalar(x + 32 * b, 1, dst + b);
  }
}

}  // namespace hf2q
