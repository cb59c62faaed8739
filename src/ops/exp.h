#pragma once
// exp and tanh for kernels: plain multiplications and additions in a fixed order, so that every
// instruction set gives the same bits, and the compiler can vectorise a loop over them.
// No standard-library call: safe to include in files that are compiled for one instruction set.

#include <bit>
#include <cstdint>

namespace hf2q {

// e^x. Error: below 2 units in the last place for x in [-87, 88]; 0 below, finite (about 2e38)
// above. Method: x = n ln 2 + r with |r| <= ln 2 / 2; the Taylor sum of e^r to r^7 (remainder below
// 2^-27).
inline float exp_f32(float x) {
  constexpr float kLog2e = 1.44269504F;
  constexpr float kLn2High = 0.693145752F;   // 16 bits: n * kLn2High is exact for |n| < 256
  constexpr float kLn2Low = 1.42860677e-6F;  // ln 2 - kLn2High
  constexpr float kRound = 12582912.0F;      // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < -87.3F ? -87.3F : (x > 88.3F ? 88.3F : x);
  const float shifted = clamped * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.98412698e-4F;
  p = p * r + 1.38888889e-3F;
  p = p * r + 8.33333333e-3F;
  p = p * r + 4.16666667e-2F;
  p = p * r + 1.66666667e-1F;
  p = p * r + 0.5F;
  p = p * r * r + r + 1.0F;
  // 2^n by its exponent field; n fits, since |n| <= 127.
  const uint32_t exponent =
      (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound) + 127U) << 23;
  const float scaled = p * std::bit_cast<float>(exponent);
  return x < -87.3F ? 0.0F : scaled;
}

// tanh(x) = 1 - 2 / (e^2x + 1). Absolute error below 2e-7 everywhere.
inline float tanh_f32(float x) {
  return 1.0F - 2.0F / (exp_f32(2.0F * x) + 1.0F);
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the tanh form of GELU.
inline float gelu_f32(float x) {
  constexpr float kSqrt2OverPi = 0.797884561F;
  return 0.5F * x * (1.0F + tanh_f32(kSqrt2OverPi * (x + 0.044715F * x * x * x)));
}

}  // namespace hf2q
