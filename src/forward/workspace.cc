#include "forward/workspace.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "ops/rope.h"

namespace hf2q {
namespace {

// Rotary factors from here on mean that a pair does not turn (files have 1e30).
constexpr float kNoRotation = 1e20F;

struct Sizes {
  size_t hidden;
  size_t q_dim;
  size_t kv_dim;
  size_t ffn;       // of gate and up, also for the experts' pairs
  size_t max_cols;  // of a quantized input, for all rows together
  size_t ple;
  size_t n_pairs;
  size_t n_groups;  // of the cache, at most
  uint32_t max_head_dim;
};

// Layers that agree in window and shape are one group (kv/page_layout.h).
size_t count_groups(const Config& config) {
  std::set<std::tuple<bool, uint32_t, uint32_t>> kinds;
  for (const LayerConfig& layer : config.layers) {
    kinds.emplace(layer.sliding, layer.n_kv_heads, layer.head_dim);
  }
  return kinds.size();
}

Sizes sizes_of(const Config& config, size_t rows) {
  Sizes sizes = {};
  sizes.hidden = config.hidden_dim;
  sizes.n_pairs = rows * config.n_experts_used;
  sizes.n_groups = count_groups(config);
  for (const LayerConfig& layer : config.layers) {
    sizes.q_dim = std::max(sizes.q_dim, size_t{config.n_heads} * layer.head_dim);
    sizes.kv_dim = std::max(sizes.kv_dim, size_t{layer.n_kv_heads} * layer.head_dim);
    sizes.ffn = std::max(sizes.ffn, rows * layer.ffn_dim);
    sizes.max_head_dim = std::max(sizes.max_head_dim, layer.head_dim);
  }
  sizes.max_cols = std::max({rows * sizes.hidden, rows * sizes.q_dim, sizes.ffn,
                             sizes.n_pairs * config.expert_ffn_dim, rows * config.ple_dim});
  sizes.ffn = std::max(sizes.ffn, sizes.n_pairs * 2 * config.expert_ffn_dim);
  sizes.ple = size_t{config.ple_dim} * config.n_layers;
  return sizes;
}

std::vector<float> full_frequencies(const Weights& weights) {
  const std::span<const float> factors = weights.rope_factors;
  const auto n = static_cast<size_t>(
      std::ranges::count_if(factors, [](float factor) { return factor < kNoRotation; }));
  std::vector<float> frequencies =
      rope_frequencies(weights.config.rope_theta, weights.config.head_dim_full, n, 1.0F);
  for (size_t i = 0; i < n; ++i) frequencies[i] /= factors[i];
  return frequencies;
}

}  // namespace

Workspace::Workspace(const Weights& weights, const Exec& exec, const WorkspaceLimits& limits)
    : limits_(limits),
      vocab_size_(weights.config.vocab_size),
      hidden_dim_(weights.config.hidden_dim),
      frequencies_swa_(rope_frequencies(weights.config.rope_theta_swa, weights.config.head_dim_swa,
                                        weights.config.head_dim_swa / 2, 1.0F)),
      frequencies_full_(full_frequencies(weights)),
      attention_(exec.n_threads(), weights.config.n_heads, sizes_of(weights.config, 1).max_head_dim,
                 limits.n_ctx) {
  const Config& config = weights.config;
  const size_t rows = limits.max_rows;
  const Sizes sizes = sizes_of(config, rows);
  cos_.resize(rows * (frequencies_swa_.size() + frequencies_full_.size()));
  sin_.resize(cos_.size());
  axes_.resize(std::max(frequencies_swa_.size(), frequencies_full_.size()));
  for (std::vector<float>* buffer : {&x_, &normed_, &branch_}) buffer->resize(rows * sizes.hidden);
  q_.resize(rows * sizes.q_dim);
  attn_.resize(rows * sizes.q_dim);
  k_.resize(rows * sizes.kv_dim);
  v_.resize(rows * sizes.kv_dim);
  gate_.resize(sizes.ffn);
  up_.resize(sizes.ffn);
  blocks_.resize(sizes.max_cols / 32 + 1);
  ple_.resize(rows * sizes.ple);
  ple_token_.resize(exec.n_threads() * sizes.ple);
  ple_gate_.resize(rows * config.ple_dim);
  router_.resize(rows * config.n_experts);
  expert_out_.resize(sizes.n_pairs * sizes.hidden);
  expert_sum_.resize(config.n_experts > 0 ? rows * sizes.hidden : 0);
  expert_weight_.resize(sizes.n_pairs);
  for (std::vector<uint32_t>* buffer : {&expert_id_, &pair_of_, &pair_row_, &pair_index_}) {
    buffer->resize(sizes.n_pairs);
  }
  std::iota(pair_index_.begin(), pair_index_.end(), 0U);
  expert_begin_.resize(config.n_experts + 1);
  expert_matrices_.reserve(config.n_experts);
  jobs_.reserve(config.n_experts);
  kv_rows_.assign(sizes.n_groups, std::vector<KvRow>(rows));
  exact_rows_ = kv_rows_;
  block_end_.resize(rows);
  output_rows_.resize(limits.max_outputs * sizes.hidden);
  hidden_.resize(limits.max_outputs * sizes.hidden);
  logits_.resize(limits.max_outputs * vocab_size_);
}

uint64_t Workspace::bytes(const Config& config, size_t n_threads, const WorkspaceLimits& limits) {
  const size_t rows = limits.max_rows;
  const Sizes sizes = sizes_of(config, rows);
  const size_t floats =
      rows * (config.head_dim_swa + config.head_dim_full) + 3 * rows * sizes.hidden +
      2 * rows * (sizes.q_dim + sizes.kv_dim) + 2 * sizes.ffn + (rows + n_threads) * sizes.ple +
      rows * (config.ple_dim + config.n_experts) + sizes.n_pairs * (sizes.hidden + 5) +
      (config.n_experts > 0 ? rows * sizes.hidden : 0) +
      limits.max_outputs * (2 * sizes.hidden + config.vocab_size);
  return floats * sizeof(float) + (sizes.max_cols / 32 + 1) * sizeof(ActivationBlock) +
         2 * sizes.n_groups * rows * sizeof(KvRow) + rows * sizeof(uint32_t) +
         AttentionScratch(n_threads, config.n_heads, sizes.max_head_dim, limits.n_ctx).bytes();
}

}  // namespace hf2q
