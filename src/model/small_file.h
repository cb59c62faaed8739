#pragma once
// A model file made by hand, for tests of configurations that no checkpoint has.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "gguf/test_file.h"
#include "gguf/writer.h"
#include "model/config.h"

namespace hf2q::test {

// Dense layers of 16 query heads of 16 values on 32 channels; a vocabulary of 64. Layer i slides
// where i is even.
inline Config small_config(const std::vector<uint32_t>& kv_heads) {
  Config config;
  config.n_layers = static_cast<uint32_t>(kv_heads.size());
  config.hidden_dim = 32;
  config.n_heads = 16;
  config.vocab_size = 64;
  config.n_ctx_train = 128;
  config.sliding_window = 4;
  config.head_dim_full = 16;
  config.head_dim_swa = 16;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    config.layers.push_back({i % 2 == 0, kv_heads[i], 16, 32, i});
  }
  return config;
}

// A GGUF file without a tokenizer that can encode: metadata as write_config has it, changed by
// `change`, and F32 tensors of small values; rope_freqs.weight is what is given, or ones.
inline std::vector<std::byte> small_file(const Config& config,
                                         const std::function<void(GgufMetadata&)>& change = {},
                                         std::vector<float> rope_factors = {}) {
  GgufMetadata metadata;
  metadata.set_string("general.architecture", "gemma4");
  write_config(config, metadata);
  const std::vector<std::string_view> tokens(config.vocab_size, "x");
  metadata.set_strings("tokenizer.ggml.tokens", tokens);
  if (change) change(metadata);
  TestFile file;
  for (const GgufMetadata::Entry& entry : metadata.entries()) {
    file.key(entry.key, static_cast<uint32_t>(entry.type), Bytes().raw(entry.bytes));
  }
  const auto add = [&](const std::string& name, std::initializer_list<uint64_t> dims) {
    file.tensor(name, dims, kTypeF32, file.data.data.size());
    uint64_t n = 1;
    for (const uint64_t dim : dims) n *= dim;
    for (uint64_t i = 0; i < n; ++i) {
      file.data.scalar(static_cast<float>((i * 7919 + n) % 1009) / 5000 - 0.1F);
    }
    file.data.pad(file.alignment);
  };
  const uint64_t hidden = config.hidden_dim;
  add("token_embd.weight", {hidden, config.vocab_size});
  add("output_norm.weight", {hidden});
  rope_factors.resize(config.head_dim_full / 2, 1.0F);
  file.tensor("rope_freqs.weight", {rope_factors.size()}, kTypeF32, file.data.data.size());
  file.data.raw(std::as_bytes(std::span(rope_factors))).pad(file.alignment);
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const LayerConfig& layer = config.layers[i];
    const std::string blk = "blk." + std::to_string(i) + ".";
    const uint64_t q_dim = uint64_t{config.n_heads} * layer.head_dim;
    const uint64_t kv_dim = uint64_t{layer.n_kv_heads} * layer.head_dim;
    for (const char* norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"}) {
      add(blk + norm + ".weight", {hidden});
    }
    add(blk + "attn_q_norm.weight", {layer.head_dim});
    add(blk + "attn_k_norm.weight", {layer.head_dim});
    add(blk + "attn_q.weight", {hidden, q_dim});
    add(blk + "attn_k.weight", {hidden, kv_dim});
    add(blk + "attn_v.weight", {hidden, kv_dim});
    add(blk + "attn_output.weight", {q_dim, hidden});
    add(blk + "ffn_gate.weight", {hidden, layer.ffn_dim});
    add(blk + "ffn_up.weight", {hidden, layer.ffn_dim});
    add(blk + "ffn_down.weight", {layer.ffn_dim, hidden});
  }
  return file.bytes();
}

}  // namespace hf2q::test
