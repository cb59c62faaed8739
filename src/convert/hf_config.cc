#include "convert/hf_config.h"

#include <algorithm>
#include <array>

#include "base/json_tree.h"
#include "base/quote.h"

namespace hf2q {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kArchitectures = {
    "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForCausalLM",
    "Gemma4UnifiedForConditionalGeneration"};

constexpr ConfigKeys kHfKeys = {
    .n_layers = "num_hidden_layers",
    .hidden_dim = "hidden_size",
    .n_heads = "num_attention_heads",
    .n_kv_heads = "num_key_value_heads",
    .vocab_size = "vocab_size",
    .n_ctx = "max_position_embeddings",
    .sliding_window = "sliding_window",
    .n_shared_kv_layers = "num_kv_shared_layers",
    .head_dim_full = "global_head_dim",
    .head_dim_swa = "head_dim",
    .ffn_dim = "intermediate_size",
    .n_experts = "num_experts",
    .n_experts_used = "top_k_experts",
    .expert_ffn_dim = "moe_intermediate_size",
    .ple_dim = "hidden_size_per_layer_input",
    .norm_eps = "rms_norm_eps",
    .rope_theta = "rope_parameters.full_attention.rope_theta",
    .rope_theta_swa = "rope_parameters.sliding_attention.rope_theta",
    .rope_factor = "rope_parameters.full_attention.factor",
    .logit_softcap = "final_logit_softcapping",
};

// Reads the members of one object. The first wrong one is remembered, so that a list of reads needs
// one check at its end. A null counts as absent.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }
  const json& at(const char* key) const { return object_[key]; }

  uint32_t number(const char* key, std::optional<uint32_t> otherwise = std::nullopt) {
    if (!has(key)) {
      if (!otherwise) fail(key, "a number expected, found nothing");
      return otherwise.value_or(0);
    }
    const json& value = object_[key];
    if (!value.is_number_integer() || value < 0 || value > (1 << 30)) {
      fail(key, fmt::format("a number from 0 to 2^30 expected, found {}", describe(value)));
      return 0;
    }
    return value.get<uint32_t>();
  }

  float real(const char* key, float otherwise) {
    if (!has(key)) return otherwise;
    if (!object_[key].is_number()) {
      fail(key, fmt::format("a number expected, found {}", describe(object_[key])));
      return otherwise;
    }
    return object_[key].get<float>();
  }

  bool flag(const char* key, bool otherwise) {
    if (!has(key)) return otherwise;
    if (!object_[key].is_boolean()) {
      fail(key, fmt::format("true or false expected, found {}", describe(object_[key])));
      return otherwise;
    }
    return object_[key].get<bool>();
  }

  std::string text(const char* key, std::string otherwise) {
    if (!has(key)) return otherwise;
    if (!object_[key].is_string()) {
      fail(key, fmt::format("a string expected, found {}", describe(object_[key])));
      return otherwise;
    }
    return object_[key].get<std::string>();
  }

  // One id or a list of them.
  std::vector<int32_t> ids(const char* key) {
    if (!has(key)) return {};
    const json& value = object_[key];
    const json list = value.is_array() ? value : json::array({value});
    std::vector<int32_t> result;
    for (const json& id : list) {
      if (!id.is_number_integer() || id < 0 || id > (1 << 30)) {
        fail(key, fmt::format("token ids expected, found {}", describe(id)));
        return {};
      }
      result.push_back(id.get<int32_t>());
    }
    return result;
  }

  void fail(const char* key, const std::string& what) {
    if (!failure_) failure_ = error(ErrorCode::kCorrupt, "{}: {}: {}", where_, key, what);
  }
  Status status() const {
    if (failure_) return *failure_;
    return Ok{};
  }

 private:
  const json& object_;
  std::string where_;
  std::optional<Error> failure_;
};

