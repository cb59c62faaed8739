#include "convert/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::read_text;

Config parse(const std::string& text) {
  auto result = parse_hf_config(text, "config.json");
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? result.value().config : Config{};
}

// Expected values: the architecture table of the model cards.
TEST(HfConfig, DenseCausalLm) {
  const Config c = parse(read_text(HF2Q_MODELS "/tiny-gemma4/config.json"));
  EXPECT_EQ(c.n_layers, 6U);
  EXPECT_EQ(c.hidden_dim, 256U);
  EXPECT_EQ(c.n_heads, 4U);
  EXPECT_EQ(c.vocab_size, 8192U);
  EXPECT_EQ(c.n_ctx_train, 32768U);
  EXPECT_EQ(c.sliding_window, 256U);
  EXPECT_EQ(c.n_experts, 0U);
  EXPECT_EQ(c.ple_dim, 0U);
  EXPECT_EQ(c.logit_softcap, 30.0F);
  EXPECT_EQ(c.n_rot_pairs, 64U);
  EXPECT_TRUE(c.k_eq_v);
  EXPECT_TRUE(c.tied);
  EXPECT_FALSE(c.image_blocks);
  for (const uint32_t i : {0U, 1U, 3U, 4U}) {
    EXPECT_TRUE(c.layers[i].sliding);
    EXPECT_EQ(c.layers[i].n_kv_heads, 2U);
    EXPECT_EQ(c.layers[i].head_dim, 256U);
  }
  for (const uint32_t i : {2U, 5U}) {
    EXPECT_FALSE(c.layers[i].sliding);
    EXPECT_EQ(c.layers[i].n_kv_heads, 1U);
    EXPECT_EQ(c.layers[i].head_dim, 512U);
    EXPECT_EQ(c.layers[i].ffn_dim, 768U);
  }
}

TEST(HfConfig, WrapperWithExperts) {
  const Config c = parse(read_text(HF2Q_TEST_DATA "/micro-moe/config.json"));
  EXPECT_EQ(c.n_layers, 4U);
  EXPECT_EQ(c.hidden_dim, 128U);
  EXPECT_EQ(c.sliding_window, 16U);
  EXPECT_EQ(c.n_experts, 6U);
  EXPECT_EQ(c.n_experts_used, 2U);
  EXPECT_EQ(c.expert_ffn_dim, 96U);
  EXPECT_EQ(c.layers[0].ffn_dim, 160U);
  EXPECT_EQ(c.layers[0].head_dim, 64U);
  EXPECT_EQ(c.layers[3].head_dim, 512U);
  EXPECT_EQ(c.layers[3].n_kv_heads, 1U);
  EXPECT_TRUE(c.image_blocks);
}

TEST(HfConfig, PerLayerInputsAndSharedKv) {
  const Config c = parse(read_text(HF2Q_TEST_DATA "/micro-ple/config.json"));
  EXPECT_EQ(c.ple_dim, 32U);
  EXPECT_EQ(c.n_shared_kv_layers, 2U);
  EXPECT_FALSE(c.k_eq_v);
  // S S S F S F: layer 4 (sliding) reads layer 2, layer 5 (full) reads layer 3.
  EXPECT_EQ(c.layers[4].kv_layer, 2U);
  EXPECT_EQ(c.layers[5].kv_layer, 3U);
  EXPECT_TRUE(c.owns_kv(3));
  EXPECT_FALSE(c.owns_kv(4));
  EXPECT_EQ(c.layers[4].ffn_dim, 384U);
  // Per token: three sliding layers and one full layer own K and V of one head.
  EXPECT_EQ(c.kv_elements_per_token(true), 3U * 2 * 64);
  EXPECT_EQ(c.kv_elements_per_token(false), 2U * 512);
}

// The 26B-A4B sizes: published KV elements per token (10,240 full, 102,400 sliding).
nlohmann::json config_26b() {
  nlohmann::json types = nlohmann::json::array();
  for (int i = 0; i < 30; ++i)
    types.push_back((i + 1) % 6 == 0 ? "full_attention" : "sliding_attention");
  return {{"architectures", {"Gemma4ForConditionalGeneration"}},
          {"text_config",
           {{"vocab_size", 262144},
            {"hidden_size", 2816},
            {"intermediate_size", 2112},
            {"num_hidden_layers", 30},
            {"num_attention_heads", 16},
            {"num_key_value_heads", 8},
            {"num_global_key_value_heads", 2},
            {"head_dim", 256},
            {"global_head_dim", 512},
            {"attention_k_eq_v", true},
            {"sliding_window", 1024},
            {"layer_types", types},
            {"enable_moe_block", true},
            {"num_experts", 128},
            {"top_k_experts", 8},
            {"moe_intermediate_size", 704},
            {"hidden_size_per_layer_input", 0},
            {"use_bidirectional_attention", "vision"},
            {"final_logit_softcapping", 30.0},
            {"max_position_embeddings", 262144}}}};
}

