#include "ops/elementwise.h"

#include <algorithm>

#include "base/check.h"
#include "ops/elementwise_table.h"

namespace hf2q {
namespace {

// Values of one piece of work: some microseconds, so that handing it over does not show.
constexpr size_t kGrain = 16384;

const ElementwiseKernels& kernels(const Exec& exec) {
#if defined(__x86_64__)
  if (exec.isa() >= Isa::kAvx512) return kElementwiseAvx512;
  if (exec.isa() >= Isa::kAvx2) return kElementwiseAvx2;
#endif
  return kElementwiseScalar;
}

size_t rows_per_piece(size_t cols) {
  return std::max<size_t>(1, kGrain / std::max<size_t>(1, cols));
}

}  // namespace

void rms_norm(Exec& exec, const float* x, size_t rows, size_t cols, const float* weight, float eps,
              float* y) {
  CHECK(cols > 0);
  const auto kernel = kernels(exec).rms_norm_row;
  exec.parallel_for(rows, rows_per_piece(cols), [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) kernel(x + r * cols, cols, weight, eps, y + r * cols);
  });
}

void add(Exec& exec, const float* x, size_t n, float* y) {
  const auto kernel = kernels(exec).add_run;
  exec.parallel_for(n, kGrain,
                    [&](size_t begin, size_t end) { kernel(x + begin, end - begin, y + begin); });
}

void scale_rows(Exec& exec, float* x, size_t rows, size_t cols, const float* scale,
                size_t n_scale) {
  CHECK(n_scale == 1 || n_scale == cols);
  const auto kernel = kernels(exec).scale_run;
  exec.parallel_for(rows, rows_per_piece(cols), [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) kernel(scale, n_scale, cols, x + r * cols);
  });
}

void gelu_mul(Exec& exec, float* gate, size_t gate_stride, const float* up, size_t up_stride,
              size_t rows, size_t cols) {
  CHECK(gate_stride >= cols && up_stride >= cols);
  // One row of a decode step is cut too: tanh costs more than all else here.
  const size_t pieces = std::max<size_t>(1, (cols + kGrain / 8 - 1) / (kGrain / 8));
  const size_t piece = (cols + pieces - 1) / pieces;
  const auto kernel = kernels(exec).gelu_mul_run;
  exec.parallel_for(rows * pieces, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t r = i / pieces;
      const size_t c = i % pieces * piece;
      if (c >= cols) continue;
      kernel(gate + r * gate_stride + c, up + r * up_stride + c, std::min(piece, cols - c));
    }
  });
}

void softcap(Exec& exec, float* x, size_t n, float cap) {
  CHECK(cap > 0);
  const auto kernel = kernels(exec).softcap_run;
  exec.parallel_for(n, kGrain,
                    [&](size_t begin, size_t end) { kernel(x + begin, end - begin, cap); });
}

void rotate_pairs(Exec& exec, float* x, size_t rows, size_t n_heads, size_t head_dim,
                  const float* cos, const float* sin, size_t n_pairs) {
  CHECK(head_dim % 2 == 0 && n_pairs <= head_dim / 2);
  const auto kernel = kernels(exec).rotate_head;
  exec.parallel_for(rows, rows_per_piece(n_heads * n_pairs * 2), [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      for (size_t h = 0; h < n_heads; ++h) {
        kernel(x + (r * n_heads + h) * head_dim, head_dim / 2, cos + r * n_pairs, sin + r * n_pairs,
               n_pairs);
      }
    }
  });
}

}  // namespace hf2q
