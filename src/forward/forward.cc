#include "forward/forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "base/check.h"
#include "base/tensor_type.h"
#include "forward/moe.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/rope.h"

namespace hf2q {
// One call of forward().
class ForwardPass {
 public:
  ForwardPass(Exec& exec, const Weights& weights, const Batch& batch, const CacheView& cache,
              Workspace& work, const Observer* observer)
      : exec_(exec),
        weights_(weights),
        config_(weights.config),
        batch_(batch),
        cache_(cache),
        work_(work),
        observer_(observer),
        m_(batch.rows.size()),
        hidden_(weights.config.hidden_dim) {}

  std::optional<BadRow> run();

 private:
  void check() const;
  void check_additions() const;
  void check_rotary() const;
  void embed();
  void prepare_angles();
  void prepare_rows();
  void prepare_ple();
  void attention(uint32_t i);
  void keys_and_values(uint32_t i);
  void dense(const LayerWeights& w, uint32_t i, const float* post_norm);
  void experts(const LayerWeights& w, uint32_t i);
  void route(const MoeWeights& moe, uint32_t i);
  void run_experts(const MoeWeights& moe, uint32_t i);
  void feed_forward(uint32_t i);
  void per_layer_input(uint32_t i);
  void add_extra(uint32_t i);
  void output();

  // The rows of x as an input of matrix products, in int8 as well where a weight needs it.
  Activations input(const float* x, size_t m, size_t cols,
                    std::initializer_list<const PackedMatrix*> weights);
  void product(const Activations& x, std::initializer_list<MatmulJob> jobs) {
    matmul(exec_, x, {jobs.begin(), jobs.size()});
  }
  void observe(std::string_view name, int layer, const float* data, size_t n, size_t cols) const {
    if (observer_ != nullptr) (*observer_)({name, layer, {}, {}, -1, data, n, cols});
  }
  void observe_input(std::string_view weight, uint32_t layer, const float* data, size_t n,
                     size_t cols) const {
    if (observer_ != nullptr) {
      (*observer_)({"matmul_input", static_cast<int>(layer), weight, {}, -1, data, n, cols});
    }
  }
  size_t n_pairs(bool sliding) const { return sliding ? config_.head_dim_swa / 2 : n_full_pairs_; }
  const float* cos(bool sliding) const {
    return work_.cos_.data() + (sliding ? 0 : m_ * n_pairs(true));
  }
  const float* sin(bool sliding) const {
    return work_.sin_.data() + (sliding ? 0 : m_ * n_pairs(true));
  }

  Exec& exec_;
  const Weights& weights_;
  const Config& config_;
  const Batch& batch_;
  const CacheView& cache_;
  Workspace& work_;
  const Observer* observer_;
  size_t m_;
  size_t hidden_;
  size_t n_full_pairs_ = 0;
  std::optional<BadRow> bad_;
};

void ForwardPass::check() const {
  CHECK(m_ > 0 && m_ <= work_.limits().max_rows);
  CHECK(cache_.places.size() == config_.n_layers && cache_.groups.size() <= work_.kv_rows_.size());
  CHECK(cache_.exact_groups.empty() || (cache_.exact_groups.size() == cache_.groups.size() &&
                                        cache_.exact_pages.size() == cache_.pages.size()));
  size_t n_outputs = 0;
  for (size_t r = 0; r < m_; ++r) {
    const BatchRow& row = batch_.rows[r];
    CHECK(row.token >= 0 && static_cast<uint32_t>(row.token) < config_.vocab_size);
    CHECK(row.soft < 0 || (static_cast<size_t>(row.soft) + 1) * hidden_ <= batch_.soft_rows.size());
    CHECK((row.sequence + 1) * cache_.groups.size() <= cache_.pages.size());
    n_outputs += row.wants == Wants::kNothing ? 0 : 1;
    if (r > 0 && batch_.rows[r - 1].sequence == row.sequence) {
      CHECK(batch_.rows[r - 1].position + 1 == row.position);
    }
  }
  CHECK(n_outputs <= work_.limits().max_outputs);
  check_additions();
  check_rotary();
}

void ForwardPass::check_additions() const {
  for (const Addition& addition : batch_.additions) {
    CHECK(addition.layer < config_.n_layers);
    CHECK(addition.values.size() == addition.rows.size() * hidden_);
    for (size_t k = 0; k < addition.rows.size(); ++k) {
      CHECK(addition.rows[k] < m_ && (k == 0 || addition.rows[k - 1] < addition.rows[k]));
    }
  }
}

void ForwardPass::check_rotary() const {
  const RotaryPositions& rotary = batch_.rotary;
  if (rotary.n_axes == 0) return;
  CHECK(rotary.positions.size() == m_ * rotary.n_axes);
  CHECK(!rotary.axis_of_pair.empty());
  for (const uint8_t axis : rotary.axis_of_pair) CHECK(axis < rotary.n_axes);
}

void ForwardPass::embed() {
  const float scale = std::sqrt(static_cast<float>(hidden_));
  exec_.parallel_for(m_, 1, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      float* x = work_.x_.data() + r * hidden_;
      const BatchRow& row = batch_.rows[r];
      if (row.soft >= 0) {
        std::copy_n(batch_.soft_rows.data() + static_cast<size_t>(row.soft) * hidden_, hidden_, x);
      } else {
        weights_.read_embedding(row.token, x);
        for (size_t i = 0; i < hidden_; ++i) x[i] *= scale;
      }
    }
  });
}

