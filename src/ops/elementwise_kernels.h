#pragma once
// The loops of elementwise.h on one row or run. This text is compiled once for each instruction set
// (elementwise_scalar.cc, elementwise_avx2.cc, elementwise_avx512.cc), each time in an unnamed
// namespace.

#include <cmath>
#include <cstddef>

#include "ops/elementwise_table.h"
#include "ops/exp.h"

namespace hf2q {
namespace {

constexpr size_t kLanes = 16;

float sum_of_squares(const float* x, size_t n) {
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += x[i + l] * x[i + l];
  }
  for (size_t l = 0; i + l < n; ++l) lanes[l] += x[i + l] * x[i + l];
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

void rms_norm_row(const float* x, size_t n, const float* weight, float eps, float* y) {
  const float factor = 1.0F / __builtin_sqrtf(sum_of_squares(x, n) / static_cast<float>(n) + eps);
  if (weight == nullptr) {
    for (size_t i = 0; i < n; ++i) y[i] = x[i] * factor;
  } else {
    for (size_t i = 0; i < n; ++i) y[i] = x[i] * factor * weight[i];
  }
}

void add_run(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] += x[i];
}

void scale_run(const float* scale, size_t n_scale, size_t n, float* x) {
  if (n_scale == 1) {
    const float factor = scale[0];
    for (size_t i = 0; i < n; ++i) x[i] *= factor;
  } else {
    for (size_t i = 0; i < n; ++i) x[i] *= scale[i];
  }
}

void gelu_mul_run(float* gate, const float* up, size_t n) {
  for (size_t i = 0; i < n; ++i) gate[i] = gelu_f32(gate[i]) * up[i];
}

void softcap_run(float* x, size_t n, float cap) {
  for (size_t i = 0; i < n; ++i) x[i] = cap * tanh_f32(x[i] / cap);
}

void rotate_head(float* x, size_t half, const float* cos, const float* sin, size_t n_pairs) {
  for (size_t i = 0; i < n_pairs; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

constexpr ElementwiseKernels kTable = {rms_norm_row, add_run,     scale_run,
                                       gelu_mul_run, softcap_run, rotate_head};

}  // namespace
}  // namespace hf2q
