#include "model/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/quote.h"
#include "kv/page_layout.h"

namespace hf2q {
namespace {

constexpr uint32_t kMaxLayers = 512;
constexpr uint32_t kMaxExperts = 1024;
constexpr uint32_t kMaxDim = 1U << 24;
constexpr uint32_t kMaxSize = 1U << 30;

constexpr ConfigKeys kGgufKeys = {
    .n_layers = "gemma4.block_count",
    .hidden_dim = "gemma4.embedding_length",
    .n_heads = "gemma4.attention.head_count",
    .n_kv_heads = "gemma4.attention.head_count_kv",
    .vocab_size = "tokenizer.ggml.tokens",
    .n_ctx = "gemma4.context_length",
    .sliding_window = "gemma4.attention.sliding_window",
    .n_shared_kv_layers = "gemma4.attention.shared_kv_layers",
    .head_dim_full = "gemma4.attention.key_length",
    .head_dim_swa = "gemma4.attention.key_length_swa",
    .ffn_dim = "gemma4.feed_forward_length",
    .n_experts = "gemma4.expert_count",
    .n_experts_used = "gemma4.expert_used_count",
    .expert_ffn_dim = "gemma4.expert_feed_forward_length",
    .ple_dim = "gemma4.embedding_length_per_layer_input",
    .norm_eps = "gemma4.attention.layer_norm_rms_epsilon",
    .rope_theta = "gemma4.rope.freq_base",
    .rope_theta_swa = "gemma4.rope.freq_base_swa",
    .rope_factor = "rope_freqs.weight",
    .logit_softcap = "gemma4.final_logit_softcapping",
};

std::string key(std::string_view name) {
  return "gemma4." + std::string(name);
}

Result<uint32_t> optional_u32(const GgufFile& file, std::string_view name, uint32_t otherwise) {
  if (file.find(key(name)) == nullptr) return otherwise;
  return file.get_u32(key(name));
}

// V rows are as long as K rows.
Status check_value_length(const GgufFile& file, std::string_view name, uint32_t head_dim) {
  TRY(length, optional_u32(file, name, head_dim));
  if (length == head_dim) return Ok{};
  return error(ErrorCode::kUnsupported, "{}: {}: {} expected as for keys, found {}", file.path(),
               key(name), head_dim, length);
}

Result<float> optional_f32(const GgufFile& file, std::string_view name, float otherwise) {
  if (file.find(key(name)) == nullptr) return otherwise;
  return file.get_f32(key(name));
}

// A key that holds one number for all layers, or an array with one for each.
Result<std::vector<uint32_t>> per_layer(const GgufFile& file, std::string_view name, uint32_t n) {
  const Value* value = file.find(key(name));
  if (value == nullptr || value->type != ValueType::kArray) {
    TRY(same, file.get_u32(key(name)));
    return std::vector<uint32_t>(n, same);
  }
  TRY(numbers, file.get_integers(key(name)));
  if (numbers.size() != n) {
    return error(ErrorCode::kCorrupt, "{}: {}: one value for each of {} layers expected, found {}",
                 file.path(), key(name), n, numbers.size());
  }
  std::vector<uint32_t> result;
  for (int32_t number : numbers) {
    if (number < 0) {
      return error(ErrorCode::kCorrupt, "{}: {}: negative value {}", file.path(), key(name),
                   number);
    }
    result.push_back(static_cast<uint32_t>(number));
  }
  return result;
}

// The number of query heads, which may be written once for each layer but never differs.
Result<uint32_t> read_n_heads(const GgufFile& file, uint32_t n_layers) {
  TRY(heads, per_layer(file, "attention.head_count", n_layers));
  if (std::ranges::any_of(heads, [&](uint32_t n) { return n != heads.front(); })) {
    return error(ErrorCode::kUnsupported, "{}: {}: the same number for all layers expected",
                 file.path(), key("attention.head_count"));
  }
  return heads.front();
}

Status read_layers(const GgufFile& file, Config& config) {
  const uint32_t n = config.n_layers;
  TRY(sliding, file.get_bools(key("attention.sliding_window_pattern")));
  if (sliding.size() != n) {
    return error(ErrorCode::kCorrupt, "{}: {}: one value for each of {} layers expected, found {}",
                 file.path(), key("attention.sliding_window_pattern"), n, sliding.size());
  }
  TRY(ffn_dims, per_layer(file, "feed_forward_length", n));
  TRY(kv_heads, per_layer(file, "attention.head_count_kv", n));
  config.layers.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    LayerConfig& layer = config.layers[i];
    layer.sliding = sliding[i];
    layer.head_dim = sliding[i] ? config.head_dim_swa : config.head_dim_full;
    layer.n_kv_heads = kv_heads[i];
    layer.ffn_dim = ffn_dims[i];
  }
  return set_kv_layers(config, kGgufKeys, file.path());
}

Status read_experts(const GgufFile& file, Config& config) {
  TRY(n_experts, optional_u32(file, "expert_count", 0));
  config.n_experts = n_experts;
  if (n_experts == 0) return Ok{};
  TRY(used, file.get_u32(key("expert_used_count")));
  TRY(ffn_dim, file.get_u32(key("expert_feed_forward_length")));
  config.n_experts_used = used;
  config.expert_ffn_dim = ffn_dim;
  return Ok{};
}

Status read_rope(const GgufFile& file, Config& config) {
  TRY(theta, optional_f32(file, "rope.freq_base", 10000.0F));
  TRY(theta_swa, optional_f32(file, "rope.freq_base_swa", 10000.0F));
  TRY(dims, optional_u32(file, "rope.dimension_count", config.head_dim_full));
  TRY(dims_swa, optional_u32(file, "rope.dimension_count_swa", config.head_dim_swa));
  if (dims != config.head_dim_full || dims_swa != config.head_dim_swa) {
    return error(ErrorCode::kUnsupported,
                 "{}: rope.dimension_count {} and {} expected (the head sizes), found {} and {}",
                 file.path(), config.head_dim_full, config.head_dim_swa, dims, dims_swa);
  }
  config.rope_theta = theta;
  config.rope_theta_swa = theta_swa;
  config.n_rot_pairs = config.head_dim_full / 2;
  return Ok{};
}

bool all_equal(const std::vector<int32_t>& values) {
  return std::ranges::all_of(values, [&](int32_t v) { return v == values.front(); });
}

void set_per_layer(GgufMetadata& metadata, std::string_view name,
                   const std::vector<int32_t>& values) {
  if (all_equal(values)) {
    metadata.set_u32(key(name), static_cast<uint32_t>(values.front()));
  } else {
    metadata.set_integers(key(name), values);
  }
}

struct Validator {
  const ConfigKeys& keys;
  const std::string& where;

