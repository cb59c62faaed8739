#pragma once
// IEEE binary16 and bfloat16 as bit patterns.
// Conversions to 16 bits round to nearest even and keep subnormals; F16 overflows to infinity, a
// NaN becomes sign | 0x7E00 (F16) or keeps its upper half with the quiet bit set (BF16). Back is
// exact.

#include <bit>
#include <cstdint>

namespace hf2q {

inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x0040);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Without a branch, so that loops over it become vector code.
inline float f16_to_f32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t magnitude = bits & 0x7FFFU;
  // As a binary32 with the same fields the value is 2^112 too small; the product is exact.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  // The exponent of infinities and NaNs has become 0x8F and must be 0xFF.
  const uint32_t not_finite = (magnitude + 0x0400) >> 15;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled) |
                              ((0 - not_finite) & 0x38000000));
}

inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;
  if (magnitude >= 0x477FF000) return sign | 0x7C00;  // rounds to 65536 or more
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal, in steps of 2^-24
    // Adding 0.5 aligns the last bit of the sum with 2^-24, so the addition does the rounding.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3F000000));
  }
  const uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1) - 0x38000000;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace hf2q
