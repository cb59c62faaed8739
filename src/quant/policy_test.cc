#include "quant/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace hf2q {
namespace {

using testing::HasSubstr;

PolicyOptions options_for(FileType file_type, uint32_t n_layers = 32) {
  PolicyOptions options;
  options.file_type = file_type;
  options.recipe = Recipe::kPlain;
  options.n_layers = n_layers;
  options.n_heads = 8;
  options.n_kv_heads = 4;
  return options;
}

PolicyTensor matrix(std::string_view name, uint64_t row = 256) {
  return {name, {row, 64, 1, 1}, TensorType::kBF16};
}

std::map<std::string, TensorType> types_of(std::span<const PolicyTensor> tensors,
                                           const PolicyOptions& options) {
  auto plan = plan_types(tensors, options);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  std::map<std::string, TensorType> types;
  if (!plan.ok()) return types;
  for (const TypeChoice& choice : plan.value()) {
    types.emplace(tensors[choice.index].name, choice.type);
  }
  return types;
}

TensorType type_of(const PolicyTensor& tensor, const PolicyOptions& options) {
  return types_of({&tensor, 1}, options).at(std::string(tensor.name));
}

// One matrix "blk.I.NAME" for each I in [0, n).
struct Stack {
  std::vector<std::string> names;
  std::vector<PolicyTensor> tensors;

  Stack(uint32_t n, std::string_view name, uint64_t row = 256) {
    for (uint32_t i = 0; i < n; ++i) names.push_back(fmt::format("blk.{}.{}", i, name));
    for (const std::string& full : names) tensors.push_back(matrix(full, row));
  }