void ForwardPass::prepare_angles() {
  const std::vector<float>& sliding = work_.frequencies_swa_;
  const std::vector<float>& full = work_.frequencies_full_;
  n_full_pairs_ = full.size();
  const RotaryPositions& rotary = batch_.rotary;
  const std::span<uint8_t> axes = work_.axes_;
  for (size_t i = 0; i < axes.size() && rotary.n_axes > 0; ++i) {
    axes[i] = rotary.axis_of_pair[i % rotary.axis_of_pair.size()];
  }
  exec_.parallel_for(m_, 8, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      for (const bool is_sliding : {true, false}) {
        const std::vector<float>& frequencies = is_sliding ? sliding : full;
        float* c = const_cast<float*>(cos(is_sliding)) + r * frequencies.size();
        float* s = const_cast<float*>(sin(is_sliding)) + r * frequencies.size();
        if (rotary.n_axes == 0) {
          rope_angles(frequencies, batch_.rows[r].position, c, s);
        } else {
          rope_angles(frequencies,
                      std::span(rotary.positions).subspan(r * rotary.n_axes, rotary.n_axes),
                      axes.first(frequencies.size()), c, s);
        }
      }
    }
  });
}

// Which positions each row reads, for each group.
void ForwardPass::prepare_rows() {
  for (size_t r = m_; r-- > 0;) {
    const BatchRow& row = batch_.rows[r];
    work_.block_end_[r] = row.position + 1;
    if (r + 1 == m_ || row.block < 0 || !config_.image_blocks) continue;
    const BatchRow& next = batch_.rows[r + 1];
    if (next.sequence == row.sequence && next.block == row.block)
      work_.block_end_[r] = work_.block_end_[r + 1];
  }
  for (uint32_t i = 0; i < config_.n_layers; ++i) {
    if (!config_.owns_kv(i)) continue;
    const uint32_t group = cache_.places[i].group;
    const bool sliding = config_.layers[i].sliding;
    std::vector<KvRow>& rows = work_.kv_rows_[group];
    for (size_t r = 0; r < m_; ++r) {
      const BatchRow& row = batch_.rows[r];
      const uint32_t window = config_.sliding_window;
      KvRow& target = rows[r];
      const size_t table = row.sequence * cache_.groups.size() + group;
      target.pages = cache_.pages[table];
      target.position = row.position;
      target.begin = sliding && row.position + 1 > window ? row.position + 1 - window : 0;
      target.end = sliding ? work_.block_end_[r] : row.position + 1;
      if (!cache_.exact_groups.empty()) {
        work_.exact_rows_[group][r] = target;
        work_.exact_rows_[group][r].pages = cache_.exact_pages[table];
      }
    }
  }
}

Activations ForwardPass::input(const float* x, size_t m, size_t cols,
                               std::initializer_list<const PackedMatrix*> weights) {
  const bool quantized = std::any_of(weights.begin(), weights.end(), [](const PackedMatrix* w) {
    return w->rows > 0 && is_quantized(w->type);
  });
  if (quantized) return quantize_rows(exec_, x, m, cols, work_.blocks_.data());
  return {x, nullptr, m, cols};
}

