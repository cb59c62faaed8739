#pragma once
// Inside src/quant: what rows_*.cc offer and row_codec.cc puts into its table, with the arithmetic
// (kernels.h) as an argument so that tests can compare one set of kernels with another.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/half.h"
#include "base/tensor_type.h"
#include "quant/kernels.h"

namespace hf2q {

// As RowCodec::encode.
using RowEncoder = bool (*)(const QuantKernels& kernels, const float* row, size_t n,
                            const float* importance, std::byte* dst);
// As RowCodec::decode.
using RowDecoder = void (*)(const std::byte* src, size_t n, float* row);

struct RowFunctions {
  TensorType type;
  RowEncoder encode;
  RowDecoder decode;
};

std::span<const RowFunctions> plain_rows();   // rows_plain.cc: F32, F16, BF16
std::span<const RowFunctions> rows_of_32();   // rows_32.cc: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL
std::span<const RowFunctions> q2_k_rows();    // rows_q2_k.cc
std::span<const RowFunctions> q3_k_rows();    // rows_q3_k.cc
std::span<const RowFunctions> q4_5_k_rows();  // rows_q4_5_k.cc: Q4_K, Q5_K
std::span<const RowFunctions> q6_k_rows();    // rows_q6_k.cc

const RowFunctions& row_functions(TensorType type);

// Those that this CPU can run, best first; the last is the scalar specification.
std::span<const QuantKernels* const> quant_kernels();

// Rows are read and written as arrays of the structs of blocks.h.
template <class Block>
Block* blocks_of(std::byte* row) {
  return reinterpret_cast<Block*>(row);
}
template <class Block>
const Block* blocks_of(const std::byte* row) {
  return reinterpret_cast<const Block*>(row);
}

inline bool is_finite_f16(uint16_t bits) {
  return (bits & 0x7C00) != 0x7C00;
}

// 1 / v, or 0 for a scale of zero.
inline float inverse_of(float v) {
  return v != 0 ? 1 / v : 0;
}

// The first value of largest magnitude.
inline float peak_of(const float* x, size_t n) {
  float peak = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::abs(x[i]) > std::abs(peak)) peak = x[i];
  }
  return peak;
}

}  // namespace hf2q