  std::vector<int> layers_with(TensorType type, const PolicyOptions& options) const {
    const auto types = types_of(tensors, options);
    std::vector<int> layers;
    for (int i = 0; i < static_cast<int>(names.size()); ++i) {
      if (types.at(names[static_cast<size_t>(i)]) == type) layers.push_back(i);
    }
    return layers;
  }
};

TEST(Policy, OutputIsSortedByBlockThenName) {
  const PolicyTensor tensors[] = {
      matrix("blk.10.attn_q.weight"), matrix("blk.2.ffn_up.weight"), matrix("token_embd.weight"),
      matrix("blk.2.attn_q.weight"),  matrix("output_norm.weight"),  matrix("blk.x.odd.weight"),
  };
  auto plan = plan_types(tensors, options_for(FileType::kQ4_K_M));
  ASSERT_TRUE(plan.ok());
  std::vector<std::string_view> names;
  for (const TypeChoice& choice : plan.value()) names.push_back(tensors[choice.index].name);
  EXPECT_THAT(names, testing::ElementsAre("blk.x.odd.weight", "output_norm.weight",
                                          "token_embd.weight", "blk.2.attn_q.weight",
                                          "blk.2.ffn_up.weight", "blk.10.attn_q.weight"));
}

TEST(Policy, CopiesWhatIsNeverEncoded) {
  const PolicyOptions options = options_for(FileType::kQ4_K_M);
  for (const std::string_view name :
       {"blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight", "per_layer_model_proj.weight",
        "blk.0.ffn_down_exps.scale", "blk.0.attn_q.bias", "blk.0.altup_proj.weight",
        "blk.0.laurel_l.weight", "v.position_embd.weight", "v.patch_embd.weight"}) {
    EXPECT_EQ(type_of(matrix(name), options), TensorType::kBF16) << name;
  }
  const PolicyTensor vector = {"rope_freqs.weight", {256, 1, 1, 1}, TensorType::kF32};
  EXPECT_EQ(type_of(vector, options), TensorType::kF32);
  const PolicyTensor one_row_of_experts = {"blk.0.x.weight", {256, 1, 2, 1}, TensorType::kF32};
  EXPECT_EQ(type_of(one_row_of_experts, options), TensorType::kQ4_K);
}

TEST(Policy, TheHeadGetsQ6_K) {
  const PolicyTensor tied[] = {matrix("token_embd.weight")};
  const PolicyTensor untied[] = {matrix("token_embd.weight"), matrix("output.weight")};
  for (const FileTypeInfo& info : file_types()) {
    if (!is_quantized(info.base) || info.type == FileType::kQ2_K_S) continue;
    const auto expected = info.type == FileType::kQ8_0 ? TensorType::kQ8_0 : TensorType::kQ6_K;
    const PolicyOptions options = options_for(info.type);
    EXPECT_EQ(types_of(tied, options).at("token_embd.weight"), expected) << info.name;
    EXPECT_EQ(types_of(untied, options).at("token_embd.weight"), info.base) << info.name;
    EXPECT_EQ(types_of(untied, options).at("output.weight"), expected) << info.name;
  }
  // A row that K-quants cannot hold takes the head to Q8_0 at once, one without any blocks to F16.
  EXPECT_EQ(type_of(matrix("token_embd.weight", 128), options_for(FileType::kQ2_K)),
            TensorType::kQ8_0);
  EXPECT_EQ(type_of(matrix("token_embd.weight", 48), options_for(FileType::kQ2_K)),
            TensorType::kF16);
}

struct RuleCase {
  FileType file_type;
  std::string_view tensor;
  uint32_t n_heads;  // 4 KV heads
  TensorType boosted;
  std::vector<int> layers;  // of 32 that are boosted; the others get the base type
};

std::vector<int> from_to(int first, int last) {
  std::vector<int> numbers;
  for (int i = first; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

// i < 4, i >= 28, (i - 4) % 3 == 2
const std::vector<int> kMoreOf32 = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};

TEST(Policy, RulesByFileTypeAndRole) {
  const std::vector<int> all = from_to(0, 31);
  const RuleCase cases[] = {
      {FileType::kQ2_K, "attn_v.weight", 8, TensorType::kQ3_K, all},
      {FileType::kQ2_K, "attn_v.weight", 16, TensorType::kQ4_K, all},
      {FileType::kQ2_K, "attn_output.weight", 8, TensorType::kQ3_K, all},
      {FileType::kQ2_K, "ffn_down.weight", 8, TensorType::kQ3_K, all},
      {FileType::kQ3_K_S, "attn_v.weight", 16, TensorType::kQ3_K, all},
      {FileType::kQ3_K_S, "attn_output.weight", 8, TensorType::kQ3_K, all},
      {FileType::kQ3_K_S, "ffn_down.weight", 8, TensorType::kQ3_K, all},
      {FileType::kQ3_K_M, "attn_v.weight", 8, TensorType::kQ5_K, {0, 1}},
      {FileType::kQ3_K_M, "attn_v.weight", 8, TensorType::kQ4_K, from_to(2, 31)},
      {FileType::kQ3_K_M, "attn_output.weight", 8, TensorType::kQ4_K, all},
      {FileType::kQ3_K_M, "ffn_down.weight", 8, TensorType::kQ5_K, {0, 1}},
      {FileType::kQ3_K_M, "ffn_down.weight", 8, TensorType::kQ4_K, from_to(2, 31)},
      {FileType::kQ3_K_L, "attn_v.weight", 8, TensorType::kQ5_K, all},
      {FileType::kQ3_K_L, "attn_output.weight", 8, TensorType::kQ5_K, all},
      {FileType::kQ3_K_L, "ffn_down.weight", 8, TensorType::kQ5_K, all},
      {FileType::kQ4_0, "ffn_down.weight", 8, TensorType::kQ4_0, all},
      {FileType::kQ5_0, "ffn_down.weight", 8, TensorType::kQ5_0, all},
      {FileType::kQ4_1, "attn_v.weight", 16, TensorType::kQ4_1, all},
      {FileType::kQ5_1, "ffn_down.weight", 8, TensorType::kQ5_1, all},
      {FileType::kQ4_K_S, "attn_v.weight", 8, TensorType::kQ5_K, {0, 1, 2, 3}},
      {FileType::kQ4_K_S, "ffn_down.weight", 8, TensorType::kQ5_K, {0, 1, 2, 3}},
      {FileType::kQ4_K_S, "attn_output.weight", 8, TensorType::kQ4_K, all},
      {FileType::kQ4_K_M, "attn_v.weight", 8, TensorType::kQ6_K, kMoreOf32},
      {FileType::kQ4_K_M, "attn_qkv.weight", 8, TensorType::kQ6_K, kMoreOf32},
      {FileType::kQ4_K_M, "ffn_down.weight", 8, TensorType::kQ6_K, kMoreOf32},
      {FileType::kQ4_K_M, "attn_output.weight", 8, TensorType::kQ4_K, all},
      {FileType::kQ5_K_S, "ffn_down.weight", 8, TensorType::kQ5_K, all},
      {FileType::kQ5_K_M, "attn_v.weight", 8, TensorType::kQ6_K, kMoreOf32},
      {FileType::kQ5_K_M, "ffn_down.weight", 8, TensorType::kQ6_K, kMoreOf32},
      {FileType::kQ6_K, "ffn_down.weight", 8, TensorType::kQ6_K, all},
      {FileType::kIQ4_NL, "attn_v.weight", 8, TensorType::kIQ4_NL, all},
      {FileType::kIQ4_NL, "attn_v.weight", 16, TensorType::kQ5_K, all},
      {FileType::kIQ4_NL, "ffn_down.weight", 8, TensorType::kQ5_K, {0, 1, 2, 3}},
      {FileType::kQ8_0, "ffn_down.weight", 8, TensorType::kQ8_0, all},
  };
  for (const RuleCase& c : cases) {
    PolicyOptions options = options_for(c.file_type);
    options.n_heads = c.n_heads;
    EXPECT_EQ(Stack(32, c.tensor).layers_with(c.boosted, options), c.layers)
        << name_of(c.file_type) << " " << c.tensor << " " << name_of(c.boosted);
  }
  for (const FileTypeInfo& info : file_types()) {
    if (!is_quantized(info.base) || info.type == FileType::kQ2_K_S) continue;
    for (const std::string_view tensor :
         {"attn_k.weight", "attn_q.weight", "ffn_up.weight", "ffn_gate_up_exps.weight",
          "inp_gate.weight", "proj.weight"}) {
      PolicyOptions options = options_for(info.type);
      options.n_heads = 16;
      EXPECT_EQ(Stack(32, tensor).layers_with(info.base, options), all) << info.name << tensor;
    }
  }
}

TEST(Policy, ImportanceSwitchesTwoRules) {
  const Stack down(32, "ffn_down.weight");
  PolicyOptions options = options_for(FileType::kQ4_0);
  options.has_importance = true;
  EXPECT_EQ(down.layers_with(TensorType::kQ4_1, options), from_to(0, 3));
  options.file_type = FileType::kQ5_0;
  EXPECT_EQ(down.layers_with(TensorType::kQ5_1, options), from_to(0, 3));
  options.file_type = FileType::kIQ4_NL;
  EXPECT_EQ(down.layers_with(TensorType::kIQ4_NL, options), from_to(0, 31));
}

TEST(Policy, Q2_K_SNeedsImportance) {
  const PolicyTensor tensors[] = {matrix("token_embd.weight"), matrix("output.weight"),
                                  matrix("blk.0.ffn_down.weight"), matrix("blk.0.attn_q.weight"),
                                  matrix("blk.0.attn_v.weight")};
  PolicyOptions options = options_for(FileType::kQ2_K_S);
  options.n_heads = 16;
  auto refused = plan_types(tensors, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("blk.0.attn_q.weight: file type q2_k_s needs"));

  options.has_importance = true;
  auto plan = plan_types(tensors, options);
  ASSERT_TRUE(plan.ok());
  for (const TypeChoice& choice : plan.value()) {
    const std::string_view name = tensors[choice.index].name;
    EXPECT_EQ(choice.needs_importance, name == "blk.0.attn_q.weight") << name;
  }
  const auto types = types_of(tensors, options);
  EXPECT_EQ(types.at("token_embd.weight"), TensorType::kQ2_K);
  EXPECT_EQ(types.at("blk.0.attn_v.weight"), TensorType::kQ4_K);
  EXPECT_EQ(types.at("blk.0.ffn_down.weight"), TensorType::kQ4_K);  // layer 0 of 32
}

TEST(Policy, EightExpertsGetMoreBitsInAttention) {
  for (const FileTypeInfo& info : file_types()) {
    if (!is_quantized(info.base)) continue;
    PolicyOptions options = options_for(info.type);
    options.n_experts = 8;
    options.has_importance = true;
    EXPECT_EQ(type_of(matrix("blk.0.attn_v.weight"), options), TensorType::kQ8_0) << info.name;
    EXPECT_EQ(type_of(matrix("blk.0.attn_k.weight"), options), TensorType::kQ8_0) << info.name;
    EXPECT_EQ(type_of(matrix("blk.0.attn_q.weight"), options), info.base) << info.name;
    options.n_experts = 6;
    EXPECT_EQ(type_of(matrix("blk.0.attn_k.weight"), options), info.base) << info.name;
  }
  const std::map<FileType, TensorType> outputs = {
      {FileType::kQ2_K, TensorType::kQ5_K},   {FileType::kQ3_K_S, TensorType::kQ5_K},
      {FileType::kQ3_K_M, TensorType::kQ5_K}, {FileType::kQ3_K_L, TensorType::kQ3_K},
      {FileType::kQ4_K_S, TensorType::kQ5_K}, {FileType::kQ4_K_M, TensorType::kQ5_K},
      {FileType::kIQ4_NL, TensorType::kQ5_K}, {FileType::kQ4_0, TensorType::kQ4_0},
      {FileType::kQ4_1, TensorType::kQ4_1},   {FileType::kQ5_0, TensorType::kQ5_0},
      {FileType::kQ5_1, TensorType::kQ5_1},   {FileType::kQ5_K_S, TensorType::kQ5_K},
      {FileType::kQ5_K_M, TensorType::kQ5_K}, {FileType::kQ6_K, TensorType::kQ6_K},
      {FileType::kQ8_0, TensorType::kQ8_0},
  };
  for (const auto& [file_type, expected] : outputs) {
    PolicyOptions options = options_for(file_type);
    options.n_experts = 8;
    EXPECT_EQ(type_of(matrix("blk.0.attn_output.weight"), options), expected) << name_of(file_type);
  }
}

// With experts the number in the name counts, so the dense and the expert tensor of a layer agree.
TEST(Policy, FfnDownOfExpertsGoesByTheNameDenseOnesByTheCount) {
  const PolicyTensor tensors[] = {matrix("blk.3.ffn_down.weight"),
                                  matrix("blk.3.ffn_down_exps.weight"),
                                  matrix("blk.31.ffn_down.weight")};
  PolicyOptions options = options_for(FileType::kQ4_K_S);
  options.n_experts = 16;
  auto types = types_of(tensors, options);
  EXPECT_EQ(types.at("blk.3.ffn_down.weight"), TensorType::kQ5_K);
  EXPECT_EQ(types.at("blk.3.ffn_down_exps.weight"), TensorType::kQ5_K);
  EXPECT_EQ(types.at("blk.31.ffn_down.weight"), TensorType::kQ4_K);
  options.n_experts = 0;
  EXPECT_EQ(types_of(tensors, options).at("blk.31.ffn_down.weight"), TensorType::kQ5_K);

  options.n_experts = 16;
  for (const std::string_view name : {"blk.32.ffn_down.weight", "ffn_down.weight",
                                      "blk.-1.ffn_down.weight", "blk.4294967296.ffn_down.weight"}) {
    const PolicyTensor bad = matrix(name);
    auto plan = plan_types({&bad, 1}, options);
    ASSERT_FALSE(plan.ok()) << name;
    EXPECT_EQ(plan.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(plan.error().message, HasSubstr(std::string(name)));
  }
}

TEST(Policy, RowsThatDoNotFitFallBack) {
  const struct {
    TensorType wanted;
    uint64_t row;
    TensorType expected;
  } cases[] = {
      {TensorType::kQ2_K, 512, TensorType::kQ2_K},    {TensorType::kQ2_K, 160, TensorType::kQ4_0},
      {TensorType::kQ3_K, 384, TensorType::kQ4_0},    {TensorType::kQ4_K, 2112, TensorType::kQ5_0},
      {TensorType::kQ5_K, 704, TensorType::kQ5_1},    {TensorType::kQ6_K, 96, TensorType::kQ8_0},
      {TensorType::kQ6_K, 80, TensorType::kF16},      {TensorType::kQ4_0, 192, TensorType::kQ4_0},
      {TensorType::kQ4_0, 48, TensorType::kF16},      {TensorType::kQ8_0, 33, TensorType::kF16},
      {TensorType::kIQ4_NL, 64, TensorType::kIQ4_NL}, {TensorType::kIQ4_NL, 1, TensorType::kF16},
      {TensorType::kF32, 7, TensorType::kF32},        {TensorType::kBF16, 7, TensorType::kBF16},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(type_that_fits(c.wanted, c.row), c.expected) << name_of(c.wanted) << " " << c.row;
  }
}

// The rows of the random checkpoints: hidden 128, experts of 96 and 6 of them, FFN 160, 4 layers.
TEST(Policy, SmallMixtureOfExperts) {
  PolicyOptions options = options_for(FileType::kQ4_K_M, 4);
  options.n_heads = 4;
  options.n_kv_heads = 2;
  options.n_experts = 6;
  const PolicyTensor tensors[] = {
      matrix("token_embd.weight", 128),         matrix("blk.0.attn_v.weight", 128),
      matrix("blk.1.attn_v.weight", 128),       matrix("blk.0.attn_output.weight", 256),
      matrix("blk.2.attn_output.weight", 2048), matrix("blk.1.ffn_down.weight", 160),
      matrix("blk.2.ffn_down.weight", 160),     matrix("blk.1.ffn_down_exps.weight", 96),
      matrix("blk.3.ffn_down_exps.weight", 96), matrix("blk.0.ffn_gate_up_exps.weight", 128),
      matrix("blk.0.ffn_gate_inp.weight", 128),
  };
  const std::map<std::string, TensorType> expected = {
      {"token_embd.weight", TensorType::kQ8_0},
      {"blk.0.attn_v.weight", TensorType::kQ5_0},  // Q4_K; the last of the two gets Q6_K
      {"blk.1.attn_v.weight", TensorType::kQ8_0},
      {"blk.0.attn_output.weight", TensorType::kQ4_K},
      {"blk.2.attn_output.weight", TensorType::kQ4_K},
      {"blk.1.ffn_down.weight", TensorType::kQ5_0},
      {"blk.2.ffn_down.weight", TensorType::kQ8_0},
      {"blk.1.ffn_down_exps.weight", TensorType::kQ5_0},
      {"blk.3.ffn_down_exps.weight", TensorType::kQ8_0},
      {"blk.0.ffn_gate_up_exps.weight", TensorType::kQ5_0},
      {"blk.0.ffn_gate_inp.weight", TensorType::kBF16},
  };
  EXPECT_EQ(types_of(tensors, options), expected);
}

// Hidden 128, per-layer embeddings of 32 in 6 layers (a table of 192 columns).
TEST(Policy, SmallPerLayerEmbeddings) {
  PolicyOptions options = options_for(FileType::kQ2_K, 6);
  options.n_kv_heads = 1;
  const PolicyTensor tensors[] = {
      matrix("per_layer_token_embd.weight", 192), matrix("per_layer_model_proj.weight", 128),
      matrix("blk.0.inp_gate.weight", 128),       matrix("blk.0.proj.weight", 32),
      matrix("blk.5.ffn_down.weight", 384),       matrix("blk.5.ffn_up.weight", 128),
  };
  std::map<std::string, TensorType> expected = {
      {"per_layer_token_embd.weight", TensorType::kQ8_0},
      {"per_layer_model_proj.weight", TensorType::kBF16},
      {"blk.0.inp_gate.weight", TensorType::kQ4_0},
      {"blk.0.proj.weight", TensorType::kQ4_0},
      {"blk.5.ffn_down.weight", TensorType::kQ4_0},
      {"blk.5.ffn_up.weight", TensorType::kQ4_0},
  };
  EXPECT_EQ(types_of(tensors, options), expected);
  options.recipe = Recipe::kSafe;
  expected["blk.0.inp_gate.weight"] = TensorType::kQ8_0;
  expected["blk.0.proj.weight"] = TensorType::kQ8_0;
  EXPECT_EQ(types_of(tensors, options), expected);
  // Rows of 16: nothing in blocks fits.
  EXPECT_EQ(type_of(matrix("blk.0.proj.weight", 16), options), TensorType::kF16);
}

std::vector<TypeOverride> overrides(std::initializer_list<std::string_view> texts) {
  std::vector<TypeOverride> parsed;
  for (const std::string_view text : texts) parsed.push_back(TypeOverride::parse(text).value());
  return parsed;
}

TEST(PolicyOverrides, TheFirstMatchWinsAnywhereInTheName) {
  PolicyOptions options = options_for(FileType::kQ4_K_M);
  options.recipe = Recipe::kSafe;
  options.overrides =
      overrides({"BLK\\.[01]\\.FFN=Q8_0", "ffn_down=f16", "^proj=q6_k", "inp_gate|attn_v=q2_k"});
  const PolicyTensor tensors[] = {
      matrix("blk.1.ffn_down.weight"),
      matrix("blk.2.ffn_down.weight"),
      matrix("blk.2.proj.weight"),
      matrix("blk.2.inp_gate.weight"),
      matrix("blk.0.ffn_gate_inp.weight"),
      matrix("blk.2.attn_v.weight", 160),
      matrix("proj.weight"),
  };
  const auto types = types_of(tensors, options);
  EXPECT_EQ(types.at("blk.1.ffn_down.weight"), TensorType::kQ8_0);
  EXPECT_EQ(types.at("blk.2.ffn_down.weight"), TensorType::kF16);
  EXPECT_EQ(types.at("blk.2.proj.weight"), TensorType::kQ8_0);          // "^proj" is elsewhere
  EXPECT_EQ(types.at("blk.2.inp_gate.weight"), TensorType::kQ2_K);      // stronger than the recipe
  EXPECT_EQ(types.at("blk.0.ffn_gate_inp.weight"), TensorType::kBF16);  // never encoded
  EXPECT_EQ(types.at("blk.2.attn_v.weight"), TensorType::kQ4_0);        // Q2_K does not fit
  EXPECT_EQ(types.at("proj.weight"), TensorType::kQ6_K);
}

// Overridden tensors do not advance the count of attn_v, but stay in its total.
TEST(PolicyOverrides, AreNotCounted) {
  const Stack v(32, "attn_v.weight");
  PolicyOptions options = options_for(FileType::kQ3_K_M);
  options.overrides = overrides({"blk\\.0\\.=q8_0"});
  EXPECT_EQ(v.layers_with(TensorType::kQ5_K, options), (std::vector{1, 2}));
  options.file_type = FileType::kQ4_K_M;
  std::vector<int> shifted;
  for (const int i : kMoreOf32) {
    if (i < 31) shifted.push_back(i + 1);
  }
  EXPECT_EQ(v.layers_with(TensorType::kQ6_K, options), shifted);
}

TEST(PolicyOverrides, BadOnesAreRefusedByTheirText) {
  for (const std::string_view text :
       {"", "attn_v", "=q8_0", "attn_v=", "attn_v=q9_9", "attn_v=q8_1", "attn_v=iq2_xs", "(=q8_0",
        "[a=q8_0", "*=q8_0", "a{2,1}=q8_0", "\\=q8_0"}) {
    auto parsed = TypeOverride::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr(fmt::format("--tensor-type \"{}\"", text)));
  }
  const std::string deep = std::string(60000, '(') + "=q8_0";
  auto parsed = TypeOverride::parse(deep);
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("at most 1000 characters expected, found 60000"));
}

TEST(PolicyOverrides, TheDeepestAcceptedNestingWorks) {
  const std::string half(499, '(');
  auto parsed = TypeOverride::parse(half + "a_" + std::string(499, ')') + "=q8_0");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed.value().matches("a_very_long_name_of_a_tensor.weight").value());
  EXPECT_FALSE(parsed.value().matches("attn").value());
}