TEST(HfConfig, PublishedLargeModel) {
  const Config c = parse(config_26b().dump());
  EXPECT_EQ(c.kv_elements_per_token(false), 10240U);
  EXPECT_EQ(c.kv_elements_per_token(true), 102400U);
  EXPECT_EQ(c.layers[29].n_kv_heads, 2U);
}

TEST(HfConfig, PerLayerConfigWins) {
  nlohmann::json flat = config_26b();
  nlohmann::json& text = flat["text_config"];
  text.erase("global_head_dim");
  text.erase("num_global_key_value_heads");
  for (const char* layer : {"05", "11", "17", "23", "29"}) {
    text["per_layer_config"][layer] = {{"head_dim", 512}, {"num_key_value_heads", 2}};
  }
  text["head_dim"] = 256;
  EXPECT_EQ(parse(flat.dump()).kv_elements_per_token(false), 10240U);
}

TEST(HfConfig, AbsentKeysTakeTheReferenceDefaults) {
  nlohmann::json root = config_26b();
  nlohmann::json& text = root["text_config"];
  for (const char* name : {"layer_types", "final_logit_softcapping", "use_bidirectional_attention",
                           "hidden_size_per_layer_input", "vocab_size"}) {
    text.erase(name);
  }
  const Config c = parse(root.dump());
  EXPECT_EQ(c.logit_softcap, 0.0F);
  EXPECT_EQ(c.ple_dim, 256U);
  EXPECT_EQ(c.vocab_size, 262144U);
  EXPECT_FALSE(c.image_blocks);
  EXPECT_FALSE(c.layers[5].sliding);
  EXPECT_TRUE(c.layers[4].sliding);
}

struct BadConfig {
  const char* name;
  const char* pointer;  // into config_26b()
  nlohmann::json value;
  const char* message;
};

void PrintTo(const BadConfig& bad, std::ostream* out) {
  *out << bad.name;
}

class BadHfConfig : public testing::TestWithParam<BadConfig> {};

TEST_P(BadHfConfig, NamesTheKeyAndTheValue) {
  nlohmann::json root = config_26b();
  root[nlohmann::json::json_pointer(GetParam().pointer)] = GetParam().value;
  auto result = parse_hf_config(root.dump(), "dir/config.json");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("dir/config.json"));
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

