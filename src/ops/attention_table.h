#pragma once
// The kernels behind attention.h: one row for each format and instruction set.

#include <cstddef>
#include <span>

#include "kv/page_layout.h"
#include "ops/cpu_isa.h"

namespace hf2q {

// Rows of one head at consecutive positions, as they lie in a page.
struct KvRun {
  const std::byte* codes;  // [n, row_bytes]
  const std::byte* norms;  // [n, norm_bytes]; unused by formats without norms
  size_t n;
};

constexpr size_t kMaxQueries = 64;  // of one call

// Of rotated formats the rotated rows are meant: q has to be rotated as well, and what is
// accumulated to be rotated back. 8 bytes behind the last row may be read and have to be there.
struct AttentionKernel {
  KvFormat format;
  Isa isa;
  // scores[i][j] = q[i] . row j, for i < n_queries, j < run.n.
  void (*score)(const float* const* q, size_t n_queries, const KvRun& run, size_t head_dim,
                float* const* scores);
  // acc[i] += sum over j, ascending, of p[i][j] * row j.
  void (*accumulate)(const float* const* p, size_t n_queries, const KvRun& run, size_t head_dim,
                     float* const* acc);
};

// The parts that do not depend on the format.
struct SoftmaxKernels {
  // p = exp(p - max p) in place; the maximum and the sum. `lane` is the first position modulo 16.
  void (*softmax)(float* p, size_t n, size_t lane, float* max, float* sum);
  // total = fma(part, b, total * a), n values.
  void (*merge)(float* total, float a, const float* part, float b, size_t n);
};

std::span<const AttentionKernel> attention_kernels_scalar();
std::span<const AttentionKernel> attention_kernels_avx2();
std::span<const AttentionKernel> attention_kernels_avx512();
const SoftmaxKernels& softmax_kernels_scalar();
const SoftmaxKernels& softmax_kernels_avx2();
const SoftmaxKernels& softmax_kernels_avx512();

}  // namespace hf2q
