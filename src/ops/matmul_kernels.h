#pragma once
// The kernels of matmul.cc's table: one template for each instruction set, defined and instantiated
// for all types in its own file.

#include "ops/matmul.h"

namespace hf2q {

template <TensorType kType>
void matmul_scalar(const MatmulTile& tile);
template <TensorType kType>
void matmul_avx2(const MatmulTile& tile);
template <TensorType kType>
void matmul_avx512(const MatmulTile& tile);

}  // namespace hf2q

#define HF2Q_FOR_EACH_TENSOR_TYPE(f)                                                        \
  f(kF32) f(kF16) f(kBF16) f(kQ4_0) f(kQ4_1) f(kQ5_0) f(kQ5_1) f(kQ8_0) f(kIQ4_NL) f(kQ2_K) \
      f(kQ3_K) f(kQ4_K) f(kQ5_K) f(kQ6_K)
