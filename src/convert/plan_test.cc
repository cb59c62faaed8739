#include "convert/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "convert/hf_config.h"
#include "convert/imatrix_file.h"
#include "quant/row_codec.h"
#include "safetensors/widen.h"
#include "support/temp_folder.h"
#include "support/value_of.h"
#include "tokenizer/gguf_vocabulary.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::TempFolder;
using testing_support::value_of;

const std::string kBundled = HF2Q_MODELS "/tiny-gemma4";

// micro-moe or micro-ple with the tokenizer that all small checkpoints share.
std::string complete(const std::string& name, const TempFolder& work) {
  const std::string folder = work / name;
  std::filesystem::copy(std::string(HF2Q_TEST_DATA) + "/" + name, folder);
  std::filesystem::copy(kBundled + "/tokenizer.json", folder + "/tokenizer.json");
  return folder;
}

std::string convert(const std::string& folder, FileType type, const TempFolder& work,
                    size_t n_threads = 2, const std::string& imatrix = "") {
  const std::string path = work / fmt::format("{}-{}.gguf", name_of(type), n_threads);
  QuantizeOptions options;
  options.file_type = type;
  options.imatrix_path = imatrix;
  const OutputPlan plan = value_of(plan_conversion(folder, options));
  const Status status = write(plan, path, {n_threads, {}});
  EXPECT_TRUE(status.ok()) << status.error().message;
  return path;
}

std::vector<float> decode(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.find_tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<float> values(tensor->n_elements());
  const RowCodec& codec = row_codec(static_cast<TensorType>(tensor->type->id));
  const size_t bytes = row_bytes(codec.type, tensor->dims[0]);
  for (uint64_t r = 0; r < tensor->n_rows(); ++r) {
    codec.decode(tensor->data.data() + r * bytes, tensor->dims[0],
                 values.data() + r * tensor->dims[0]);
  }
  return values;
}

std::vector<float> widened(const Checkpoint& checkpoint, const std::string& name) {
  const SourceTensor* tensor = checkpoint.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<float> values(tensor->n_elements());
  EXPECT_TRUE(widen(*tensor, 0, values.size(), values.data()).ok());
  return values;
}

TEST(Conversion, UnquantizedFilesHoldTheWeightsAsTheyAre) {
  const TempFolder work;
  const Checkpoint checkpoint = value_of(Checkpoint::open(kBundled));
  for (const FileType type : {FileType::kF32, FileType::kBF16}) {
    const GgufFile file = value_of(GgufFile::open(convert(kBundled, type, work)));
    for (const auto& [gguf, hf] :
         {std::pair{"token_embd.weight", "model.embed_tokens.weight"},
          {"blk.2.attn_k.weight", "model.layers.2.self_attn.k_proj.weight"},
          {"blk.5.attn_norm.weight", "model.layers.5.input_layernorm.weight"},
          {"blk.4.layer_output_scale.weight", "model.layers.4.layer_scalar"}}) {
      EXPECT_EQ(decode(file, gguf), widened(checkpoint, hf)) << gguf;
    }
    EXPECT_EQ(file.find_tensor("blk.0.attn_norm.weight")->type->name, "f32");
  }
}

