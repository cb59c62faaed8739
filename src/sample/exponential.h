#pragma once
// Exponentials of logits below their maximum, in plain arithmetic: the same bits on every machine
// and with every C library, and a loop over them vectorizes.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace hf2q {

// exp(x) for x <= 0, to 1e-11 relative; exactly 1 at 0. Everything below -700, -infinity too, gives
// exp(-700), about 1e-304.
inline double exp_non_positive(float x) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr double kRound = 0x1.8p52;  // adding it leaves the rounded integer in the low bits
  // Clamped as integers: a comparison of floats would keep the loop from being vectorized.
  const int32_t magnitude = std::bit_cast<int32_t>(x) & 0x7FFFFFFF;
  const int32_t clamped = std::min(magnitude, std::bit_cast<int32_t>(700.0F));
  const double y = -double{std::bit_cast<float>(clamped)};
  const double shifted = y * kLog2E + kRound;
  const double r = y - (shifted - kRound) * kLn2;  // |r| <= ln(2) / 2
  // Taylor: the first term left out is r^10 / 10! <= 7e-12.
  double p = 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
}

// sum_i exp(logits[i] - max), max being the highest of them. Eight running sums (index mod 8) are
// added up in ascending order at the end: one fixed order.
double exp_sum(std::span<const float> logits, float max);

}  // namespace hf2q
