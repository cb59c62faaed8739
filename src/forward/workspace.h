#pragma once
// All memory of a forward pass, made once; nothing is allocated during one.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_layout.h"
#include "model/weights.h"
#include "ops/activations.h"
#include "ops/attention.h"
#include "ops/exec.h"
#include "ops/matmul.h"

namespace hf2q {

struct WorkspaceLimits {
  uint32_t max_rows = 512;   // of a batch
  uint32_t max_outputs = 1;  // rows of a batch that want logits or the hidden state
  uint32_t n_ctx = 0;        // positions of a sequence
};

class Workspace {
 public:
  Workspace(const Weights& weights, const Exec& exec, const WorkspaceLimits& limits);

  // What the constructor allocates.
  static uint64_t bytes(const Config& config, size_t n_threads, const WorkspaceLimits& limits);

  const WorkspaceLimits& limits() const { return limits_; }
  // After forward(): one row for each batch row that wants it, in the batch's order.
  std::span<const float> logits() const { return {logits_.data(), n_logits_ * vocab_size_}; }
  std::span<const float> hidden() const { return {hidden_.data(), n_hidden_ * hidden_dim_}; }

 private:
  friend class ForwardPass;
  WorkspaceLimits limits_;
  size_t vocab_size_;
  size_t hidden_dim_;
  size_t n_logits_ = 0;
  size_t n_hidden_ = 0;
  std::vector<float> frequencies_swa_;   // of the rotary embedding, sliding layers
  std::vector<float> frequencies_full_;  // and full layers; only the pairs that rotate
  std::vector<float> cos_;               // [rows, sliding pairs], then [rows, full pairs]
  std::vector<float> sin_;
  std::vector<uint8_t> axes_;  // of each pair of a head, the larger heads' number of pairs
  std::vector<float> x_;       // [rows, hidden]: the residual stream
  std::vector<float> normed_;  // [rows, hidden]
  std::vector<float> branch_;  // [rows, hidden]: what is added to x
  std::vector<float> q_;       // [rows, n_heads head_dim]
  std::vector<float> k_;       // [rows, n_kv_heads head_dim]
  std::vector<float> v_;
  std::vector<float> attn_;           // [rows, n_heads head_dim]
  std::vector<float> gate_;           // [rows, ffn_dim]; [pairs, 2 expert_ffn]
  std::vector<float> up_;             // [rows, ffn_dim]; [pairs, expert_ffn]
  std::vector<float> ple_;            // [rows, n_layers, ple_dim]
  std::vector<float> ple_token_;      // [threads, n_layers ple_dim]
  std::vector<float> ple_gate_;       // [rows, ple_dim]
  std::vector<float> router_;         // [rows, n_experts]
  std::vector<float> expert_out_;     // [pairs, hidden]; a pair is a row and an expert it chose
  std::vector<float> expert_sum_;     // [rows, hidden]
  std::vector<float> expert_weight_;  // [rows, n_used]
  std::vector<uint32_t> expert_id_;   // [rows, n_used]
  std::vector<uint32_t> pair_of_;   // [rows, n_used]: its place among the pairs, ordered by expert
  std::vector<uint32_t> pair_row_;  // [pairs]
  std::vector<uint32_t> pair_index_;    // [pairs]: 0, 1, 2, ...
  std::vector<uint32_t> expert_begin_;  // [n_experts + 1]: first pair of each expert
  std::vector<PackedMatrix> expert_matrices_;
  std::vector<MatmulJob> jobs_;
  std::vector<ActivationBlock> blocks_;
  std::vector<std::vector<KvRow>> kv_rows_;     // [group][rows]
  std::vector<std::vector<KvRow>> exact_rows_;  // the same in CacheView::exact_pages
  std::vector<uint32_t> block_end_;             // [rows]: one past the image block, or the position
  std::vector<float> output_rows_;              // [outputs, hidden]
  std::vector<float> logits_;                   // [outputs, vocab]
  std::vector<float> hidden_;                   // [outputs, hidden]
  AttentionScratch attention_;
};

}  // namespace hf2q
