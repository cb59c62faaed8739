#pragma once
// The small operations between matrix products, on rows of F32.
// Rows are [rows, cols], slowest first, without gaps. Every row's result depends on that row alone.
// All operations are plain multiplications and additions in a fixed order (no fused ones): the same
// bits on every instruction set. The scalar and the AVX2 version are the same source.

#include <cstddef>
#include <cstdint>

#include "ops/exec.h"

namespace hf2q {

// y[r][c] = x[r][c] * (mean_c(x[r]^2) + eps)^-1/2 * weight[c]; weight nullptr counts as ones.
// y may be x. The sum of squares: 16 lanes (c mod 16), ascending c, then a tree.
void rms_norm(Exec& exec, const float* x, size_t rows, size_t cols, const float* weight, float eps,
              float* y);

// y += x, n values.
void add(Exec& exec, const float* x, size_t n, float* y);

// x[r][c] *= scale[c] (n_scale == cols), or x *= scale[0] (n_scale == 1).
void scale_rows(Exec& exec, float* x, size_t rows, size_t cols, const float* scale, size_t n_scale);

// gate[r][c] = gelu(gate[r][c]) * up[r * up_stride + c], gelu in its tanh form. The gate's rows lie
// gate_stride apart.
void gelu_mul(Exec& exec, float* gate, size_t gate_stride, const float* up, size_t up_stride,
              size_t rows, size_t cols);

// x = cap * tanh(x / cap), n values.
void softcap(Exec& exec, float* x, size_t n, float cap);

// Rotates pairs (i, i + head_dim / 2), i < n_pairs, of each of n_heads heads of each row by the
// row's angles: x_i' = x_i cos - x_j sin, x_j' = x_j cos + x_i sin.
// x [rows, n_heads, head_dim]; cos, sin [rows, n_pairs].
void rotate_pairs(Exec& exec, float* x, size_t rows, size_t n_heads, size_t head_dim,
                  const float* cos, const float* sin, size_t n_pairs);

}  // namespace hf2q