TEST(PolicyOverrides, OnesWithoutEffectAreRefused) {
  const PolicyTensor tensors[] = {matrix("blk.0.attn_q.weight"), matrix("blk.0.attn_norm.weight")};
  PolicyOptions options = options_for(FileType::kQ4_K_M);
  for (const std::string_view text : {"attn_x=q8_0", "attn_norm=q8_0"}) {
    options.overrides = overrides({"attn_q=q6_k", text});
    auto plan = plan_types(tensors, options);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_THAT(plan.error().message, HasSubstr(std::string(text)));
  }
  options.overrides = overrides({"attn_q=q6_k"});
  options.file_type = FileType::kF16;
  auto plan = plan_types(tensors, options);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, HasSubstr("file type f16"));
}

TEST(Policy, NotesSayWhatIsRemarkable) {
  const PolicyTensor tensors[] = {matrix("blk.0.attn_k.weight"), matrix("blk.0.attn_q.weight", 160),
                                  matrix("blk.0.ffn_up.weight", 96),
                                  matrix("blk.0.proj.weight", 48)};
  PolicyOptions options = options_for(FileType::kQ4_K_M);
  options.recipe = Recipe::kSafe;
  options.overrides = overrides({"ffn_up=q6_k"});
  auto plan = plan_types(tensors, options);
  ASSERT_TRUE(plan.ok());
  std::map<std::string_view, std::string> notes;
  for (const TypeChoice& choice : plan.value()) {
    notes[tensors[choice.index].name] = note_of(choice, tensors[choice.index]);
  }
  EXPECT_EQ(notes["blk.0.attn_k.weight"], "");
  EXPECT_EQ(notes["blk.0.attn_q.weight"], "row of 160: no whole blocks of q4_k");
  EXPECT_EQ(notes["blk.0.ffn_up.weight"], "--tensor-type, row of 96: no whole blocks of q6_k");
  EXPECT_EQ(notes["blk.0.proj.weight"], "row of 48: no whole blocks of q4_k");
}

