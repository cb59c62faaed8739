#pragma once
// Bytes of a code stream, and pairs of values that a code of it stands for; in an unnamed
// namespace, since the code depends on the instruction set.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hf2q {
namespace {

inline uint64_t load_bytes(const std::byte* from) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, from, sizeof(bytes));
  return bytes;
}

// The pairs of the two lowest codes; values [code][2].
template <uint32_t kBits>
__m128 two_pairs(const float* values, uint64_t codes) {
  constexpr uint64_t kMask = (1U << kBits) - 1;
  const auto* pairs = reinterpret_cast<const __m64*>(values);
  const __m128 low = _mm_loadl_pi(_mm_setzero_ps(), pairs + (codes & kMask));
  return _mm_loadh_pi(low, pairs + (codes >> kBits & kMask));
}

}  // namespace
}  // namespace hf2q