const BadConfig kBadConfigs[] = {
    {"architecture", "/architectures", {"LlamaForCausalLM"}, "found \"LlamaForCausalLM\""},
    {"no_architecture", "/architectures", nullptr, "architectures"},
    {"text_config", "/text_config", 3, "text_config: an object expected"},
    {"hidden_size_missing", "/text_config/hidden_size", nullptr, "hidden_size: a number expected"},
    {"hidden_size_text", "/text_config/hidden_size", "2816", "found \"2816\""},
    {"negative", "/text_config/sliding_window", -1, "sliding_window"},
    {"huge", "/text_config/num_hidden_layers", 1000000000000, "num_hidden_layers"},
    {"no_layers", "/text_config/num_hidden_layers", 0, "num_hidden_layers"},
    {"layer_types_length", "/text_config/layer_types", {"full_attention"}, "layer_types"},
    {"layer_type", "/text_config/layer_types/3", "linear_attention", "layer_types[3]"},
    {"kv_heads", "/text_config/num_key_value_heads", 3, "a divisor of 16"},
    {"odd_head", "/text_config/head_dim", 255,
     "head_dim, layer 0: a multiple of 16 up to 512 expected, found 255"},
    {"no_heads", "/text_config/num_attention_heads", 0,
     "num_attention_heads: 1 to 1073741824 expected, found 0"},
    {"no_context", "/text_config/max_position_embeddings", 0,
     "max_position_embeddings: 1 to 1073741824 expected, found 0"},
    {"no_width", "/text_config/hidden_size", 0, "hidden_size: 1 to 1073741824 expected, found 0"},
    {"no_ffn", "/text_config/intermediate_size", 0,
     "intermediate_size, layer 0: 1 to 2^24 expected, found 0"},
    {"no_expert_ffn", "/text_config/moe_intermediate_size", 0,
     "moe_intermediate_size: 1 to 16777216 expected, found 0"},
    {"no_eps", "/text_config/rms_norm_eps", 0.0,
     "rms_norm_eps: a positive number expected, found 0"},
    {"huge_eps", "/text_config/rms_norm_eps", 1e300,
     "rms_norm_eps: a positive number expected, found inf"},
    {"no_base",
     "/text_config/rope_parameters",
     {{"full_attention", {{"rope_theta", -1.0}}}},
     "rope_parameters.full_attention.rope_theta: a positive number expected, found -1"},
    {"experts_used", "/text_config/top_k_experts", 129, "1 to 128"},
    {"activation", "/text_config/hidden_activation", "silu", "silu"},
    {"bias", "/text_config/attention_bias", true, "attention_bias"},
    {"bidirectional", "/text_config/use_bidirectional_attention", "all", "found \"all\""},
    {"rope", "/text_config/rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}, "yarn"},
    {"rope_flat",
     "/text_config/rope_parameters",
     {{"rope_theta", 10000.0}, {"rope_type", "default"}},
     "rope_parameters with objects full_attention and sliding_attention expected, found "
     "\"rope_theta\" in it"},
    {"rope_number", "/text_config/rope_parameters", 3, "sliding_attention expected, found 3"},
    {"rope_list", "/text_config/rope_parameters", {1, 2}, "expected, found an array"},
    {"rope_entry",
     "/text_config/rope_parameters",
     {{"full_attention", nullptr}},
     "rope_parameters.full_attention: an object expected, found null"},
    {"rope_theta_alone", "/text_config/rope_theta", 10000.0,
     "rope_parameters with objects full_attention and sliding_attention expected, found rope_theta "
     "alone"},
    {"rope_scaling", "/text_config/rope_scaling", {{"rope_type", "yarn"}}, "rope_scaling: null"},
    {"quantized", "/quantization_config", {{"quant_method", "fp8"}}, "quantization_config: null"},
    {"shared", "/text_config/num_kv_shared_layers", 30,
     "num_kv_shared_layers: fewer than 30 layers expected, found 30"},
    {"donor", "/text_config/num_kv_shared_layers", 26, "and there is none"},
};
INSTANTIATE_TEST_SUITE_P(All, BadHfConfig, testing::ValuesIn(kBadConfigs),
                         [](const auto& info) { return std::string(info.param.name); });

// text_config wins over the wrapper, which says of the head what text_config does not.
TEST(HfConfig, TheHeadIsTiedAsEitherPlaceSays) {
  const auto tied = [](const nlohmann::json& outer, const nlohmann::json& inner) {
    nlohmann::json root = config_26b();
    if (!outer.is_null()) root["tie_word_embeddings"] = outer;
    if (!inner.is_null()) root["text_config"]["tie_word_embeddings"] = inner;
    return parse(root.dump()).tied;
  };
  EXPECT_TRUE(tied(nullptr, nullptr));
  EXPECT_FALSE(tied(false, nullptr));
  EXPECT_FALSE(tied(nullptr, false));
  EXPECT_TRUE(tied(false, true));
  EXPECT_FALSE(tied(true, false));
}

// Copies and messages of a tree go as deep as it does: the depth is bounded before there is one.
TEST(HfConfig, DeepNestingIsRefused) {
  const std::string deep(200000, '[');
  for (const char* name :
       {"num_hidden_layers", "eos_token_id", "_name_or_path", "quantization_config"}) {
    const std::string text =
        fmt::format("{{\"architectures\": [\"Gemma4ForCausalLM\"], \"{}\": {}{}}}", name, deep,
                    std::string(deep.size(), ']'));
    const auto result = parse_hf_config(text, "config.json");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().message,
              "config.json: arrays and objects nested at most 100 deep expected, found 200001");
    EXPECT_FALSE(parse_generation_config(text, "g").ok());
  }
}

TEST(HfConfig, RefusesWhatIsNoJsonObject) {
  for (const char* text : {"", "[]", "{", "3", "{\"architectures\": "}) {
    EXPECT_FALSE(parse_hf_config(text, "config.json").ok()) << text;
  }
}

TEST(GenerationConfig, StopIdsAndSamplingDefaults) {
  auto result =
      parse_generation_config(read_text(HF2Q_MODELS "/tiny-gemma4/generation_config.json"), "g");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value().eos_token_ids, (std::vector<int32_t>{1, 16, 9}));
  EXPECT_EQ(result.value().top_k, 64);
  EXPECT_EQ(result.value().top_p, 0.95F);
  EXPECT_EQ(result.value().temperature, 1.0F);
  EXPECT_FALSE(parse_generation_config("{\"top_k\": -1}", "g").ok());
  EXPECT_FALSE(parse_generation_config("{\"eos_token_id\": [1, \"2\"]}", "g").ok());
}

}  // namespace
}  // namespace hf2q