// Per-layer inputs of all layers, from the token and from the input embedding.
void ForwardPass::prepare_ple() {
  const size_t ple_dim = config_.ple_dim;
  const size_t width = ple_dim * config_.n_layers;
  product(input(work_.x_.data(), m_, hidden_, {&weights_.ple_model_proj}),
          {{&weights_.ple_model_proj, {}, work_.ple_.data(), width}});
  const float from_hidden = 1.0F / std::sqrt(static_cast<float>(hidden_));
  scale_rows(exec_, work_.ple_.data(), m_, width, &from_hidden, 1);
  rms_norm(exec_, work_.ple_.data(), m_ * config_.n_layers, ple_dim, weights_.ple_proj_norm.data(),
           config_.norm_eps, work_.ple_.data());
  const float token_scale = std::sqrt(static_cast<float>(ple_dim));
  const float half = std::sqrt(0.5F);
  exec_.parallel_for(m_, 1, [&](size_t begin, size_t end, size_t thread) {
    float* token_part = work_.ple_token_.data() + thread * width;
    for (size_t r = begin; r < end; ++r) {
      read_row(weights_.ple_embedding, static_cast<size_t>(batch_.rows[r].token), token_part);
      float* ple = work_.ple_.data() + r * width;
      for (size_t i = 0; i < width; ++i) ple[i] = (token_part[i] * token_scale + ple[i]) * half;
    }
  });
  observe("per_layer_inputs", -1, work_.ple_.data(), m_, width);
}

void ForwardPass::keys_and_values(uint32_t i) {
  const LayerConfig& layer = config_.layers[i];
  const LayerWeights& w = weights_.layers[i];
  const KvPlace place = cache_.places[i];
  const size_t n_rows = m_ * layer.n_kv_heads;
  const size_t kv_dim = size_t{layer.n_kv_heads} * layer.head_dim;
  observe("k_pre_normed", static_cast<int>(i), work_.k_.data(), m_, kv_dim);
  // Without a V projection V is the raw output of the K projection.
  const float* v_raw = w.v.rows > 0 ? work_.v_.data() : work_.k_.data();
  rms_norm(exec_, v_raw, n_rows, layer.head_dim, nullptr, config_.norm_eps, work_.v_.data());
  rms_norm(exec_, work_.k_.data(), n_rows, layer.head_dim, w.k_norm.data(), config_.norm_eps,
           work_.k_.data());
  observe("k_normed", static_cast<int>(i), work_.k_.data(), m_, kv_dim);
  rotate_pairs(exec_, work_.k_.data(), m_, layer.n_kv_heads, layer.head_dim, cos(layer.sliding),
               sin(layer.sliding), n_pairs(layer.sliding));
  observe("k_cached", static_cast<int>(i), work_.k_.data(), m_, kv_dim);
  observe("v_cached", static_cast<int>(i), work_.v_.data(), m_, kv_dim);
  const std::span<const KvRow> rows = std::span(work_.kv_rows_[place.group]).first(m_);
  const std::optional<size_t> bad = store_kv(exec_, cache_.groups[place.group].layout, place.layer,
                                             rows, work_.k_.data(), work_.v_.data());
  if (!cache_.exact_groups.empty()) {
    const std::span<const KvRow> exact = std::span(work_.exact_rows_[place.group]).first(m_);
    (void)store_kv(exec_, cache_.exact_groups[place.group].layout, place.layer, exact,
                   work_.k_.data(), work_.v_.data());  // bad rows are the same
  }
  if (bad && !bad_) bad_ = BadRow{*bad, i};
}

