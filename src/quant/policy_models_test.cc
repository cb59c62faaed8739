// The policy on the released Gemma 4 models: counts and sizes that other programs wrote or that
// follow from the published shapes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "quant/policy.h"

namespace hf2q {
namespace {

// The numbers that fix the tensors of a text model. Layer i sees the whole context ("full") when
// (i + 1) % full_every == 0. Every layer has its K and V tensors, also those that share a cache.
struct Geometry {
  std::string_view name;
  uint32_t n_layers, full_every;
  uint32_t hidden, ffn, wide_ffn_from;  // from that layer on, the FFN is twice as wide
  uint32_t n_heads, n_kv_heads, n_full_kv_heads;
  bool full_layers_have_v;
  uint32_t n_experts, expert_ffn;  // 0 when dense
  uint32_t per_layer;              // width of the per-layer embeddings, or 0
  size_t n_tensors;                // published
  uint64_t n_elements;             // published
};

constexpr uint32_t kNever = 1000;
constexpr Geometry kModels[] = {
    {"26B-A4B", 30, 6, 2816, 2112, kNever, 16, 8, 2, false, 128, 704, 0, 658, 25'233'142'046},
    {"31B", 60, 6, 5376, 21504, kNever, 32, 16, 4, false, 0, 0, 0, 833, 30'697'345'596},
    {"12B", 48, 6, 3840, 15360, kNever, 16, 8, 1, false, 0, 0, 0, 667, 11'907'350'576},
    {"E4B", 42, 6, 2560, 10240, kNever, 8, 2, 2, true, 0, 0, 256, 720, 7'518'069'290},
    {"E2B", 35, 5, 1536, 6144, 15, 8, 1, 1, true, 0, 0, 256, 601, 4'647'450'147},
};

// The tensors of a 16-bit file. Names are owned here, `list` points at them.
struct Model {
  std::vector<std::string> names;
  std::vector<PolicyTensor> list;

  void add(std::string name, uint64_t row, uint64_t rows = 1, uint64_t matrices = 1) {
    const std::array<uint64_t, 4> dims = {row, rows, matrices, 1};
    const TensorType type = checkpoint_type(name, dims, TensorType::kBF16, FileType::kQ4_K_M);
    list.push_back({{}, dims, type});
    names.push_back(std::move(name));
  }
  void finish() {
    for (size_t i = 0; i < list.size(); ++i) list[i].name = names[i];
  }
};

void add_attention(Model& model, const Geometry& g, const std::string& blk, bool full) {
  const uint64_t head = full ? 512 : 256;
  const uint64_t kv = head * (full ? g.n_full_kv_heads : g.n_kv_heads);
  model.add(blk + "attn_norm.weight", g.hidden);
  model.add(blk + "attn_q.weight", g.hidden, g.n_heads * head);
  model.add(blk + "attn_k.weight", g.hidden, kv);
  if (!full || g.full_layers_have_v) model.add(blk + "attn_v.weight", g.hidden, kv);
  model.add(blk + "attn_output.weight", g.n_heads * head, g.hidden);
  model.add(blk + "attn_q_norm.weight", head);
  model.add(blk + "attn_k_norm.weight", head);
  model.add(blk + "post_attention_norm.weight", g.hidden);
}

void add_experts(Model& model, const Geometry& g, const std::string& blk) {
  model.add(blk + "ffn_gate_inp.weight", g.hidden, g.n_experts);
  model.add(blk + "ffn_gate_inp.scale", g.hidden);
  model.add(blk + "ffn_down_exps.scale", g.n_experts);
  model.add(blk + "pre_ffw_norm_2.weight", g.hidden);
  model.add(blk + "post_ffw_norm_1.weight", g.hidden);
  model.add(blk + "post_ffw_norm_2.weight", g.hidden);
  model.add(blk + "ffn_gate_up_exps.weight", g.hidden, 2 * g.expert_ffn, g.n_experts);
  model.add(blk + "ffn_down_exps.weight", g.expert_ffn, g.hidden, g.n_experts);
}

void add_layer(Model& model, const Geometry& g, uint32_t i) {
  const std::string blk = fmt::format("blk.{}.", i);
  const uint64_t ffn = i >= g.wide_ffn_from ? 2 * g.ffn : g.ffn;
  add_attention(model, g, blk, (i + 1) % g.full_every == 0);
  model.add(blk + "ffn_norm.weight", g.hidden);
  model.add(blk + "ffn_gate.weight", g.hidden, ffn);
  model.add(blk + "ffn_up.weight", g.hidden, ffn);
  model.add(blk + "ffn_down.weight", ffn, g.hidden);
  model.add(blk + "post_ffw_norm.weight", g.hidden);
  model.add(blk + "layer_output_scale.weight", 1);
  if (g.n_experts > 0) add_experts(model, g, blk);
  if (g.per_layer > 0) {
    model.add(blk + "inp_gate.weight", g.hidden, g.per_layer);
    model.add(blk + "proj.weight", g.per_layer, g.hidden);
    model.add(blk + "post_norm.weight", g.hidden);
  }
}

Model make_model(const Geometry& g) {
  constexpr uint64_t kVocab = 262144;
  Model model;
  model.add("rope_freqs.weight", 256);
  model.add("token_embd.weight", g.hidden, kVocab);
  model.add("output_norm.weight", g.hidden);
  if (g.per_layer > 0) {
    model.add("per_layer_token_embd.weight", uint64_t{g.per_layer} * g.n_layers, kVocab);
    model.add("per_layer_model_proj.weight", g.hidden, uint64_t{g.per_layer} * g.n_layers);
    model.add("per_layer_proj_norm.weight", g.per_layer);
  }
  for (uint32_t i = 0; i < g.n_layers; ++i) add_layer(model, g, i);
  model.finish();
  return model;
}

const Geometry& geometry(std::string_view name) {
  return *std::ranges::find(kModels, name, &Geometry::name);
}

PolicyOptions options_for(const Geometry& g, FileType file_type, Recipe recipe) {
  PolicyOptions options;
  options.file_type = file_type;
  options.recipe = recipe;
  options.n_layers = g.n_layers;
  options.n_heads = g.n_heads;
  options.n_kv_heads = g.n_kv_heads;
  options.n_experts = g.n_experts;
  return options;
}

struct Summary {
  std::map<std::string, int> counts;  // tensors by type name
  uint64_t bytes = 0;                 // of the data, every tensor padded to 32
  std::map<std::string, TensorType> types;
};

Summary summarize(const Geometry& g, FileType file_type, Recipe recipe) {
  const Model model = make_model(g);
  auto plan = plan_types(model.list, options_for(g, file_type, recipe));
  EXPECT_TRUE(plan.ok());
  Summary summary;
  for (const TypeChoice& choice : plan.value()) {
    const PolicyTensor& tensor = model.list[choice.index];
    const uint64_t rows = tensor.dims[1] * tensor.dims[2];
    summary.bytes += (row_bytes(choice.type, tensor.dims[0]) * rows + 31) / 32 * 32;
    ++summary.counts[std::string(name_of(choice.type))];
    summary.types.emplace(tensor.name, choice.type);
  }
  return summary;
}

TEST(PolicyModels, ShapesGiveThePublishedTotals) {
  for (const Geometry& g : kModels) {
    const Model model = make_model(g);
    uint64_t n_elements = 0;
    for (const PolicyTensor& tensor : model.list) {
      n_elements += tensor.dims[0] * tensor.dims[1] * tensor.dims[2];
    }
    EXPECT_EQ(model.list.size(), g.n_tensors) << g.name;
    EXPECT_EQ(n_elements, g.n_elements) << g.name;
  }
}

struct PublishedCounts {
  std::string_view model;
  std::string_view file_type;
  std::map<std::string, int> counts;
  uint64_t bytes;  // 0: not published
};

// What the reference quantizer makes of a BF16 file without importance data.
const PublishedCounts kPublishedModels[] = {
    {"26B-A4B",
     "q4_k_m",
     {{"f32", 392}, {"q4_k", 192}, {"q5_0", 32}, {"q6_k", 14}, {"q8_0", 28}},
     16'780'193'728},
    {"26B-A4B",
     "q5_k_m",
     {{"f32", 392}, {"q5_k", 192}, {"q5_1", 32}, {"q6_k", 14}, {"q8_0", 28}},
     19'117'068'224},
    {"26B-A4B", "q6_k", {{"f32", 392}, {"q6_k", 206}, {"q8_0", 60}}, 22'622'577'088},
    {"26B-A4B",
     "q3_k_m",
     {{"f32", 392},
      {"q3_k", 150},
      {"q4_k", 53},
      {"q5_k", 2},
      {"q5_1", 2},
      {"q5_0", 58},
      {"q6_k", 1}},
     13'270'911'424},
    {"26B-A4B",
     "q2_k",
     {{"f32", 392}, {"q2_k", 150}, {"q3_k", 55}, {"q4_0", 60}, {"q6_k", 1}},
     10'566'915'008},
    {"26B-A4B", "q8_0", {{"f32", 392}, {"q8_0", 266}}, 26'844'037'056},
    {"31B", "q4_k_m", {{"f32", 422}, {"q4_k", 355}, {"q6_k", 56}}, 18'671'230'848},
    {"31B", "q5_k_m", {{"f32", 422}, {"q5_k", 355}, {"q6_k", 56}}, 21'829'738'368},
    {"31B", "q6_k", {{"f32", 422}, {"q6_k", 411}}, 25'185'652'608},
    {"31B",
     "q3_k_m",
     {{"f32", 422}, {"q3_k", 240}, {"q4_k", 165}, {"q5_k", 5}, {"q6_k", 1}},
     15'271'276'416},
    {"31B", "q2_k", {{"f32", 422}, {"q2_k", 240}, {"q3_k", 170}, {"q6_k", 1}}, 11'900'481'408},
    {"31B", "q8_0", {{"f32", 422}, {"q8_0", 411}}, 32'619'843'456},
    {"12B", "q4_k_m", {{"f32", 338}, {"q4_k", 284}, {"q6_k", 45}}, 7'365'559'808},
    {"12B", "q5_k_m", {{"f32", 338}, {"q5_k", 284}, {"q6_k", 45}}, 0},
    {"12B", "q6_k", {{"f32", 338}, {"q6_k", 329}}, 0},
    {"12B", "q3_k_m", {{"f32", 338}, {"q3_k", 192}, {"q4_k", 131}, {"q5_k", 5}, {"q6_k", 1}}, 0},
    {"12B", "q2_k", {{"f32", 338}, {"q2_k", 192}, {"q3_k", 136}, {"q6_k", 1}}, 0},
    {"12B", "q8_0", {{"f32", 338}, {"q8_0", 329}}, 0},
    {"E4B", "q4_k_m", {{"f32", 339}, {"bf16", 1}, {"q4_k", 336}, {"q6_k", 44}}, 5'319'466'304},
    {"E4B", "q5_k_m", {{"f32", 339}, {"bf16", 1}, {"q5_k", 336}, {"q6_k", 44}}, 0},
    {"E4B", "q6_k", {{"f32", 339}, {"bf16", 1}, {"q6_k", 380}}, 0},
    {"E4B",
     "q3_k_m",
     {{"f32", 339}, {"bf16", 1}, {"q3_k", 252}, {"q4_k", 122}, {"q5_k", 4}, {"q6_k", 2}},
     0},
    {"E4B",
     "q2_k",
     {{"f32", 339}, {"bf16", 1}, {"q2_k", 252}, {"q3_k", 84}, {"q4_k", 42}, {"q6_k", 2}},
     0},
    {"E4B", "q8_0", {{"f32", 339}, {"bf16", 1}, {"q8_0", 380}}, 0},
    {"E2B", "q4_k_m", {{"f32", 283}, {"bf16", 1}, {"q4_k", 281}, {"q6_k", 36}}, 3'412'061'280},
    {"E2B", "q5_k_m", {{"f32", 283}, {"bf16", 1}, {"q5_k", 281}, {"q6_k", 36}}, 0},
    {"E2B", "q6_k", {{"f32", 283}, {"bf16", 1}, {"q6_k", 317}}, 0},
    {"E2B",
     "q3_k_m",
     {{"f32", 283}, {"bf16", 1}, {"q3_k", 210}, {"q4_k", 101}, {"q5_k", 4}, {"q6_k", 2}},
     0},
    {"E2B",
     "q2_k",
     {{"f32", 283}, {"bf16", 1}, {"q2_k", 210}, {"q3_k", 70}, {"q4_k", 35}, {"q6_k", 2}},
     0},
    {"E2B", "q8_0", {{"f32", 283}, {"bf16", 1}, {"q8_0", 317}}, 0},
};

TEST(PolicyModels, PlainGivesThePublishedCountsAndSizes) {
  for (const PublishedCounts& published : kPublishedModels) {
    SCOPED_TRACE(fmt::format("{} {}", published.model, published.file_type));
    const FileType file_type = parse_file_type(published.file_type).value();
    const Summary summary = summarize(geometry(published.model), file_type, Recipe::kPlain);
    EXPECT_EQ(summary.counts, published.counts);
    EXPECT_TRUE(published.bytes == 0 || summary.bytes == published.bytes) << summary.bytes;
  }
}

// q8_0 files, from the element counts alone: 34 bytes for 32 elements of what is quantized.
TEST(PolicyModels, Q8_0BytesFollowFromTheElements) {
  for (const Geometry& g : kModels) {
    uint64_t bytes = 0;
    for (const PolicyTensor& tensor : make_model(g).list) {
      const uint64_t n = tensor.dims[0] * tensor.dims[1] * tensor.dims[2];
      const bool quantized =
          tensor.source == TensorType::kBF16 && tensor.name != "per_layer_model_proj.weight";
      const uint64_t size = quantized ? n / 32 * 34 : n * row_bytes(tensor.source, 1);
      bytes += (size + 31) / 32 * 32;
    }
    EXPECT_EQ(summarize(g, FileType::kQ8_0, Recipe::kPlain).bytes, bytes) << g.name;
    EXPECT_EQ(summarize(g, FileType::kQ8_0, Recipe::kSafe).bytes, bytes) << g.name;
  }
}

std::vector<int> layers_with(const Summary& summary, std::string_view tensor, TensorType type) {
  std::vector<int> layers;
  for (int i = 0; i < 64; ++i) {
    const auto found = summary.types.find(fmt::format("blk.{}.{}", i, tensor));
    if (found != summary.types.end() && found->second == type) layers.push_back(i);
  }
  return layers;
}

// attn_v is on the 25 sliding layers: the 3 first and 4 last of them and every third between have
// more bits. They are visited in the order of their block numbers.
TEST(PolicyModels, LayersOf26BWithMoreBits) {
  const Summary summary = summarize(geometry("26B-A4B"), FileType::kQ4_K_M, Recipe::kPlain);
  EXPECT_EQ(layers_with(summary, "attn_v.weight", TensorType::kQ6_K),
            (std::vector{0, 1, 2, 6, 9, 13, 16, 20, 24, 25, 26, 27, 28}));
  const std::vector wide_down = {0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 26, 27, 28, 29};
  EXPECT_EQ(layers_with(summary, "ffn_down.weight", TensorType::kQ8_0), wide_down);
  EXPECT_EQ(layers_with(summary, "ffn_down_exps.weight", TensorType::kQ8_0), wide_down);
  EXPECT_EQ(layers_with(summary, "ffn_down_exps.weight", TensorType::kQ5_0).size(), 16U);
  EXPECT_EQ(summary.types.at("token_embd.weight"), TensorType::kQ6_K);
  EXPECT_EQ(summary.types.at("blk.3.ffn_gate_inp.weight"), TensorType::kF32);
}

TEST(PolicyModels, SafeKeepsPerLayerEmbeddingsAtEightBits) {
  for (const std::string_view name : {"E4B", "E2B"}) {
    const Geometry& g = geometry(name);
    for (const FileTypeInfo& info : file_types()) {
      if (!is_quantized(info.base) || info.type == FileType::kQ2_K_S) continue;
      SCOPED_TRACE(fmt::format("{} {}", name, info.name));
      const Summary plain = summarize(g, info.type, Recipe::kPlain);
      Summary safe = summarize(g, info.type, Recipe::kSafe);
      EXPECT_EQ(safe.types.at("per_layer_token_embd.weight"), TensorType::kQ8_0);
      EXPECT_EQ(safe.types.at("per_layer_model_proj.weight"), TensorType::kBF16);
      EXPECT_EQ(layers_with(safe, "inp_gate.weight", TensorType::kQ8_0).size(), g.n_layers);
      EXPECT_EQ(layers_with(safe, "proj.weight", TensorType::kQ8_0).size(), g.n_layers);
      // Nothing else differs.
      for (auto& [tensor, type] : safe.types) {
        if (tensor.find("per_layer_token") != std::string::npos ||
            tensor.ends_with("inp_gate.weight") || tensor.ends_with(".proj.weight")) {
          type = plain.types.at(tensor);
        }
      }
      EXPECT_EQ(safe.types, plain.types);
    }
  }
}

// The table of docs/quantization.md. A line that is missing there is printed as it should be.
TEST(PolicyModels, TheDocumentationHasTheSizes) {
  std::ifstream file(HF2Q_TEST_DATA "/../../docs/quantization.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const Geometry& g : kModels) {
    const std::string line = fmt::format("| {} | {} | {} | {} |", g.name,
                                         summarize(g, FileType::kQ4_K_M, Recipe::kPlain).bytes,
                                         summarize(g, FileType::kQ4_K_M, Recipe::kSafe).bytes,
                                         summarize(g, FileType::kQ8_0, Recipe::kSafe).bytes);
    EXPECT_THAT(text, testing::HasSubstr(line));
  }
}

TEST(PolicyModels, WithoutPerLayerEmbeddingsTheRecipesAgree) {
  for (const std::string_view name : {"26B-A4B", "31B", "12B"}) {
    EXPECT_EQ(summarize(geometry(name), FileType::kQ4_K_M, Recipe::kSafe).types,
              summarize(geometry(name), FileType::kQ4_K_M, Recipe::kPlain).types)
        << name;
  }
}

TEST(PolicyModels, AnUnquantizedFileIsF32AndOneOtherType) {
  const Geometry& g = geometry("E4B");
  const auto counts = [&](FileType type) { return summarize(g, type, Recipe::kSafe).counts; };
  EXPECT_EQ(counts(FileType::kBF16), (std::map<std::string, int>{{"f32", 339}, {"bf16", 381}}));
  // The 16-bit source stays where the quantizer copies.
  EXPECT_EQ(counts(FileType::kF16),
            (std::map<std::string, int>{{"f32", 339}, {"bf16", 1}, {"f16", 380}}));
}

}  // namespace
}  // namespace hf2q