  template <class Found>
  Error bad(std::string_view key, std::string_view expected, Found found) const {
    return error(ErrorCode::kCorrupt, "{}: {}: {} expected, found {}", where, key, expected, found);
  }
  template <class Found>
  Error bad_in_layer(uint32_t i, std::string_view key, std::string_view expected,
                     Found found) const {
    return bad(fmt::format("{}, layer {}", key, i), expected, found);
  }
  Status within(std::string_view key, uint32_t low, uint32_t high, uint32_t found) const {
    if (found >= low && found <= high) return Ok{};
    return bad(key, fmt::format("{} to {}", low, high), found);
  }
  Status positive(std::string_view key, float found) const {
    if (found > 0 && std::isfinite(found)) return Ok{};
    return bad(key, "a positive number", found);
  }

  Status sizes(const Config& config) const {
    TRY_OK(within(keys.n_layers, 1, kMaxLayers, config.n_layers));
    TRY_OK(within(keys.hidden_dim, 1, kMaxSize, config.hidden_dim));
    TRY_OK(within(keys.vocab_size, 1, kMaxSize, config.vocab_size));
    TRY_OK(within(keys.n_heads, 1, kMaxSize, config.n_heads));
    TRY_OK(within(keys.n_ctx, 1, kMaxSize, config.n_ctx_train));
    return within(keys.ple_dim, 0, kMaxDim, config.ple_dim);
  }

  Status experts(const Config& config) const {
    TRY_OK(within(keys.n_experts, 0, kMaxExperts, config.n_experts));
    if (config.n_experts == 0) return Ok{};
    TRY_OK(within(keys.n_experts_used, 1, config.n_experts, config.n_experts_used));
    return within(keys.expert_ffn_dim, 1, kMaxDim, config.expert_ffn_dim);
  }

  Status numbers(const Config& config) const {
    TRY_OK(positive(keys.norm_eps, config.norm_eps));
    TRY_OK(positive(keys.rope_theta, config.rope_theta));
    TRY_OK(positive(keys.rope_theta_swa, config.rope_theta_swa));
    TRY_OK(positive(keys.rope_factor, config.rope_factor));
    if (config.logit_softcap >= 0 && std::isfinite(config.logit_softcap)) return Ok{};
    return bad(keys.logit_softcap, "0 or a positive number", config.logit_softcap);
  }