void ForwardPass::attention(uint32_t i) {
  const LayerConfig& layer = config_.layers[i];
  const LayerWeights& w = weights_.layers[i];
  const KvPlace place = cache_.places[i];
  const size_t q_dim = size_t{config_.n_heads} * layer.head_dim;
  const size_t kv_dim = size_t{layer.n_kv_heads} * layer.head_dim;
  const int at = static_cast<int>(i);
  observe("pre_layer_hidden", at, work_.x_.data(), m_, hidden_);
  rms_norm(exec_, work_.x_.data(), m_, hidden_, w.attn_norm.data(), config_.norm_eps,
           work_.normed_.data());
  observe("post_input_norm", at, work_.normed_.data(), m_, hidden_);
  observe_input("attn_qkv", i, work_.normed_.data(), m_, hidden_);

  const bool owner = config_.owns_kv(i);
  const Activations x = input(work_.normed_.data(), m_, hidden_, {&w.q, &w.k, &w.v});
  std::array<MatmulJob, 3> jobs = {MatmulJob{&w.q, {}, work_.q_.data(), q_dim},
                                   MatmulJob{&w.k, {}, work_.k_.data(), kv_dim},
                                   MatmulJob{&w.v, {}, work_.v_.data(), kv_dim}};
  const size_t n_jobs = !owner ? 1 : (w.v.rows > 0 ? 3 : 2);
  matmul(exec_, x, std::span(jobs).first(n_jobs));
  observe("q_pre_normed", at, work_.q_.data(), m_, q_dim);
  rms_norm(exec_, work_.q_.data(), m_ * config_.n_heads, layer.head_dim, w.q_norm.data(),
           config_.norm_eps, work_.q_.data());
  observe("q_normed", at, work_.q_.data(), m_, q_dim);
  rotate_pairs(exec_, work_.q_.data(), m_, config_.n_heads, layer.head_dim, cos(layer.sliding),
               sin(layer.sliding), n_pairs(layer.sliding));
  observe("q_rotated", at, work_.q_.data(), m_, q_dim);
  if (owner) keys_and_values(i);

  const bool exact = !cache_.exact_groups.empty();
  const auto& read = exact ? work_.exact_rows_ : work_.kv_rows_;
  const KvGroup& group = (exact ? cache_.exact_groups : cache_.groups)[place.group];
  const std::span<const KvRow> rows = std::span(read[place.group]).first(m_);
  attend(exec_, {group.layout, place.layer, config_.n_heads}, rows, work_.q_.data(),
         work_.attention_, work_.attn_.data());
  observe("sdpa_out", at, work_.attn_.data(), m_, q_dim);
  observe_input("attn_output", i, work_.attn_.data(), m_, q_dim);
  product(input(work_.attn_.data(), m_, q_dim, {&w.o}),
          {{&w.o, {}, work_.branch_.data(), hidden_}});
  rms_norm(exec_, work_.branch_.data(), m_, hidden_, w.post_attn_norm.data(), config_.norm_eps,
           work_.branch_.data());
  observe("attn_out_pre_resid", at, work_.branch_.data(), m_, hidden_);
  add(exec_, work_.branch_.data(), m_ * hidden_, work_.x_.data());
  observe("residual", at, work_.x_.data(), m_, hidden_);
}

// branch = post_norm(down(gelu(gate(n)) * up(n))), n = norm(x).
void ForwardPass::dense(const LayerWeights& w, uint32_t i, const float* post_norm) {
  const size_t ffn_dim = config_.layers[i].ffn_dim;
  rms_norm(exec_, work_.x_.data(), m_, hidden_, w.ffn_norm.data(), config_.norm_eps,
           work_.normed_.data());
  observe_input("ffn_gate_up", i, work_.normed_.data(), m_, hidden_);
  product(input(work_.normed_.data(), m_, hidden_, {&w.gate, &w.up}),
          {{&w.gate, {}, work_.gate_.data(), ffn_dim}, {&w.up, {}, work_.up_.data(), ffn_dim}});
  gelu_mul(exec_, work_.gate_.data(), ffn_dim, work_.up_.data(), ffn_dim, m_, ffn_dim);
  observe_input("ffn_down", i, work_.gate_.data(), m_, ffn_dim);
  product(input(work_.gate_.data(), m_, ffn_dim, {&w.down}),
          {{&w.down, {}, work_.branch_.data(), hidden_}});
  rms_norm(exec_, work_.branch_.data(), m_, hidden_, post_norm, config_.norm_eps,
           work_.branch_.data());
}

void ForwardPass::feed_forward(uint32_t i) {
  const LayerWeights& w = weights_.layers[i];
  if (config_.n_experts == 0) {
    dense(w, i, w.post_ffn_norm.data());
  } else {
    dense(w, i, w.moe.dense_post_norm.data());
    experts(w, i);
    add(exec_, work_.expert_sum_.data(), m_ * hidden_, work_.branch_.data());
    rms_norm(exec_, work_.branch_.data(), m_, hidden_, w.post_ffn_norm.data(), config_.norm_eps,
             work_.branch_.data());
  }
  add(exec_, work_.branch_.data(), m_ * hidden_, work_.x_.data());
}

