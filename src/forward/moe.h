#pragma once
// Which experts a row goes to, and the order in which rows and experts are worked through.

#include <cstdint>
#include <span>

namespace hf2q {

// For each row of logits [rows, n_experts]: p = softmax over all experts, the n_used largest (ties
// go to the lower id) in descending order into ids [rows, n_used], and into weights
//   p_k / (sum of the chosen p) * expert_scale[id_k].
void choose_experts(std::span<float> logits, size_t rows, size_t n_experts, size_t n_used,
                    std::span<const float> expert_scale, std::span<uint32_t> ids,
                    std::span<float> weights);

// Pairs (row, chosen expert) ordered by expert, rows ascending within one:
// begin [n_experts + 1]: the first pair of each expert; pair_row [pairs]: the row of each pair;
// pair_of [rows, n_used]: the place of a row's k-th pair.
void order_by_expert(std::span<const uint32_t> ids, size_t rows, size_t n_experts, size_t n_used,
                     std::span<uint32_t> pair_of, std::span<uint32_t> pair_row,
                     std::span<uint32_t> begin);

}  // namespace hf2q