TEST(Policy, CheckpointTypes) {
  constexpr std::array<uint64_t, 4> kMatrix = {64, 8, 1, 1};
  constexpr std::array<uint64_t, 4> kVector = {64, 1, 1, 1};
  const struct {
    std::string_view name;
    std::array<uint64_t, 4> dims;
    FileType file_type;
    TensorType expected;
  } cases[] = {
      {"blk.0.attn_q.weight", kMatrix, FileType::kQ4_K_M, TensorType::kBF16},
      {"blk.0.attn_q.weight", kMatrix, FileType::kF16, TensorType::kF16},
      {"per_layer_model_proj.weight", kMatrix, FileType::kF16, TensorType::kF16},
      {"per_layer_model_proj.weight", kMatrix, FileType::kQ8_0, TensorType::kBF16},
      {"blk.0.layer_output_scale.weight", kVector, FileType::kF16, TensorType::kF32},
      {"blk.0.odd_norm.weight", kMatrix, FileType::kF16, TensorType::kF32},
      {"blk.0.ffn_gate_inp.weight", kMatrix, FileType::kF16, TensorType::kF32},
      {"blk.0.ffn_gate_inp.scale", kMatrix, FileType::kQ8_0, TensorType::kF32},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(checkpoint_type(c.name, c.dims, TensorType::kBF16, c.file_type), c.expected)
        << c.name << " " << name_of(c.file_type);
  }
}

TEST(Policy, Recipes) {
  EXPECT_EQ(parse_recipe("safe").value(), Recipe::kSafe);
  EXPECT_EQ(parse_recipe("plain").value(), Recipe::kPlain);
  EXPECT_THAT(parse_recipe("fast").error().message, HasSubstr("\"fast\""));
}

}  // namespace
}  // namespace hf2q
