#pragma once
// softmax and merge of attention_table.h: one text for every instruction set, in an unnamed
// namespace.

#include <algorithm>
#include <cstddef>

#include "ops/attention_table.h"
#include "ops/exp.h"

namespace hf2q {
namespace {

constexpr size_t kLanes = 16;

float tree_sum(float* lanes) {
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

float largest(const float* p, size_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = p[0];
  size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] = p[j + l] > lanes[l] ? p[j + l] : lanes[l];
  }
  for (size_t l = 0; j < n; ++j, ++l) lanes[l] = p[j] > lanes[l] ? p[j] : lanes[l];
  return *std::max_element(lanes, lanes + kLanes);
}

void softmax(float* p, size_t n, size_t lane, float* max, float* sum) {
  const float m = largest(p, n);
  for (size_t j = 0; j < n; ++j) p[j] = exp_f32(p[j] - m);
  float lanes[kLanes] = {};
  size_t j = 0;
  for (; j < n && (lane + j) % kLanes != 0; ++j) lanes[(lane + j) % kLanes] += p[j];
  for (; j + kLanes <= n; j += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += p[j + l];
  }
  for (size_t l = 0; j < n; ++j, ++l) lanes[l] += p[j];
  *max = m;
  *sum = tree_sum(lanes);
}

void merge(float* total, float a, const float* part, float b, size_t n) {
  for (size_t i = 0; i < n; ++i) total[i] = __builtin_fmaf(part[i], b, total[i] * a);
}

}  // namespace
}  // namespace hf2q
