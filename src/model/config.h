#pragma once
// What a Gemma 4 text decoder looks like: sizes, layer types, which layers own a KV cache.
// Read from and written to GGUF metadata here; read from config.json in convert/hf_config.h.
// Source: the `gemma4.*` keys of the GGUF format and the text_config keys of the checkpoints.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"

namespace hf2q {

struct LayerConfig {
  bool sliding = false;     // attends to the last `sliding_window` positions, else to all
  uint32_t n_kv_heads = 0;  // divides n_heads
  uint32_t head_dim = 0;    // of Q, K and V; a multiple of kHeadDimStep up to kMaxHeadDim
  uint32_t ffn_dim = 0;
  // The layer whose K and V this one reads: itself, or for the last layers of a model with shared
  // KV the last layer of the same type that owns some.
  uint32_t kv_layer = 0;
};

struct Config {
  uint32_t n_layers = 0;
  uint32_t hidden_dim = 0;
  uint32_t n_heads = 0;
  uint32_t vocab_size = 0;  // rows of the embedding; in a GGUF file the number of tokens
  uint32_t n_ctx_train = 0;
  uint32_t sliding_window = 0;  // counts the query itself
  uint32_t n_shared_kv_layers = 0;
  std::vector<LayerConfig> layers;

  uint32_t n_experts = 0;  // 0: dense
  uint32_t n_experts_used = 0;
  uint32_t expert_ffn_dim = 0;

  uint32_t ple_dim = 0;  // width of a per-layer input, 0: none

  float norm_eps = 1e-6F;
  float rope_theta = 1e6F;  // full layers
  float rope_theta_swa = 1e4F;
  uint32_t head_dim_full = 0;  // also where no layer is full: the length of the file's rope factors
  uint32_t head_dim_swa = 0;
  uint32_t n_rot_pairs = 0;    // pairs of a full layer's head that rotate; the others pass through
  float rope_factor = 1.0F;    // divides the frequencies of full layers
  float logit_softcap = 0.0F;  // 0: none
  bool image_blocks = false;   // image rows see each other in both directions on sliding layers
  bool k_eq_v = false;         // full layers take V from the K projection (checkpoints only)
  bool tied = true;            // the output head is the embedding (checkpoints only)

  bool owns_kv(uint32_t layer) const { return layers[layer].kv_layer == layer; }
  // Elements of K and V together that one token leaves in the cache, in layers of the given type.
  uint64_t kv_elements_per_token(bool sliding) const;
};

// What a source calls the fields of Config, for messages.
struct ConfigKeys {
  std::string_view n_layers;
  std::string_view hidden_dim;
  std::string_view n_heads;
  std::string_view n_kv_heads;
  std::string_view vocab_size;
  std::string_view n_ctx;
  std::string_view sliding_window;
  std::string_view n_shared_kv_layers;
  std::string_view head_dim_full;
  std::string_view head_dim_swa;
  std::string_view ffn_dim;
  std::string_view n_experts;
  std::string_view n_experts_used;
  std::string_view expert_ffn_dim;
  std::string_view ple_dim;
  std::string_view norm_eps;
  std::string_view rope_theta;
  std::string_view rope_theta_swa;
  std::string_view rope_factor;
  std::string_view logit_softcap;
};

// Checks of one configuration, whatever it was read from: sizes within bounds, head counts that
// divide, head sizes that attention reads, experts used <= experts, KV donors of the right shape,
// finite numbers. The message begins with `where` and the key: "FILE: KEY: 1 to 512 expected, found
// 0".
Status validate(const Config& config, const ConfigKeys& keys, const std::string& where);

// From the metadata of a `gemma4` file. The vocabulary size is the number of tokens, in a file
// without a tokenizer the number of rows of token_embd.weight; n_rot_pairs comes with the tensor
// rope_freqs.weight and is left at the head's half here.
Result<Config> read_config(const GgufFile& file);

// Sets every `gemma4.*` key but general.file_type (which converters put between them).
void write_config(const Config& config, GgufMetadata& metadata);

// Donor of each layer: itself, or for the last `n_shared` ones the last owner of the same type.
// Fails when there is none.
Status set_kv_layers(Config& config, const ConfigKeys& keys, const std::string& where);

}  // namespace hf2q