// Sliding or full, for each layer: layer_types, or full at every sixth and at the last.
Status read_layer_types(const Reader& text, Config& config, const std::string& where) {
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    config.layers[i].sliding = (i + 1) % 6 != 0 && i + 1 != config.n_layers;
  }
  if (!text.has("layer_types")) return Ok{};
  const json& types = text.at("layer_types");
  if (!types.is_array() || types.size() != config.n_layers) {
    return error(ErrorCode::kCorrupt, "{}: layer_types: one entry for each of {} layers expected",
                 where, config.n_layers);
  }
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention") {
      return error(
          ErrorCode::kUnsupported,
          "{}: layer_types[{}]: \"sliding_attention\" or \"full_attention\" expected, found {}",
          where, i, describe(types[i]));
    }
    config.layers[i].sliding = types[i] == "sliding_attention";
  }
  return Ok{};
}

// Newer checkpoints say head_dim and num_key_value_heads of single layers in an object whose keys
// are layer numbers ("5" or "05").
Status read_per_layer_config(const Reader& text, Config& config, const std::string& where) {
  if (!text.has("per_layer_config")) return Ok{};
  const json& entries = text.at("per_layer_config");
  if (!entries.is_object()) {
    return error(ErrorCode::kCorrupt, "{}: per_layer_config: an object expected", where);
  }
  for (const auto& [name, entry] : entries.items()) {
    const bool digits = !name.empty() && name.size() <= 4 &&
                        name.find_first_not_of("0123456789") == std::string::npos;
    const auto layer = digits ? static_cast<uint32_t>(std::stoul(name)) : config.n_layers;
    if (layer >= config.n_layers || !entry.is_object()) {
      return error(ErrorCode::kCorrupt,
                   "{}: per_layer_config: objects named by layers below {} expected, found {}",
                   where, config.n_layers, quote(name));
    }
    Reader values(entry, fmt::format("{}: per_layer_config.{}", where, name));
    LayerConfig& target = config.layers[layer];
    target.head_dim = values.number("head_dim", target.head_dim);
    target.n_kv_heads = values.number("num_key_value_heads", target.n_kv_heads);
    TRY_OK(values.status());
  }
  return Ok{};
}

// A GGUF file has one head size for each of the two layer types.
Status settle_head_dims(Config& config, const std::string& where) {
  for (const LayerConfig& layer : config.layers) {
    (layer.sliding ? config.head_dim_swa : config.head_dim_full) = layer.head_dim;
  }
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const LayerConfig& layer = config.layers[i];
    const uint32_t expected = layer.sliding ? config.head_dim_swa : config.head_dim_full;
    if (layer.head_dim != expected) {
      return error(
          ErrorCode::kUnsupported,
          "{}: layer {}: head size {} expected as in the other layers of its type, found {}", where,
          i, expected, layer.head_dim);
    }
  }
  return Ok{};
}

Status read_layers(Reader& text, Config& config, const std::string& where) {
  config.layers.resize(config.n_layers);
  TRY_OK(read_layer_types(text, config, where));
  const uint32_t kv_heads = text.number("num_key_value_heads", 4);
  const uint32_t global_kv_heads = text.number("num_global_key_value_heads", kv_heads);
  const uint32_t ffn_dim = text.number("intermediate_size");
  const bool double_wide = text.flag("use_double_wide_mlp", false);
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    LayerConfig& layer = config.layers[i];
    const bool shared = i + config.n_shared_kv_layers >= config.n_layers;
    layer.head_dim = layer.sliding ? config.head_dim_swa : config.head_dim_full;
    layer.n_kv_heads = !layer.sliding && config.k_eq_v ? global_kv_heads : kv_heads;
    layer.ffn_dim = double_wide && shared ? 2 * ffn_dim : ffn_dim;
  }
  TRY_OK(text.status());
  TRY_OK(read_per_layer_config(text, config, where));
  TRY_OK(settle_head_dims(config, where));
  return set_kv_layers(config, kHfKeys, where);
}

// One entry of rope_parameters, which the reference implementation has by layer type; empty when it
// is absent, so that defaults apply.
Result<json> rope_entry(const json& entries, const char* key, const std::string& where) {
  const json entry = entries.value(key, json::object());
  if (entry.is_object()) return entry;
  return error(ErrorCode::kCorrupt, "{}: rope_parameters.{}: an object expected, found {}", where,
               key, describe(entry));
}

