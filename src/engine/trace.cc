#include "engine/trace.h"

#include <algorithm>
#include <string_view>

#include "engine/generate.h"
#include "ops/attention.h"

namespace hf2q {
namespace {

// Keeps what the last row of a batch has at each point: of several batches, the last one's.
class Recorder {
 public:
  Recorder(const Config& config, uint32_t layer) : config_(config), layer_(layer) {}

  void add(const Point& point) {
    if (point.name == "per_layer_inputs") {
      const float* row = point.data + (point.n - 1) * point.cols + size_t{layer_} * config_.ple_dim;
      keep("per_layer_input", {config_.ple_dim}, {row, row + config_.ple_dim});
    }
    if (point.layer != static_cast<int>(layer_) || point.expert >= 0) return;
    const std::string name = point.name == "matmul_input"
                                 ? fmt::format("matmul_input.{}", point.weight)
                                 : std::string(point.name);
    if (point.ids != nullptr) keep("router_choice", {point.cols}, last_row(point, point.ids));
    keep(name, shape_of(point), last_row(point, point.data));
  }

  std::vector<NamedValues> take() { return std::move(tensors_); }

 private:
  // As F32, which holds ids of experts exactly.
  template <class T>
  static std::vector<float> last_row(const Point& point, const T* data) {
    const T* row = data + (point.n - 1) * point.cols;
    return {row, row + point.cols};
  }

  std::vector<uint64_t> shape_of(const Point& point) const {
    static constexpr std::string_view kOfHeads[] = {"q_pre_normed", "q_normed", "q_rotated",
                                                    "k_pre_normed", "k_normed", "k_cached",
                                                    "v_cached",     "sdpa_out"};
    if (std::ranges::find(kOfHeads, point.name) == std::end(kOfHeads)) return {point.cols};
    const uint64_t head_dim = config_.layers[layer_].head_dim;
    return {point.cols / head_dim, head_dim};
  }

  void keep(std::string name, std::vector<uint64_t> shape, std::vector<float> values) {
    const auto known = std::ranges::find(tensors_, name, &NamedValues::name);
    if (known != tensors_.end()) {
      known->values = std::move(values);
    } else {
      tensors_.push_back({std::move(name), std::move(shape), std::move(values)});
    }
  }

  const Config& config_;
  uint32_t layer_;
  std::vector<NamedValues> tensors_;
};

using LoadRow = void (*)(const PageLayout&, uint32_t, uint32_t, const KvRow&, uint32_t, float*);

NamedValues cached_rows(const char* name, const PageLayout& layout, uint32_t layer,
                        const KvRow& row, LoadRow load) {
  const uint64_t n = row.end - row.begin;
  NamedValues result = {name, {layout.n_kv_heads, n, layout.head_dim}, {}};
  result.values.resize(layout.n_kv_heads * n * layout.head_dim);
  float* to = result.values.data();
  for (uint32_t head = 0; head < layout.n_kv_heads; ++head) {
    for (uint32_t position = row.begin; position < row.end; ++position) {
      load(layout, layer, head, row, position, to);
      to += layout.head_dim;
    }
  }
  return result;
}

void add_weights(const LayerWeights& w, std::vector<NamedValues>& tensors) {
  const std::pair<const char*, std::span<const float>> all[] = {
      {"attn_norm", w.attn_norm},
      {"attn_q_norm", w.q_norm},
      {"attn_k_norm", w.k_norm},
      {"post_attention_norm", w.post_attn_norm},
      {"ffn_norm", w.ffn_norm},
      {"post_ffw_norm", w.post_ffn_norm},
      {"post_ffw_norm_1", w.moe.dense_post_norm},
      {"pre_ffw_norm_2", w.moe.pre_norm},
      {"post_ffw_norm_2", w.moe.expert_post_norm},
      {"ffn_gate_inp.scale", w.moe.router_scale},
      {"ffn_down_exps.scale", w.moe.expert_scale},
      {"post_norm", w.ple_post_norm},
      {"layer_output_scale", w.output_scale},
  };
  for (const auto& [name, values] : all) {
    if (values.empty()) continue;
    tensors.push_back({fmt::format("weights.{}", name),
                       {values.size()},
                       std::vector<float>(values.begin(), values.end())});
  }
}

Status check(const Engine& engine, size_t n_prompt, const TraceOptions& options) {
  if (options.layer >= engine.config().n_layers) {
    return error(ErrorCode::kInvalidArgument, "trace: layers from 0 to {} expected, found {}",
                 engine.config().n_layers - 1, options.layer);
  }
  if (options.token >= n_prompt) {
    return error(ErrorCode::kInvalidArgument,
                 "trace: a token of the prompt expected, which has {}, found {}", n_prompt,
                 options.token);
  }
  return Ok{};
}

}  // namespace

Result<Trace> trace(Engine& engine, std::span<const int32_t> ids, const TraceOptions& options) {
  TRY_OK(check(engine, ids.size(), options));
  Recorder recorder(engine.config(), options.layer);
  const Observer observer = [&](const Point& point) { recorder.add(point); };
  PromptHooks hooks;
  hooks.observer = &observer;
  Sequence sequence = engine.new_sequence();
  // Later tokens change nothing for this one.
  const auto prompt = ids.first(options.token + size_t{1});
  TRY_OK(read_prompt(engine, sequence, prompt, Wants::kNothing, {}, hooks));
  std::vector<NamedValues> tensors = recorder.take();
  const KvPlace place = engine.kv().places[options.layer];
  const PageLayout& layout = engine.kv().groups[place.group].layout;
  const KvRow row = sequence.row(place.group, options.token);
  tensors.push_back(cached_rows("k_cache_upto", layout, place.layer, row, load_k));
  tensors.push_back(cached_rows("v_cache_upto", layout, place.layer, row, load_v));
  if (options.weights) add_weights(engine.weights().layers[options.layer], tensors);
  TRY(cache, cache_rows(engine, sequence, options.cache_layers, options.token));
  return Trace{std::move(tensors), std::move(cache)};
}

Status write_trace(const std::string& path, const Trace& trace) {
  std::vector<SourceTensor> tensors = views_of(trace.values);
  for (const StoredTensor& tensor : trace.cache.tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  std::vector<std::pair<std::string, std::string>> metadata;
  if (!trace.cache.tensors.empty()) {
    metadata.emplace_back("cache", trace.cache.description);
  }
  return write_safetensors(path, tensors, metadata);
}

}  // namespace hf2q
