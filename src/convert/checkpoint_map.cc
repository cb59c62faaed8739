#include "convert/checkpoint_map.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "base/mapped_file.h"
#include "base/quote.h"

namespace hf2q {
namespace {

using Shape = std::vector<uint64_t>;  // slowest first, as in the checkpoint

constexpr std::array<std::string_view, 5> kPrefixes = {"model.language_model.",
                                                       "language_model.model.", "model.text_model.",
                                                       "language_model.", "model."};
constexpr std::array<std::string_view, 6> kOtherTowers = {
    "vision_tower.", "audio_tower.",     "embed_vision.",
    "embed_audio.",  "vision_embedder.", "multi_modal_projector."};

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<TensorType> tensor_type_of(Dtype dtype) {
  if (dtype == Dtype::kF32) return TensorType::kF32;
  if (dtype == Dtype::kF16) return TensorType::kF16;
  if (dtype == Dtype::kBF16) return TensorType::kBF16;
  return std::nullopt;
}

// Collects what is taken from the checkpoint and everything that is wrong with it.
class Mapper {
 public:
  Mapper(const Checkpoint& checkpoint, const Config& config, uint64_t n_tokens)
      : checkpoint_(checkpoint), config_(config), n_tokens_(n_tokens) {
    prefix_ = "model.";
    for (const std::string_view prefix : kPrefixes) {
      if (checkpoint.find(std::string(prefix) + "embed_tokens.weight") != nullptr) {
        prefix_ = prefix;
        break;
      }
    }
  }

  void add_global_tensors();
  void add_layer(uint32_t i);
  Result<CheckpointMap> finish();

 private:
  // The tensor `name` (below the prefix) with the given shape, or nullptr after noting the problem.
  const SourceTensor* take(const std::string& name, const Shape& shape, bool required = true);
  void add(const std::string& gguf_name, const std::string& hf_name, const Shape& shape,
           bool required = true);
  void add_embedding(const std::string& gguf_name, const std::string& hf_name, uint64_t columns);
  const SourceTensor* find_head() const;
  void skip_tied_head(const SourceTensor& head);
  void add_head();
  void add_generated(const std::string& gguf_name, std::vector<float> values);
  void add_attention(uint32_t i, const std::string& blk, const std::string& hf);
  void add_moe(const std::string& blk, const std::string& hf);
  void add_experts(const std::string& gguf_name, const std::string& hf, const std::string& stacked,
                   const std::vector<std::string>& parts, uint64_t part_rows, uint64_t columns);
  void push(const std::string& gguf_name, const Shape& shape, std::vector<Segment> segments);
  Segment segment(const SourceTensor& tensor) const {
    return {*tensor_type_of(tensor.dtype), tensor.data, true, checkpoint_.path_of(tensor),
            tensor.name};
  }
  void note_unknown();