TEST(Conversion, MetadataIsComplete) {
  const TempFolder work;
  const GgufFile file = value_of(GgufFile::open(convert(kBundled, FileType::kQ4_K_M, work)));
  EXPECT_EQ(value_of(file.get_string("general.architecture")), "gemma4");
  EXPECT_EQ(value_of(file.get_string("general.name")), "Tiny Gemma4");
  EXPECT_EQ(value_of(file.get_u32("general.file_type")), 15U);
  EXPECT_EQ(value_of(file.get_u32("general.quantization_version")), 2U);
  EXPECT_EQ(file.find("general.sampling.top_k")->as_i32(), 64);
  EXPECT_EQ(value_of(file.get_f32("general.sampling.top_p")), 0.95F);
  EXPECT_EQ(value_of(file.get_u32("gemma4.block_count")), 6U);
  EXPECT_EQ(value_of(file.get_u32("gemma4.attention.key_length")), 512U);
  EXPECT_EQ(value_of(file.get_u32("gemma4.attention.key_length_swa")), 256U);
  EXPECT_EQ(value_of(file.get_integers("gemma4.attention.head_count_kv")),
            (std::vector<int32_t>{2, 2, 1, 2, 2, 1}));
  EXPECT_EQ(value_of(file.get_bools("gemma4.attention.sliding_window_pattern")),
            (std::vector<bool>{true, true, false, true, true, false}));
  EXPECT_EQ(value_of(file.get_f32("gemma4.final_logit_softcapping")), 30.0F);
  EXPECT_EQ(value_of(file.get_u32("tokenizer.ggml.eos_token_id")), 1U);
  EXPECT_EQ(value_of(file.get_integers("hf2q.stop_token_ids")), (std::vector<int32_t>{1, 16, 9}));
  EXPECT_EQ(value_of(file.get_strings("tokenizer.ggml.tokens")).size(), 8192U);
}

// What the file says about the model is what config.json said.
TEST(Conversion, TheConfigurationSurvives) {
  const TempFolder work;
  for (const std::string& folder :
       {kBundled, complete("micro-moe", work), complete("micro-ple", work)}) {
    const Config expected =
        value_of(parse_hf_config(testing_support::read_text(folder + "/config.json"), folder))
            .config;
    const GgufFile file = value_of(GgufFile::open(convert(folder, FileType::kQ8_0, work)));
    const Config found = value_of(read_config(file));
    EXPECT_EQ(found.n_experts, expected.n_experts);
    EXPECT_EQ(found.expert_ffn_dim, expected.expert_ffn_dim);
    EXPECT_EQ(found.ple_dim, expected.ple_dim);
    EXPECT_EQ(found.image_blocks, expected.image_blocks);
    EXPECT_EQ(found.sliding_window, expected.sliding_window);
    ASSERT_EQ(found.layers.size(), expected.layers.size());
    for (size_t i = 0; i < found.layers.size(); ++i) {
      EXPECT_EQ(found.layers[i].sliding, expected.layers[i].sliding);
      EXPECT_EQ(found.layers[i].head_dim, expected.layers[i].head_dim);
      EXPECT_EQ(found.layers[i].n_kv_heads, expected.layers[i].n_kv_heads);
      EXPECT_EQ(found.layers[i].ffn_dim, expected.layers[i].ffn_dim);
      EXPECT_EQ(found.layers[i].kv_layer, expected.layers[i].kv_layer);
    }
  }
}

TEST(Conversion, BytesDoNotDependOnTheNumberOfThreads) {
  const TempFolder work;
  const std::string one = testing_support::read_text(convert(kBundled, FileType::kQ4_K_S, work, 1));
  for (const size_t n_threads : {2, 5}) {
    EXPECT_TRUE(testing_support::read_text(convert(kBundled, FileType::kQ4_K_S, work, n_threads)) ==
                one);
  }
}

// Per-layer embeddings and their projections: 8 bits or more under the default recipe.
TEST(Conversion, SafeRecipeKeepsPerLayerEmbeddings) {
  const TempFolder work;
  const std::string folder = complete("micro-ple", work);
  QuantizeOptions options;
  options.file_type = FileType::kQ4_K_M;
  const OutputPlan plan = value_of(plan_conversion(folder, options));
  size_t n = 0;
  for (const OutputTensor& tensor : plan.tensors) {
    const bool ple = tensor.name.find("per_layer_") != std::string::npos ||
                     tensor.name.ends_with("inp_gate.weight") ||
                     tensor.name.ends_with(".proj.weight");
    if (!ple) continue;
    ++n;
    const TensorTypeInfo& info = tensor_type_info(tensor.type);
    EXPECT_GE(8.0 * info.block_bytes / info.block_elements, 8.0) << tensor.name;
  }
  EXPECT_EQ(n, 3U + 2 * 6);
}