// The object rope_parameters, empty when it is absent. Spellings of other models, whose bases would
// be lost, are refused.
Result<json> rope_entries(const Reader& text, const std::string& where) {
  constexpr std::string_view kExpected =
      "rope_parameters with objects full_attention and sliding_attention";
  if (!text.has("rope_parameters")) {
    for (const char* old : {"rope_theta", "rope_local_base_freq"}) {
      if (!text.has(old)) continue;
      return error(ErrorCode::kUnsupported, "{}: {} expected, found {} alone", where, kExpected,
                   old);
    }
    return json::object();
  }
  const json& entries = text.at("rope_parameters");
  if (!entries.is_object()) {
    return error(ErrorCode::kCorrupt, "{}: {} expected, found {}", where, kExpected,
                 describe(entries));
  }
  for (const auto& [key, entry] : entries.items()) {
    if (key == "full_attention" || key == "sliding_attention") continue;
    return error(ErrorCode::kUnsupported, "{}: {} expected, found {} in it", where, kExpected,
                 quote(key));
  }
  return entries;
}

Status read_rope(const Reader& text, Config& config, const std::string& where) {
  TRY(entries, rope_entries(text, where));
  TRY(full, rope_entry(entries, "full_attention", where));
  TRY(sliding, rope_entry(entries, "sliding_attention", where));
  Reader f(full, where + ": rope_parameters.full_attention");
  Reader s(sliding, where + ": rope_parameters.sliding_attention");
  const std::string full_type = f.text("rope_type", "proportional");
  const std::string sliding_type = s.text("rope_type", "default");
  const bool proportional = full_type == "proportional";
  const float rotated = f.real("partial_rotary_factor", proportional ? 0.25F : 1.0F);
  config.rope_theta = f.real("rope_theta", 1e6F);
  config.rope_factor = f.real("factor", 1.0F);
  config.rope_theta_swa = s.real("rope_theta", 1e4F);
  TRY_OK(f.status());
  TRY_OK(s.status());
  const bool known = (proportional || full_type == "default") && sliding_type == "default";
  if (!known || !(rotated > 0.0F && rotated <= 1.0F)) {
    return error(ErrorCode::kUnsupported,
                 "{}: rope_parameters: \"proportional\" with a factor in (0, 1] (full layers) and "
                 "\"default\" (sliding layers) expected, found {} with {} and {}",
                 where, quote(full_type), rotated, quote(sliding_type));
  }
  config.n_rot_pairs =
      static_cast<uint32_t>(rotated * static_cast<float>(config.head_dim_full) / 2);
  return Ok{};
}

void read_experts(Reader& text, Config& config) {
  if (!text.flag("enable_moe_block", false)) return;
  config.n_experts = text.number("num_experts");
  config.n_experts_used = text.number("top_k_experts");
  const bool alias = !text.has("moe_intermediate_size") && text.has("expert_intermediate_size");
  config.expert_ffn_dim = text.number(alias ? "expert_intermediate_size" : "moe_intermediate_size");
}

// What would change the meaning of the weights.
Status check_null(const Reader& object, const char* key, const std::string& where) {
  if (!object.has(key)) return Ok{};
  return error(ErrorCode::kUnsupported, "{}: {}: null expected, found {}", where, key,
               describe(object.at(key)));
}

// Settings that every released model shares and that the forward pass takes for granted.
Status check_fixed(Reader& text, const std::string& where) {
  const std::string activation = text.text("hidden_activation", "gelu_pytorch_tanh");
  const bool bias = text.flag("attention_bias", false);
  const std::string bidirectional = text.text("use_bidirectional_attention", "");
  TRY_OK(text.status());
  if (activation != "gelu_pytorch_tanh") {
    return error(ErrorCode::kUnsupported,
                 "{}: hidden_activation: \"gelu_pytorch_tanh\" expected, found {}", where,
                 quote(activation));
  }
  if (bias) {
    return error(ErrorCode::kUnsupported, "{}: attention_bias: false expected, found true", where);
  }
  if (bidirectional != "" && bidirectional != "vision") {
    return error(ErrorCode::kUnsupported,
                 "{}: use_bidirectional_attention: \"vision\" or null expected, found {}", where,
                 quote(bidirectional));
  }
  TRY_OK(check_null(text, "rope_scaling", where));
  return check_null(text, "quantization_config", where);
}

