#pragma once
// One row for each instruction set: the functions behind elementwise.h.

#include <cstddef>

namespace hf2q {

struct ElementwiseKernels {
  void (*rms_norm_row)(const float* x, size_t n, const float* weight, float eps, float* y);
  void (*add_run)(const float* x, size_t n, float* y);
  void (*scale_run)(const float* scale, size_t n_scale, size_t n, float* x);
  void (*gelu_mul_run)(float* gate, const float* up, size_t n);
  void (*softcap_run)(float* x, size_t n, float cap);
  void (*rotate_head)(float* x, size_t half, const float* cos, const float* sin, size_t n_pairs);
};

extern const ElementwiseKernels kElementwiseScalar;
extern const ElementwiseKernels kElementwiseAvx2;
extern const ElementwiseKernels kElementwiseAvx512;

}  // namespace hf2q
