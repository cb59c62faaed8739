#include "forward/moe.h"

#include <algorithm>

#include "base/check.h"
#include "ops/exp.h"

namespace hf2q {
namespace {

void softmax_in_place(std::span<float> p) {
  const float max = *std::ranges::max_element(p);
  for (float& value : p) value = exp_f32(value - max);
}

}  // namespace

void choose_experts(std::span<float> logits, size_t rows, size_t n_experts, size_t n_used,
                    std::span<const float> expert_scale, std::span<uint32_t> ids,
                    std::span<float> weights) {
  CHECK(n_used <= n_experts && expert_scale.size() == n_experts);
  CHECK(logits.size() >= rows * n_experts && ids.size() >= rows * n_used &&
        weights.size() >= rows * n_used);
  for (size_t r = 0; r < rows; ++r) {
    const std::span<float> p = logits.subspan(r * n_experts, n_experts);
    softmax_in_place(p);  // without its sum, which the renormalisation cancels
    float sum = 0;
    for (size_t k = 0; k < n_used; ++k) {
      const auto best = std::ranges::max_element(p);  // the first of equal ones
      const auto id = static_cast<uint32_t>(best - p.begin());
      ids[r * n_used + k] = id;
      weights[r * n_used + k] = *best;
      sum += *best;
      *best = -1.0F;
    }
    for (size_t k = 0; k < n_used; ++k) {
      weights[r * n_used + k] = weights[r * n_used + k] / sum * expert_scale[ids[r * n_used + k]];
    }
  }
}

void order_by_expert(std::span<const uint32_t> ids, size_t rows, size_t n_experts, size_t n_used,
                     std::span<uint32_t> pair_of, std::span<uint32_t> pair_row,
                     std::span<uint32_t> begin) {
  CHECK(begin.size() == n_experts + 1 && pair_of.size() >= rows * n_used &&
        pair_row.size() >= rows * n_used);
  std::ranges::fill(begin, 0U);
  for (size_t i = 0; i < rows * n_used; ++i) ++begin[ids[i] + 1];
  for (size_t e = 0; e < n_experts; ++e) begin[e + 1] += begin[e];
  // Fills each expert's places in order; begin[e] ends up as the first place of e + 1 and is put
  // back.
  for (size_t i = 0; i < rows * n_used; ++i) {
    const uint32_t place = begin[ids[i]]++;
    pair_of[i] = place;
    pair_row[place] = static_cast<uint32_t>(i / n_used);
  }
  for (size_t e = n_experts; e > 0; --e) begin[e] = begin[e - 1];
  begin[0] = 0;
}

}  // namespace hf2q