  Status layer(const Config& config, uint32_t i) const {
    const LayerConfig& layer = config.layers[i];
    if (layer.head_dim == 0 || layer.head_dim > kMaxHeadDim || layer.head_dim % kHeadDimStep != 0) {
      return bad_in_layer(i, layer.sliding ? keys.head_dim_swa : keys.head_dim_full,
                          fmt::format("a multiple of {} up to {}", kHeadDimStep, kMaxHeadDim),
                          layer.head_dim);
    }
    if (layer.n_kv_heads == 0 || config.n_heads % layer.n_kv_heads != 0) {
      return bad_in_layer(i, keys.n_kv_heads, fmt::format("a divisor of {}", config.n_heads),
                          layer.n_kv_heads);
    }
    if (layer.ffn_dim == 0 || layer.ffn_dim > kMaxDim) {
      return bad_in_layer(i, keys.ffn_dim, "1 to 2^24", layer.ffn_dim);
    }
    if (layer.sliding) TRY_OK(within(keys.sliding_window, 1, UINT32_MAX, config.sliding_window));
    const LayerConfig& donor = config.layers[layer.kv_layer];
    if (donor.n_kv_heads == layer.n_kv_heads) return Ok{};
    return bad_in_layer(
        i, keys.n_kv_heads,
        fmt::format("{} as in layer {}, whose cache it reads", donor.n_kv_heads, layer.kv_layer),
        layer.n_kv_heads);
  }
};

// Without a tokenizer, the rows of the embedding.
Result<uint32_t> read_vocab_size(const GgufFile& file) {
  if (file.find(kGgufKeys.vocab_size) != nullptr) {
    TRY(tokens, file.get_strings(kGgufKeys.vocab_size));
    return static_cast<uint32_t>(tokens.size());
  }
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims[1] > kMaxSize) {
    return error(ErrorCode::kNotFound,
                 "{}: {}: an array expected, found none (nor token_embd.weight with rows for them)",
                 file.path(), kGgufKeys.vocab_size);
  }
  return static_cast<uint32_t>(embedding->dims[1]);
}

}  // namespace

uint64_t Config::kv_elements_per_token(bool sliding) const {
  uint64_t elements = 0;
  for (uint32_t i = 0; i < n_layers; ++i) {
    const LayerConfig& layer = layers[i];
    if (layer.sliding == sliding && owns_kv(i)) {
      elements += 2 * uint64_t{layer.n_kv_heads} * layer.head_dim;
    }
  }
  return elements;
}

Status set_kv_layers(Config& config, const ConfigKeys& keys, const std::string& where) {
  if (config.n_shared_kv_layers >= config.n_layers) {
    return error(ErrorCode::kCorrupt, "{}: {}: fewer than {} layers expected, found {}", where,
                 keys.n_shared_kv_layers, config.n_layers, config.n_shared_kv_layers);
  }
  const uint32_t n_owners = config.n_layers - config.n_shared_kv_layers;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    config.layers[i].kv_layer = i;
    if (i < n_owners) continue;
    uint32_t donor = n_owners;
    while (donor > 0 && config.layers[donor - 1].sliding != config.layers[i].sliding) --donor;
    if (donor == 0) {
      return error(ErrorCode::kCorrupt,
                   "{}: {}: layer {} shares the KV cache of a {} layer below {}, and there is none",
                   where, keys.n_shared_kv_layers, i, config.layers[i].sliding ? "sliding" : "full",
                   n_owners);
    }
    config.layers[i].kv_layer = donor - 1;
  }
  return Ok{};
}

Status validate(const Config& config, const ConfigKeys& keys, const std::string& where) {
  const Validator check{keys, where};
  TRY_OK(check.sizes(config));
  TRY_OK(check.experts(config));
  TRY_OK(check.numbers(config));
  for (uint32_t i = 0; i < config.n_layers; ++i) TRY_OK(check.layer(config, i));
  return Ok{};
}