TEST(Conversion, RowsThatAreNoWholeBlocksFallBackAndAreReported) {
  const TempFolder work;
  QuantizeOptions options;
  options.file_type = FileType::kQ4_K_M;
  const OutputPlan plan = value_of(plan_conversion(complete("micro-moe", work), options));
  for (const OutputTensor& tensor : plan.tensors) {
    if (tensor.name == "blk.0.ffn_down_exps.weight") {  // rows of 96
      EXPECT_EQ(tensor_type_info(tensor.type).block_elements, 32U);
      EXPECT_THAT(tensor.note, HasSubstr("96"));
    }
  }
}

// An importance matrix changes the encoding of the weights that it has entries for, as the encoder
// itself does when it is given those weights.
TEST(Conversion, ImportanceReachesTheEncoder) {
  const TempFolder work;
  Imatrix imatrix;
  imatrix.datasets = {"text"};
  imatrix.chunk_count = 1;
  imatrix.chunk_size = 512;
  ImatrixEntry entry;
  for (int i = 0; i < 256; ++i) entry.sums.push_back(static_cast<float>(1 + i * i));
  entry.counts = {4};
  imatrix.entries["blk.0.attn_q.weight"] = entry;
  ASSERT_TRUE(write_imatrix(work / "imatrix.gguf", imatrix).ok());
  const GgufFile file = value_of(
      GgufFile::open(convert(kBundled, FileType::kQ4_K_S, work, 2, work / "imatrix.gguf")));
  const Checkpoint checkpoint = value_of(Checkpoint::open(kBundled));
  const std::vector<float> weights = widened(checkpoint, "model.layers.0.self_attn.q_proj.weight");
  std::vector<float> importance = entry.sums;
  for (float& value : importance) value /= 4;
  std::vector<std::byte> row(row_bytes(TensorType::kQ4_K, 256));
  const GgufTensor* tensor = file.find_tensor("blk.0.attn_q.weight");
  for (size_t r = 0; r < 1024; r += 31) {
    ASSERT_TRUE(row_codec(TensorType::kQ4_K)
                    .encode(weights.data() + r * 256, 256, importance.data(), row.data()));
    EXPECT_EQ(0, std::memcmp(row.data(), tensor->data.data() + r * row.size(), row.size()));
  }
  EXPECT_EQ(value_of(file.get_u32("quantize.imatrix.entries_count")), 1U);
}

