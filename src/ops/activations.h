#pragma once
// The right-hand side of a matrix product: rows of F32, and the same rows in int8 for quantized
// weights. Quantized once and shared by all products of that input (q, k, v; gate, up).
//
// One int8 format for every weight type, 32 columns to a block, from x[0..31]:
//   amax  = max |x[i]|
//   scale = amax / 127
//   q[i]  = round_half_even(x[i] * (127 / amax)), so |q| <= 127
//   half_sums[h] = sum of q over columns 16 h .. 16 h + 15;  sum = scale * (half_sums[0] + [1])
// each operation rounded once in binary32. A block with amax < 2^-100 is all zeros. A block that
// holds an infinity or a NaN has scale and sum NaN and codes 0: every product of the row is NaN.
// Error: |x - scale * q| <= amax / 254 (and rounding).
// A row's bits depend on that row only; they are the same on every ISA.

#include <cstddef>
#include <cstdint>

#include "ops/exec.h"

namespace hf2q {

struct ActivationBlock {
  int8_t q[32];
  float scale;
  float sum;
  int16_t half_sums[2];
};
static_assert(sizeof(ActivationBlock) == 44);

struct Activations {
  const float* x = nullptr;                 // [m, cols]; needed by F32, F16 and BF16 weights
  const ActivationBlock* blocks = nullptr;  // [m, cols / 32]; needed by quantized weights
  size_t m = 0;
  size_t cols = 0;
};

// Blocks of quantize_rows: m * cols / 32. CHECKs that cols is a multiple of 32.
size_t activation_blocks(size_t m, size_t cols);

// x [m, cols] -> dst [activation_blocks(m, cols)]; the result refers to both.
Activations quantize_rows(Exec& exec, const float* x, size_t m, size_t cols, ActivationBlock* dst);

// The kernels: `n` blocks, x [32 n].
void quantize_blocks_scalar(const float* x, size_t n, ActivationBlock* dst);
void quantize_blocks_avx2(const float* x, size_t n, ActivationBlock* dst);

}  // namespace hf2q