// The router reads x itself, through a norm without weight.
void ForwardPass::route(const MoeWeights& moe, uint32_t i) {
  rms_norm(exec_, work_.x_.data(), m_, hidden_, nullptr, config_.norm_eps, work_.normed_.data());
  scale_rows(exec_, work_.normed_.data(), m_, hidden_, moe.router_scale.data(), hidden_);
  const float from_hidden = 1.0F / std::sqrt(static_cast<float>(hidden_));
  scale_rows(exec_, work_.normed_.data(), m_, hidden_, &from_hidden, 1);
  product(input(work_.normed_.data(), m_, hidden_, {&moe.router}),
          {{&moe.router, {}, work_.router_.data(), config_.n_experts}});
  observe("router_logits", static_cast<int>(i), work_.router_.data(), m_, config_.n_experts);
  choose_experts(work_.router_, m_, config_.n_experts, config_.n_experts_used, moe.expert_scale,
                 work_.expert_id_, work_.expert_weight_);
  order_by_expert(work_.expert_id_, m_, config_.n_experts, config_.n_experts_used, work_.pair_of_,
                  work_.pair_row_, work_.expert_begin_);
  if (observer_ != nullptr) {
    (*observer_)({"router_weights",
                  static_cast<int>(i),
                  {},
                  {},
                  -1,
                  work_.expert_weight_.data(),
                  m_,
                  config_.n_experts_used,
                  work_.expert_id_.data()});
  }
}

void ForwardPass::run_experts(const MoeWeights& moe, uint32_t i) {
  const size_t ffn = config_.expert_ffn_dim;
  const size_t n_pairs = m_ * config_.n_experts_used;
  rms_norm(exec_, work_.x_.data(), m_, hidden_, moe.pre_norm.data(), config_.norm_eps,
           work_.normed_.data());
  work_.jobs_.clear();
  work_.expert_matrices_.clear();
  for (uint32_t e = 0; e < config_.n_experts; ++e) {
    const uint32_t begin = work_.expert_begin_[e];
    const uint32_t n = work_.expert_begin_[e + 1] - begin;
    if (n == 0) continue;
    const std::span<const uint32_t> rows = std::span(work_.pair_row_).subspan(begin, n);
    if (observer_ != nullptr) {
      (*observer_)({"matmul_input", static_cast<int>(i), "ffn_gate_up_exps", rows,
                    static_cast<int>(e), work_.normed_.data(), n, hidden_});
    }
    work_.expert_matrices_.push_back(stacked_matrix(moe.gate_up, e));
    work_.jobs_.push_back({&work_.expert_matrices_.back(), rows,
                           work_.gate_.data() + size_t{2} * begin * ffn, size_t{2} * ffn});
  }
  matmul(exec_, input(work_.normed_.data(), m_, hidden_, {&moe.gate_up}), work_.jobs_);
  gelu_mul(exec_, work_.gate_.data(), 2 * ffn, work_.gate_.data() + ffn, 2 * ffn, n_pairs, ffn);
  // The products' input without the gaps that the up halves leave.
  exec_.parallel_for(n_pairs, 16, [&](size_t begin, size_t end) {
    for (size_t p = begin; p < end; ++p) {
      std::copy_n(work_.gate_.data() + p * 2 * ffn, ffn, work_.up_.data() + p * ffn);
    }
  });
  work_.jobs_.clear();
  work_.expert_matrices_.clear();
  for (uint32_t e = 0; e < config_.n_experts; ++e) {
    const uint32_t begin = work_.expert_begin_[e];
    const uint32_t n = work_.expert_begin_[e + 1] - begin;
    if (n == 0) continue;
    if (observer_ != nullptr) {
      (*observer_)({"matmul_input",
                    static_cast<int>(i),
                    "ffn_down_exps",
                    {},
                    static_cast<int>(e),
                    work_.up_.data() + begin * ffn,
                    n,
                    ffn});
    }
    work_.expert_matrices_.push_back(stacked_matrix(moe.down, e));
    work_.jobs_.push_back({&work_.expert_matrices_.back(),
                           std::span(work_.pair_index_).subspan(begin, n),
                           work_.expert_out_.data() + begin * hidden_, hidden_});
  }
  matmul(exec_, input(work_.up_.data(), n_pairs, ffn, {&moe.down}), work_.jobs_);
}

// expert_sum = post_norm(sum over the chosen experts, in the router's order, of weight *
// expert(n)).
void ForwardPass::experts(const LayerWeights& w, uint32_t i) {
  route(w.moe, i);
  run_experts(w.moe, i);
  const size_t n_used = config_.n_experts_used;
  exec_.parallel_for(m_, 1, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      float* sum = work_.expert_sum_.data() + r * hidden_;
      std::fill_n(sum, hidden_, 0.0F);
      for (size_t k = 0; k < n_used; ++k) {
        const float weight = work_.expert_weight_[r * n_used + k];
        const float* out = work_.expert_out_.data() + work_.pair_of_[r * n_used + k] * hidden_;
        for (size_t c = 0; c < hidden_; ++c) sum[c] += weight * out[c];
      }
    }
  });
  rms_norm(exec_, work_.expert_sum_.data(), m_, hidden_, w.moe.expert_post_norm.data(),
           config_.norm_eps, work_.expert_sum_.data());
}