// A finite importance whose products overflow is not the weights' fault.
TEST(Conversion, AnImportanceThatOverflowsIsNamed) {
  const TempFolder work;
  Imatrix imatrix;
  imatrix.entries["blk.0.attn_q.weight"] = {std::vector<float>(256, 3e38F), {1}};
  ASSERT_TRUE(write_imatrix(work / "imatrix.gguf", imatrix).ok());
  QuantizeOptions options;
  options.imatrix_path = work / "imatrix.gguf";
  const OutputPlan plan = value_of(plan_conversion(kBundled, options));
  const Status status = write(plan, work / "out.gguf", {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(status.error().message,
            "importance of blk.0.attn_q.weight: values whose products with the weights stay finite "
            "expected, found up to 3e+38");
}

TEST(Conversion, AnImportanceMatrixOfAnotherModelIsNamed) {
  const TempFolder work;
  Imatrix imatrix;
  imatrix.entries["blk.99.attn_q.weight"] = {std::vector<float>(256, 1.0F), {1}};
  ASSERT_TRUE(write_imatrix(work / "imatrix.gguf", imatrix).ok());
  QuantizeOptions options;
  options.imatrix_path = work / "imatrix.gguf";
  const auto refused = plan_conversion(kBundled, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("imatrix.gguf: entries for this model's tensors"));
}

TEST(Conversion, AWeightBeyondTheRangeOfItsTypeIsNamed) {
  const TempFolder work;
  const std::vector<float> values = {1.0F, -70000.0F, 2.0F, 3.0F};  // F16 ends at 65504
  OutputTensor tensor;
  tensor.name = "a.weight";
  tensor.dims = {2, 2};
  tensor.type = TensorType::kF16;
  tensor.segments = {{TensorType::kF32, std::as_bytes(std::span(values)), false, "in", "b"}};
  const Status status = write_gguf(work / "out.gguf", {}, {&tensor, 1}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "in: b (a.weight): row 0: values within the range of f16 expected, found -70000 to 1");
}

TEST(Quantization, KeepsMetadataAndRefusesFewBits) {
  const TempFolder work;
  const std::string bf16 = convert(kBundled, FileType::kBF16, work);
  QuantizeOptions options;
  options.file_type = FileType::kQ4_K_M;
  OutputPlan plan = value_of(plan_quantization(bf16, options));
  ASSERT_TRUE(write(plan, work / "q4.gguf", {}).ok());
  EXPECT_TRUE(testing_support::read_text(work / "q4.gguf") ==
              testing_support::read_text(convert(kBundled, FileType::kQ4_K_M, work)));
  options.file_type = FileType::kQ5_K_M;
  auto refused = plan_quantization(work / "q4.gguf", options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("--allow-requantize"));
  options.allow_requantize = true;
  plan = value_of(plan_quantization(work / "q4.gguf", options));
  EXPECT_TRUE(write(plan, work / "q5.gguf", {}).ok());
}

// Files of the three kinds of model hold nothing that is ignored, also what sharing layers keep.
TEST(Quantization, LeavesOutAndNamesWhatIsNoPartOfTheModel) {
  const TempFolder work;
  for (const std::string& folder :
       {kBundled, complete("micro-moe", work), complete("micro-ple", work)}) {
    const std::string path = convert(folder, FileType::kQ8_0, work);
    QuantizeOptions options;
    options.file_type = FileType::kQ8_0;
    const OutputPlan plan = value_of(plan_quantization(path, options));
    EXPECT_THAT(plan.warnings, testing::IsEmpty());
  }
  QuantizeOptions options;
  options.file_type = FileType::kQ8_0;
  OutputPlan plan = value_of(plan_conversion(kBundled, options));
  const size_t n_tensors = plan.tensors.size();
  for (const char* name : {"v.patch_embd.weight", "blk.6.attn_q.weight", "blk.0.other.weight"}) {
    OutputTensor extra = plan.tensors.front();
    extra.name = name;
    plan.tensors.push_back(extra);
  }
  ASSERT_TRUE(write(plan, work / "extra.gguf", {}).ok());
  plan = value_of(plan_quantization(work / "extra.gguf", options));
  EXPECT_EQ(plan.tensors.size(), n_tensors);
  EXPECT_THAT(plan.warnings,
              testing::ElementsAre("ignored: \"v.patch_embd.weight\", \"blk.6.attn_q.weight\", "
                                   "\"blk.0.other.weight\""));
}

// What the readers of the result would refuse is refused here, by its key.
TEST(Quantization, MetadataIsCheckedBeforeItIsCopied) {
  const TempFolder work;
  QuantizeOptions options;
  options.file_type = FileType::kQ8_0;
  const auto error_with = [&](const auto& edit) {
    OutputPlan plan = value_of(plan_conversion(kBundled, options));
    edit(plan.metadata);
    EXPECT_TRUE(write(plan, work / "edited.gguf", {}).ok());
    const auto refused = plan_quantization(work / "edited.gguf", options);
    return refused.ok() ? "nothing refused" : refused.error().message;
  };
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_u32("gemma4.attention.value_length", 256); }),
              HasSubstr("gemma4.attention.value_length: 512 expected as for keys, found 256"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_u32("tokenizer.ggml.bos_token_id", 8192); }),
              HasSubstr("tokenizer.ggml.bos_token_id"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.remove("tokenizer.ggml.merges"); }),
              HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.remove("tokenizer.ggml.bos_token_id"); }),
              HasSubstr("edited.gguf: bos token: an id below 8192 expected, found -1"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_string("tokenizer.chat_template", "{{"); }),
              HasSubstr("edited.gguf: tokenizer.chat_template: "));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_f32("general.sampling.top_p", 1.5F); }),
              HasSubstr("edited.gguf: general.sampling.top_p: top_p: 0 to 1 expected, found 1.5"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_u32("gemma4.attention.head_count", 0); }),
              HasSubstr("gemma4.attention.head_count: 1 to 1073741824 expected, found 0"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_u32("gemma4.context_length", 0); }),
              HasSubstr("gemma4.context_length: 1 to 1073741824 expected, found 0"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_u32("gemma4.embedding_length", 0); }),
              HasSubstr("gemma4.embedding_length: 1 to 1073741824 expected, found 0"));
  EXPECT_THAT(error_with([](GgufMetadata& m) { m.set_f32("gemma4.rope.freq_base", NAN); }),
              HasSubstr("gemma4.rope.freq_base: a positive number expected, found nan"));
  EXPECT_THAT(error_with([](GgufMetadata& m) {
                m.set_f32("gemma4.attention.layer_norm_rms_epsilon", INFINITY);
              }),
              HasSubstr("layer_norm_rms_epsilon: a positive number expected, found inf"));
}