// `tied_outside`: what the wrapper says of the head, for a text_config that does not.
Status read_text_config(Reader& text, bool unified, bool tied_outside, Config& config,
                        const std::string& where) {
  config.n_layers = text.number("num_hidden_layers");
  config.hidden_dim = text.number("hidden_size");
  config.n_heads = text.number("num_attention_heads");
  config.vocab_size = text.number("vocab_size", 262144);
  config.n_ctx_train = text.number("max_position_embeddings", unified ? 262144 : 131072);
  config.sliding_window = text.number("sliding_window");
  config.n_shared_kv_layers = text.number("num_kv_shared_layers", 0);
  config.ple_dim = text.number("hidden_size_per_layer_input", unified ? 0 : 256);
  config.norm_eps = text.real("rms_norm_eps", 1e-6F);
  config.logit_softcap = text.real("final_logit_softcapping", 0.0F);
  config.head_dim_swa = text.number("head_dim", 256);
  config.head_dim_full = text.number("global_head_dim", 512);
  if (config.head_dim_full == 0) config.head_dim_full = config.head_dim_swa;
  config.k_eq_v = text.flag("attention_k_eq_v", false);
  config.tied = text.flag("tie_word_embeddings", tied_outside);
  config.image_blocks =
      text.text("use_bidirectional_attention", unified ? "vision" : "") == "vision";
  read_experts(text, config);
  TRY_OK(text.status());
  TRY_OK(check_fixed(text, where));
  if (config.n_layers == 0 || config.n_layers > 512) {
    return error(ErrorCode::kCorrupt, "{}: num_hidden_layers: 1 to 512 expected, found {}", where,
                 config.n_layers);
  }
  TRY_OK(read_layers(text, config, where));
  TRY_OK(read_rope(text, config, where));
  return validate(config, kHfKeys, where);
}

std::string first_architecture(const json& root) {
  if (!root.contains("architectures")) return "";
  const json& list = root["architectures"];
  if (!list.is_array() || list.empty() || !list[0].is_string()) return "";
  return list[0].get<std::string>();
}

}  // namespace

Result<HfConfig> parse_hf_config(std::string_view text, const std::string& where) {
  TRY(root, parse_json_object(text, where));
  HfConfig result;
  result.architecture = first_architecture(root);
  if (std::ranges::find(kArchitectures, result.architecture) == kArchitectures.end()) {
    return error(ErrorCode::kUnsupported,
                 "{}: architectures: Gemma4ForCausalLM or Gemma4ForConditionalGeneration expected, "
                 "found {}",
                 where, quote(result.architecture));
  }
  const bool nested = root.contains("text_config");
  if (nested && !root["text_config"].is_object()) {
    return error(ErrorCode::kCorrupt, "{}: text_config: an object expected", where);
  }
  const bool unified = result.architecture.find("Unified") != std::string::npos;
  Reader outer(root, where);
  Reader inner(nested ? root["text_config"] : root, nested ? where + ": text_config" : where);
  TRY_OK(check_null(outer, "quantization_config", where));
  const bool tied_outside = outer.flag("tie_word_embeddings", true);
  TRY_OK(outer.status());
  TRY_OK(read_text_config(inner, unified, tied_outside, result.config, where));
  result.name = outer.text("_name_or_path", "");
  result.eos_token_ids = outer.ids("eos_token_id");
  if (result.eos_token_ids.empty()) result.eos_token_ids = inner.ids("eos_token_id");
  TRY_OK(outer.status());
  TRY_OK(inner.status());
  return result;
}

Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& where) {
  TRY(root, parse_json_object(text, where));
  Reader reader(root, where);
  GenerationConfig result;
  result.eos_token_ids = reader.ids("eos_token_id");
  result.suppress_tokens = reader.ids("suppress_tokens");
  if (reader.has("temperature")) result.temperature = reader.real("temperature", 1.0F);
  if (reader.has("top_k")) result.top_k = static_cast<int32_t>(reader.number("top_k"));
  if (reader.has("top_p")) result.top_p = reader.real("top_p", 1.0F);
  TRY_OK(reader.status());
  return result;
}

}  // namespace hf2q