  const Checkpoint& checkpoint_;
  const Config& config_;
  uint64_t n_tokens_;
  std::string prefix_;
  CheckpointMap map_;
  std::unordered_set<const SourceTensor*> used_;
  std::vector<std::string> problems_;
};

const SourceTensor* Mapper::take(const std::string& name, const Shape& shape, bool required) {
  const SourceTensor* tensor = checkpoint_.find(prefix_ + name);
  if (tensor == nullptr) {
    if (required)
      problems_.push_back(fmt::format("missing: {}{} {}", prefix_, name, to_string(shape)));
    return nullptr;
  }
  used_.insert(tensor);
  if (tensor->shape != shape) {
    problems_.push_back(fmt::format("{}: shape {} expected, found {}", tensor->name,
                                    to_string(shape), to_string(tensor->shape)));
    return nullptr;
  }
  if (!tensor_type_of(tensor->dtype)) {
    problems_.push_back(fmt::format("{}: dtype F32, F16 or BF16 expected, found {}", tensor->name,
                                    name_of(tensor->dtype)));
    return nullptr;
  }
  return tensor;
}

void Mapper::push(const std::string& gguf_name, const Shape& shape, std::vector<Segment> segments) {
  OutputTensor& tensor = map_.tensors.emplace_back();
  tensor.name = gguf_name;
  tensor.dims.assign(shape.rbegin(), shape.rend());
  tensor.segments = std::move(segments);
}

void Mapper::add(const std::string& gguf_name, const std::string& hf_name, const Shape& shape,
                 bool required) {
  const SourceTensor* tensor = take(hf_name, shape, required);
  if (tensor != nullptr) push(gguf_name, shape, {segment(*tensor)});
}

void Mapper::add_generated(const std::string& gguf_name, std::vector<float> values) {
  push(gguf_name, {values.size()}, {});
  OutputTensor& tensor = map_.tensors.back();
  tensor.generated = std::move(values);
  tensor.segments = {
      {TensorType::kF32, std::as_bytes(std::span(tensor.generated)), false, "", gguf_name}};
}

// An embedding table: rows beyond the tokenizer's size are left out.
void Mapper::add_embedding(const std::string& gguf_name, const std::string& hf_name,
                           uint64_t columns) {
  const SourceTensor* found = checkpoint_.find(prefix_ + hf_name);
  uint64_t rows = n_tokens_;
  if (found != nullptr && found->shape.size() == 2) rows = std::max(rows, found->shape[0]);
  const SourceTensor* tensor = take(hf_name, {rows, columns});
  if (tensor == nullptr) return;
  Segment kept = segment(*tensor);
  kept.data = kept.data.first(n_tokens_ * row_bytes(kept.type, columns));
  push(gguf_name, {n_tokens_, columns}, {kept});
}

const SourceTensor* Mapper::find_head() const {
  if (const SourceTensor* tensor = checkpoint_.find("lm_head.weight")) return tensor;
  for (const std::string_view prefix : kPrefixes) {
    const SourceTensor* tensor = checkpoint_.find(std::string(prefix) + "lm_head.weight");
    if (tensor != nullptr) return tensor;
  }
  return nullptr;
}

// A tied head may be stored as well, but not differ.
void Mapper::skip_tied_head(const SourceTensor& head) {
  map_.skipped.push_back(head.name);
  const SourceTensor* embedding = checkpoint_.find(prefix_ + "embed_tokens.weight");
  if (embedding == nullptr) return;  // noted already
  if (head.dtype != embedding->dtype || head.shape != embedding->shape ||
      !std::ranges::equal(head.data, embedding->data)) {
    problems_.push_back(
        fmt::format("{}: the values of {} expected, as tie_word_embeddings is true, found others",
                    printable(head.name), embedding->name));
  }
  release_mapped_pages(head.data);
  release_mapped_pages(embedding->data);
}

// lm_head lies beside the decoder or below any of the prefixes.
void Mapper::add_head() {
  const SourceTensor* head = find_head();
  if (head == nullptr) {
    if (!config_.tied)
      problems_.emplace_back("missing: lm_head.weight (tie_word_embeddings is false)");
    return;
  }
  used_.insert(head);
  if (config_.tied) return skip_tied_head(*head);
  const std::string prefix = std::exchange(prefix_, "");
  add_embedding("output.weight", head->name, config_.hidden_dim);
  prefix_ = prefix;
}

void Mapper::add_global_tensors() {
  const uint64_t hidden = config_.hidden_dim;
  add_embedding("token_embd.weight", "embed_tokens.weight", hidden);
  add("output_norm.weight", "norm.weight", {hidden});
  add_head();
  const bool any_full =
      std::ranges::any_of(config_.layers, [](const auto& l) { return !l.sliding; });
  if (any_full) add_generated("rope_freqs.weight", rope_factors(config_));
  if (config_.ple_dim == 0) return;
  const uint64_t width = uint64_t{config_.ple_dim} * config_.n_layers;
  add_embedding("per_layer_token_embd.weight", "embed_tokens_per_layer.weight", width);
  add("per_layer_model_proj.weight", "per_layer_model_projection.weight", {width, hidden});
  add("per_layer_proj_norm.weight", "per_layer_projection_norm.weight", {config_.ple_dim});
}

void Mapper::add_attention(uint32_t i, const std::string& blk, const std::string& hf) {
  const LayerConfig& layer = config_.layers[i];
  const uint64_t hidden = config_.hidden_dim;
  const uint64_t q_dim = uint64_t{config_.n_heads} * layer.head_dim;
  const uint64_t kv_dim = uint64_t{layer.n_kv_heads} * layer.head_dim;
  const bool owner = config_.owns_kv(i);
  const bool has_v = layer.sliding || !config_.k_eq_v;
  add(blk + "attn_norm.weight", hf + "input_layernorm.weight", {hidden});
  add(blk + "attn_q.weight", hf + "self_attn.q_proj.weight", {q_dim, hidden});
  add(blk + "attn_q_norm.weight", hf + "self_attn.q_norm.weight", {layer.head_dim});
  add(blk + "attn_k.weight", hf + "self_attn.k_proj.weight", {kv_dim, hidden}, owner);
  add(blk + "attn_k_norm.weight", hf + "self_attn.k_norm.weight", {layer.head_dim}, owner);
  if (has_v) add(blk + "attn_v.weight", hf + "self_attn.v_proj.weight", {kv_dim, hidden}, owner);
  add(blk + "attn_output.weight", hf + "self_attn.o_proj.weight", {hidden, q_dim});
  add(blk + "post_attention_norm.weight", hf + "post_attention_layernorm.weight", {hidden});
}

// Experts as one stacked tensor [n_experts, parts x part_rows, columns], or one tensor for each
// expert and part: experts.E.PART.weight [part_rows, columns].
void Mapper::add_experts(const std::string& gguf_name, const std::string& hf,
                         const std::string& stacked, const std::vector<std::string>& parts,
                         uint64_t part_rows, uint64_t columns) {
  const Shape shape = {config_.n_experts, parts.size() * part_rows, columns};
  const std::string first = fmt::format("{}{}experts.0.{}.weight", prefix_, hf, parts.front());
  if (checkpoint_.find(first) == nullptr) return add(gguf_name, hf + "experts." + stacked, shape);
  std::vector<Segment> segments;
  for (uint32_t e = 0; e < config_.n_experts; ++e) {
    for (const std::string& part : parts) {
      const std::string name = fmt::format("{}experts.{}.{}.weight", hf, e, part);
      const SourceTensor* tensor = take(name, {part_rows, columns});
      if (tensor != nullptr) segments.push_back(segment(*tensor));
    }
  }
  push(gguf_name, shape, std::move(segments));
}

void Mapper::add_moe(const std::string& blk, const std::string& hf) {
  const uint64_t hidden = config_.hidden_dim;
  const uint64_t n_experts = config_.n_experts;
  add(blk + "ffn_gate_inp.weight", hf + "router.proj.weight", {n_experts, hidden});
  add(blk + "ffn_gate_inp.scale", hf + "router.scale", {hidden});
  add(blk + "ffn_down_exps.scale", hf + "router.per_expert_scale", {n_experts});
  add(blk + "pre_ffw_norm_2.weight", hf + "pre_feedforward_layernorm_2.weight", {hidden});
  add(blk + "post_ffw_norm_1.weight", hf + "post_feedforward_layernorm_1.weight", {hidden});
  add(blk + "post_ffw_norm_2.weight", hf + "post_feedforward_layernorm_2.weight", {hidden});
  add_experts(blk + "ffn_gate_up_exps.weight", hf, "gate_up_proj", {"gate_proj", "up_proj"},
              config_.expert_ffn_dim, hidden);
  add_experts(blk + "ffn_down_exps.weight", hf, "down_proj", {"down_proj"}, hidden,
              config_.expert_ffn_dim);
}

void Mapper::add_layer(uint32_t i) {
  const std::string blk = fmt::format("blk.{}.", i);
  const std::string hf = fmt::format("layers.{}.", i);
  const uint64_t hidden = config_.hidden_dim;
  const uint64_t ffn_dim = config_.layers[i].ffn_dim;
  add_attention(i, blk, hf);
  add(blk + "ffn_norm.weight", hf + "pre_feedforward_layernorm.weight", {hidden});
  add(blk + "ffn_gate.weight", hf + "mlp.gate_proj.weight", {ffn_dim, hidden});
  add(blk + "ffn_up.weight", hf + "mlp.up_proj.weight", {ffn_dim, hidden});
  add(blk + "ffn_down.weight", hf + "mlp.down_proj.weight", {hidden, ffn_dim});
  add(blk + "post_ffw_norm.weight", hf + "post_feedforward_layernorm.weight", {hidden});
  if (config_.n_experts > 0) add_moe(blk, hf);
  if (config_.ple_dim > 0) {
    add(blk + "inp_gate.weight", hf + "per_layer_input_gate.weight", {config_.ple_dim, hidden});
    add(blk + "proj.weight", hf + "per_layer_projection.weight", {hidden, config_.ple_dim});
    add(blk + "post_norm.weight", hf + "post_per_layer_input_norm.weight", {hidden});
  }
  // One value for the layer, or one for each channel; a checkpoint may leave it out.
  const SourceTensor* scalar = checkpoint_.find(prefix_ + hf + "layer_scalar");
  const bool per_channel = scalar != nullptr && scalar->shape == Shape{hidden};
  add(blk + "layer_output_scale.weight", hf + "layer_scalar", {per_channel ? hidden : 1}, false);
}

void Mapper::note_unknown() {
  for (const SourceTensor* tensor : checkpoint_.tensors()) {
    if (used_.contains(tensor)) continue;
    const bool other_tower = std::ranges::any_of(kOtherTowers, [&](std::string_view tower) {
      return tensor->name.find(tower) != std::string::npos;
    });
    if (other_tower) {
      map_.skipped.push_back(tensor->name);
    } else {
      problems_.push_back(
          fmt::format("unknown: {} {}", printable(tensor->name), to_string(tensor->shape)));
    }
  }
}

Result<CheckpointMap> Mapper::finish() {
  note_unknown();
  if (problems_.empty()) return std::move(map_);
  return error(ErrorCode::kCorrupt, "{} of the checkpoint {} not as config.json says:{}",
               count_of(problems_.size(), "tensor"), problems_.size() == 1 ? "is" : "are",
               lines_of(problems_));
}

}  // namespace

std::vector<float> rope_factors(const Config& config) {
  std::vector<float> factors(config.head_dim_full / 2, 1e30F);
  std::fill_n(factors.begin(), config.n_rot_pairs, config.rope_factor);
  return factors;
}

Result<CheckpointMap> map_checkpoint(const Checkpoint& checkpoint, const Config& config,
                                     uint64_t n_tokens) {
  Mapper mapper(checkpoint, config, n_tokens);
  mapper.add_global_tensors();
  for (uint32_t i = 0; i < config.n_layers; ++i) mapper.add_layer(i);
  return mapper.finish();
}

}  // namespace hf2q