TEST(Quantization, AFileWithoutATokenizerIsTaken) {
  const TempFolder work;
  QuantizeOptions options;
  options.file_type = FileType::kQ8_0;
  OutputPlan plan = value_of(plan_conversion(kBundled, options));
  std::vector<std::string> keys;
  for (const GgufMetadata::Entry& entry : plan.metadata.entries()) {
    if (entry.key.starts_with("tokenizer.")) keys.push_back(entry.key);
  }
  for (const std::string& key : keys) plan.metadata.remove(key);
  ASSERT_TRUE(write(plan, work / "bare.gguf", {}).ok());
  EXPECT_EQ(value_of(read_config(value_of(GgufFile::open(work / "bare.gguf")))).vocab_size, 8192U);
  EXPECT_EQ(value_of(plan_quantization(work / "bare.gguf", options)).tensors.size(),
            plan.tensors.size());
}

// The writer makes no shards, so their keys are written under another name of the same length.
void make_shard(const std::string& path, const GgufMetadata& metadata,
                std::span<const OutputTensor> tensors) {
  ASSERT_TRUE(write_gguf(path, metadata, tensors, {}).ok());
  std::string bytes = testing_support::read_text(path);
  for (const char* key : {"no", "count", "tensors.count"}) {
    const size_t at = bytes.find(fmt::format("shard.{}", key));
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, 5, "split");
  }
  testing_support::write_text(path, bytes);
}

TEST(Quantization, EveryShardIsAnInput) {
  const TempFolder work;
  OutputPlan plan = value_of(plan_conversion(kBundled, {}));
  const std::span<const OutputTensor> tensors = plan.tensors;
  GgufMetadata second;
  const auto mark = [&](GgufMetadata& metadata, uint16_t number) {
    const auto set_u16 = [&](const char* key, uint16_t value) {
      metadata.set(key, {.type = ValueType::kU16, .bytes = std::as_bytes(std::span(&value, 1))});
    };
    set_u16("shard.no", number);
    set_u16("shard.count", 2);
    metadata.set_i32("shard.tensors.count", static_cast<int32_t>(tensors.size()));
  };
  mark(plan.metadata, 0);
  mark(second, 1);
  const std::string first = work / "m-00001-of-00002.gguf";
  const std::string other = work / "m-00002-of-00002.gguf";
  make_shard(first, plan.metadata, tensors.first(9));
  make_shard(other, second, tensors.subspan(9));
  QuantizeOptions options;
  options.allow_requantize = true;
  EXPECT_THAT(value_of(plan_quantization(first, options)).inputs,
              testing::ElementsAre(first, other));
}

TEST(Quantization, AnUnknownArchitectureIsNamed) {
  const TempFolder work;
  GgufMetadata metadata;
  metadata.set_string("general.architecture", "llama");
  ASSERT_TRUE(write_gguf(work / "llama.gguf", metadata, {}, {}).ok());
  EXPECT_THAT(plan_quantization(work / "llama.gguf", {}).error().message,
              HasSubstr("found \"llama\""));
}