void ForwardPass::per_layer_input(uint32_t i) {
  const LayerWeights& w = weights_.layers[i];
  const size_t ple_dim = config_.ple_dim;
  observe_input("inp_gate", i, work_.x_.data(), m_, hidden_);
  product(input(work_.x_.data(), m_, hidden_, {&w.ple_gate}),
          {{&w.ple_gate, {}, work_.ple_gate_.data(), ple_dim}});
  gelu_mul(exec_, work_.ple_gate_.data(), ple_dim, work_.ple_.data() + i * ple_dim,
           ple_dim * config_.n_layers, m_, ple_dim);
  observe_input("proj", i, work_.ple_gate_.data(), m_, ple_dim);
  product(input(work_.ple_gate_.data(), m_, ple_dim, {&w.ple_proj}),
          {{&w.ple_proj, {}, work_.branch_.data(), hidden_}});
  rms_norm(exec_, work_.branch_.data(), m_, hidden_, w.ple_post_norm.data(), config_.norm_eps,
           work_.branch_.data());
  add(exec_, work_.branch_.data(), m_ * hidden_, work_.x_.data());
}

void ForwardPass::add_extra(uint32_t i) {
  for (const Addition& addition : batch_.additions) {
    if (addition.layer != i) continue;
    for (size_t k = 0; k < addition.rows.size(); ++k) {
      float* x = work_.x_.data() + addition.rows[k] * hidden_;
      for (size_t c = 0; c < hidden_; ++c) x[c] += addition.values[k * hidden_ + c];
    }
  }
}

void ForwardPass::output() {
  size_t n_logits = 0;
  size_t n_hidden = 0;
  for (size_t r = 0; r < m_; ++r) {
    const Wants wants = batch_.rows[r].wants;
    if (wants == Wants::kNothing) continue;
    float* to = wants == Wants::kLogits ? work_.output_rows_.data() + n_logits++ * hidden_
                                        : work_.hidden_.data() + n_hidden++ * hidden_;
    std::copy_n(work_.x_.data() + r * hidden_, hidden_, to);
  }
  work_.n_logits_ = n_logits;
  work_.n_hidden_ = n_hidden;
  const float* norm = weights_.output_norm.data();
  if (observer_ != nullptr) {
    rms_norm(exec_, work_.x_.data(), m_, hidden_, norm, config_.norm_eps, work_.normed_.data());
    observe("output_normed", -1, work_.normed_.data(), m_, hidden_);
  }
  if (n_hidden > 0) {
    rms_norm(exec_, work_.hidden_.data(), n_hidden, hidden_, norm, config_.norm_eps,
             work_.hidden_.data());
  }
  if (n_logits == 0) return;
  rms_norm(exec_, work_.output_rows_.data(), n_logits, hidden_, norm, config_.norm_eps,
           work_.output_rows_.data());
  if (observer_ != nullptr) {
    (*observer_)(
        {"matmul_input", -1, "output", {}, -1, work_.output_rows_.data(), n_logits, hidden_});
  }
  product(input(work_.output_rows_.data(), n_logits, hidden_, {&weights_.head}),
          {{&weights_.head, {}, work_.logits_.data(), config_.vocab_size}});
  if (config_.logit_softcap > 0) {
    softcap(exec_, work_.logits_.data(), n_logits * config_.vocab_size, config_.logit_softcap);
  }
}

std::optional<BadRow> ForwardPass::run() {
  check();
  embed();
  prepare_angles();
  prepare_rows();
  if (config_.ple_dim > 0) prepare_ple();
  for (uint32_t i = 0; i < config_.n_layers; ++i) {
    attention(i);
    feed_forward(i);
    if (config_.ple_dim > 0) per_layer_input(i);
    const std::span<const float> scale = weights_.layers[i].output_scale;
    if (!scale.empty()) scale_rows(exec_, work_.x_.data(), m_, hidden_, scale.data(), scale.size());
    add_extra(i);
    observe("l_out", static_cast<int>(i), work_.x_.data(), m_, hidden_);
  }
  output();
  return bad_;
}

std::optional<BadRow> forward(Exec& exec, const Weights& weights, const Batch& batch,
                              const CacheView& cache, Workspace& work, const Observer* observer) {
  return ForwardPass(exec, weights, batch, cache, work, observer).run();
}

}  // namespace hf2q
