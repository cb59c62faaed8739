#pragma once
// NI(v) of kernels.h: the nearest integer, ties to even, for |v| <= 4194303; it wraps beyond.

#include <bit>
#include <cstdint>

namespace hf2q {

inline int nearest_int(float v) {
  const auto bits = std::bit_cast<uint32_t>(v + 12582912.0F);
  return static_cast<int>(bits & 0x7FFFFF) - 0x400000;
}

}  // namespace hf2q