TEST(HfMetadata, AChatTemplateThatIsNotUtf8IsRefused) {
  const TempFolder work;
  const std::string folder = complete("micro-ple", work);
  testing_support::write_text(folder + "/chat_template.jinja", "\xFF\xFE{{");
  const auto refused = plan_conversion(folder, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("chat_template.jinja: UTF-8 expected"));
}

// Nothing is written that the commands which load it would refuse.
TEST(HfMetadata, WhatCouldNotBeLoadedIsRefused) {
  const TempFolder work;
  const std::string folder = complete("micro-ple", work);
  const auto error_with = [&](const std::string& name, const std::string& text) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    const bool existed = std::filesystem::exists(path);
    const std::string before = existed ? testing_support::read_text(path) : "";
    testing_support::write_text(path, text);
    const auto refused = plan_conversion(folder, {});
    if (existed) {
      testing_support::write_text(path, before);
    } else {
      std::filesystem::remove(path);
    }
    if (refused.ok()) return std::string("nothing refused");
    EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt) << refused.error().message;
    return refused.error().message;
  };
  EXPECT_THAT(error_with("chat_template.jinja", "{% if %}"), HasSubstr("chat_template.jinja: "));
  EXPECT_THAT(error_with("tokenizer_config.json", R"({"chat_template": "{{"})"),
              HasSubstr("tokenizer_config.json: "));
  EXPECT_THAT(error_with("generation_config.json", R"({"top_p": 1.5})"),
              HasSubstr("generation_config.json: top_p: 0 to 1 expected, found 1.5"));
  EXPECT_THAT(error_with("generation_config.json", R"({"temperature": -1})"),
              HasSubstr("generation_config.json: temperature: a number from 0 up expected"));
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_THAT(error_with("tokenizer_config.json",
                         R"({"chat_template": [{"name": )" + deep + R"(, "template": 1}]})"),
              HasSubstr("tokenizer_config.json: arrays and objects nested at most 100 deep"));
  EXPECT_THAT(error_with("generation_config.json", R"({"eos_token_id": )" + deep + "}"),
              HasSubstr("generation_config.json: arrays and objects nested at most 100 deep"));
  std::string tokenizer = testing_support::read_text(folder + "/tokenizer.json");
  const size_t merges = tokenizer.find("\"merges\"");
  const size_t first = tokenizer.find('[', tokenizer.find('[', merges) + 1);
  const size_t end = tokenizer.find(']', first) + 1;
  tokenizer.insert(end, "," + tokenizer.substr(first, end - first));
  EXPECT_THAT(error_with("tokenizer.json", tokenizer), HasSubstr("tokenizer.json: "));
}

// Also where the template comes from another file.
TEST(HfMetadata, ABrokenTokenizerConfigIsRefused) {
  const TempFolder work;
  const std::string folder = complete("micro-ple", work);
  testing_support::write_text(folder + "/chat_template.jinja", "J");
  for (const char* text : {"", "[]", "{\"chat_template\": ", R"({"chat_template": 3})"}) {
    testing_support::write_text(folder + "/tokenizer_config.json", text);
    const auto refused = plan_conversion(folder, {});
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("tokenizer_config.json: "));
  }
}

TEST(HfMetadata, ChatTemplateComesFromEitherFile) {
  const TempFolder work;
  const std::string folder = complete("micro-ple", work);
  const auto chat_template = [&] {
    QuantizeOptions options;
    options.file_type = FileType::kQ8_0;
    const OutputPlan plan = value_of(plan_conversion(folder, options));
    EXPECT_TRUE(write(plan, work / "t.gguf", {}).ok());
    return value_of(read_gguf_vocabulary(value_of(GgufFile::open(work / "t.gguf")))).chat_template;
  };
  EXPECT_EQ(chat_template(), "");
  testing_support::write_text(
      folder + "/tokenizer_config.json",
      R"({"chat_template": [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]})");
  EXPECT_EQ(chat_template(), "D");
  testing_support::write_text(folder + "/chat_template.jinja", "J");
  EXPECT_EQ(chat_template(), "J");
}

}  // namespace
}  // namespace hf2q