Result<Config> read_config(const GgufFile& file) {
  TRY(architecture, file.get_string("general.architecture"));
  if (architecture != "gemma4") {
    return error(ErrorCode::kUnsupported, "{}: general.architecture: \"gemma4\" expected, found {}",
                 file.path(), quote(architecture));
  }
  Config config;
  TRY(n_layers, file.get_u32(key("block_count")));
  if (n_layers == 0 || n_layers > kMaxLayers) {
    return error(ErrorCode::kCorrupt, "{}: gemma4.block_count: 1 to 512 expected, found {}",
                 file.path(), n_layers);
  }
  config.n_layers = n_layers;
  TRY(n_ctx, file.get_u32(key("context_length")));
  TRY(hidden_dim, file.get_u32(key("embedding_length")));
  TRY(n_heads, read_n_heads(file, n_layers));
  TRY(window, file.get_u32(key("attention.sliding_window")));
  TRY(n_shared, optional_u32(file, "attention.shared_kv_layers", 0));
  TRY(ple_dim, file.get_u32(key("embedding_length_per_layer_input")));
  TRY(eps, file.get_f32(key("attention.layer_norm_rms_epsilon")));
  TRY(softcap, optional_f32(file, "final_logit_softcapping", 0.0F));
  TRY(head_dim, file.get_u32(key("attention.key_length")));
  TRY(head_dim_swa, file.get_u32(key("attention.key_length_swa")));
  TRY_OK(check_value_length(file, "attention.value_length", head_dim));
  TRY_OK(check_value_length(file, "attention.value_length_swa", head_dim_swa));
  TRY(vocab_size, read_vocab_size(file));
  config.n_ctx_train = n_ctx;
  config.hidden_dim = hidden_dim;
  config.n_heads = n_heads;
  config.sliding_window = window;
  config.n_shared_kv_layers = n_shared;
  config.ple_dim = ple_dim;
  config.norm_eps = eps;
  config.logit_softcap = softcap;
  config.head_dim_full = head_dim;
  config.head_dim_swa = head_dim_swa;
  config.vocab_size = vocab_size;
  // Files from other converters do not say it: models with per-layer inputs were trained causal.
  config.image_blocks = ple_dim == 0;
  if (file.find("hf2q.image_blocks") != nullptr) {
    TRY(image_blocks, file.get_bool("hf2q.image_blocks"));
    config.image_blocks = image_blocks;
  }
  TRY_OK(read_experts(file, config));
  TRY_OK(read_rope(file, config));
  TRY_OK(read_layers(file, config));
  TRY_OK(validate(config, kGgufKeys, file.path()));
  return config;
}

void write_config(const Config& config, GgufMetadata& metadata) {
  std::vector<int32_t> ffn_dims;
  std::vector<int32_t> kv_heads;
  std::vector<bool> sliding;
  for (const LayerConfig& layer : config.layers) {
    ffn_dims.push_back(static_cast<int32_t>(layer.ffn_dim));
    kv_heads.push_back(static_cast<int32_t>(layer.n_kv_heads));
    sliding.push_back(layer.sliding);
  }
  metadata.set_u32(key("block_count"), config.n_layers);
  metadata.set_u32(key("context_length"), config.n_ctx_train);
  metadata.set_u32(key("embedding_length"), config.hidden_dim);
  set_per_layer(metadata, "feed_forward_length", ffn_dims);
  metadata.set_u32(key("attention.head_count"), config.n_heads);
  set_per_layer(metadata, "attention.head_count_kv", kv_heads);
  metadata.set_f32(key("rope.freq_base"), config.rope_theta);
  metadata.set_f32(key("rope.freq_base_swa"), config.rope_theta_swa);
  metadata.set_f32(key("attention.layer_norm_rms_epsilon"), config.norm_eps);
  if (config.n_experts > 0) {
    metadata.set_u32(key("expert_count"), config.n_experts);
    metadata.set_u32(key("expert_used_count"), config.n_experts_used);
  }
  metadata.set_u32(key("attention.key_length"), config.head_dim_full);
  metadata.set_u32(key("attention.value_length"), config.head_dim_full);
  if (config.logit_softcap > 0)
    metadata.set_f32(key("final_logit_softcapping"), config.logit_softcap);
  metadata.set_u32(key("attention.sliding_window"), config.sliding_window);
  metadata.set_u32(key("attention.shared_kv_layers"), config.n_shared_kv_layers);
  metadata.set_u32(key("embedding_length_per_layer_input"), config.ple_dim);
  metadata.set_bools(key("attention.sliding_window_pattern"), sliding);
  metadata.set_u32(key("attention.key_length_swa"), config.head_dim_swa);
  metadata.set_u32(key("attention.value_length_swa"), config.head_dim_swa);
  if (config.n_experts > 0) {
    metadata.set_u32(key("expert_feed_forward_length"), config.expert_ffn_dim);
  }
  metadata.set_u32(key("rope.dimension_count"), config.head_dim_full);
  metadata.set_u32(key("rope.dimension_count_swa"), config.head_dim_swa);
  metadata.set_bool("hf2q.image_blocks", config.image_blocks);
}

}  // namespace hf2q
