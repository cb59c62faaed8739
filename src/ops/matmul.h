#pragma once
// y[i][r] = sum over k of w[r][k] * x[i][k]: the CPU matrix product, for any number of rows m.
//
// Shapes: w [rows, cols] packed (packed_matrix.h), x [m, cols], y [n, rows] with y_stride floats
//         from row to row, n = m or the length of `rows`. x and y do not overlap.
// Fails:  CHECKs on shapes, on missing x or blocks, on row numbers; nothing depends on values.
//
// Batch invariance: the bits of y[i][r] depend on row r of w and row i of x alone: not on m, the
// other rows, the number of threads or the instruction set. Each output is one accumulator in
// binary32, acc = 0 at first, and the columns ascend:
//   F32, F16, BF16, for each column k (w widened exactly):
//     acc = fma(w, x, acc)
//   quantized, for each block of 32 columns, x in the int8 form of activations.h:
//     isum = sum over the halves h of scale_h * (sum over the 16 columns of weight * q)
//     acc  = fma(float(isum), d * x.scale, acc)
//     and then  Q4_1, Q5_1:  acc = fma(m, x.sum, acc)
//               Q4_K, Q5_K:  acc = fma(-dmin * min, x.sum, acc)
//               Q2_K:        acc = fma(float(sum of min_h * half_sums[h]), -dmin * x.scale, acc)
//   isum is an exact integer; scale_h is 1 for types without sub-block scales.
// Error:  F32 sums of `cols` terms, for quantized weights cols / 32 terms and the rounding of x to
//         int8 (activations.h).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/activations.h"
#include "ops/exec.h"
#include "ops/packed_matrix.h"

namespace hf2q {

struct MatmulJob {
  const PackedMatrix* w = nullptr;
  std::span<const uint32_t> rows;  // which rows of x, in the order of y; empty: all of them
  float* y = nullptr;              // [n, w->rows]
  size_t y_stride = 0;             // floats, at least w->rows
};

// All jobs read the same activations and share one parallel region (q, k and v; all experts of a
// layer). A job with an empty `rows` takes all rows, so experts without rows are left out.
void matmul(Exec& exec, const Activations& x, std::span<const MatmulJob> jobs);

// What a kernel computes: one tile of 16 weight rows times n rows of x, over all columns.
struct MatmulTile {
  const std::byte* tile;  // tile_bytes(type, cols)
  size_t cols;
  const void* const* x;  // [n] rows: const float* [cols] or const ActivationBlock* [cols / 32]
  size_t n;              // 1..kMaxTileColumns
  float* y;              // [n, 16]
};
constexpr size_t kMaxTileColumns = 64;

struct MatmulKernel {
  std::string_view name;  // "q4_k_avx2"
  TensorType type;
  Isa isa;
  void (*run)(const MatmulTile& tile);
};

// The table that selection, tests, benchmarks and `--list-kernels` read; best first for each type.
std::span<const MatmulKernel> matmul_kernels();

}  // namespace hf2q
