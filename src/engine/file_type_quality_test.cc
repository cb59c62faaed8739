// What each file type costs in quality, so that nothing makes one worse unnoticed: the divergence
// from F32 on the first 256 tokens of the held-out text (docs/quality.md has all of them), and a
// code that has to be found again. The larger checkpoints are not part of the repository.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "convert/imatrix_file.h"
#include "engine/generate.h"
#include "engine/imatrix_collector.h"
#include "engine/test_engine.h"
#include "engine/text_score.h"
#include "forward/test_model.h"

namespace hf2q {
namespace {

using testing_support::value_of;

struct Checkpoint {
  std::string name;
  std::string weights;  // folder of the checkpoint
  std::string golden;   // folder of the expected values
};

// 0: dense, which is bundled; 1: moe, 2: ple.
std::vector<Checkpoint> checkpoints() {
  std::vector<Checkpoint> result = {
      {"dense", HF2Q_MODELS "/tiny-gemma4", HF2Q_TEST_DATA "/tiny-gemma4"}};
  for (const char* name : {"moe", "ple"}) {
    const std::string folder = std::string(HF2Q_REFERENCE) + "/" + name;
    if (std::filesystem::exists(folder)) result.push_back({name, folder, folder});
  }
  return result;
}

std::unique_ptr<Engine> load(const Checkpoint& checkpoint, FileType file_type, uint32_t max_outputs,
                             const std::string& imatrix_path = {}) {
  EngineOptions options;
  options.n_ctx = 2048;
  options.max_rows = 128;
  options.max_outputs = max_outputs;
  options.n_threads = 2;
  options.kv_formats = {KvFormat::kF32, KvFormat::kF32, KvFormat::kF32, KvFormat::kF32};
  return load_test_engine(checkpoint.weights, file_type, options, imatrix_path);
}

std::vector<int32_t> held_out_text(const Checkpoint& checkpoint) {
  return Golden(checkpoint.golden).json()["ppl"]["token_ids"].get<std::vector<int32_t>>();
}

// The importance of weights for 512 tokens that are not among those of the comparison.
void write_importance(const Checkpoint& checkpoint, Engine& engine, const std::string& path) {
  ImatrixCollector collector(engine.config().n_experts, /*output_weight=*/false);
  const Observer observer = [&](const Point& point) { collector.add(point); };
  PromptHooks hooks;
  hooks.observer = &observer;
  Sequence sequence = engine.new_sequence();
  const std::vector<int32_t> text = held_out_text(checkpoint);
  const auto other = std::span(text).subspan(1024, 512);
  ASSERT_TRUE(read_prompt(engine, sequence, other, Wants::kNothing, {}, hooks).ok());
  ASSERT_TRUE(write_imatrix(path, value_of(collector.result(engine.file()))).ok());
}

struct Cost {
  double kl_mean;
  int n_other;  // of 255 predictions, those with another token on top
};

struct Measured {
  const char* name;
  FileType file_type;
  Cost dense;
  Cost moe;
  Cost ple;
  bool with_importance = false;
};

// `hf2q perplexity --against` the F32 file, with an F32 cache.
constexpr Measured kMeasured[] = {
    {"q8_0", FileType::kQ8_0, {0.000528, 1}, {0.0031, 8}, {0.000791, 5}},
    {"q6_k", FileType::kQ6_K, {0.00239, 9}, {0.00617, 15}, {0.0025, 8}},
    {"q5_k_m", FileType::kQ5_K_M, {0.0055, 11}, {0.0121, 13}, {0.00573, 12}},
    {"q5_k_s", FileType::kQ5_K_S, {0.00582, 10}, {0.0133, 15}, {0.00644, 10}},
    {"q5_1", FileType::kQ5_1, {0.00632, 15}, {0.0103, 17}, {0.00733, 11}},
    {"q5_0", FileType::kQ5_0, {0.00849, 13}, {0.015, 22}, {0.00859, 14}},
    {"q4_k_m", FileType::kQ4_K_M, {0.0183, 12}, {0.0255, 18}, {0.0174, 18}},
    {"q4_k_s", FileType::kQ4_K_S, {0.0205, 13}, {0.0289, 18}, {0.0189, 22}},
    {"q4_1", FileType::kQ4_1, {0.0238, 20}, {0.0337, 34}, {0.0274, 24}},
    {"q4_0", FileType::kQ4_0, {0.0268, 23}, {0.03, 23}, {0.0315, 26}},
    {"iq4_nl", FileType::kIQ4_NL, {0.0212, 26}, {0.0228, 29}, {0.0221, 18}},
    {"q3_k_l", FileType::kQ3_K_L, {0.0498, 27}, {0.0709, 36}, {0.0523, 32}},
    {"q3_k_m", FileType::kQ3_K_M, {0.055, 30}, {0.0594, 30}, {0.0592, 36}},
    {"q3_k_s", FileType::kQ3_K_S, {0.0837, 39}, {0.0818, 47}, {0.0893, 38}},
    {"q2_k", FileType::kQ2_K, {0.229, 67}, {0.224, 70}, {0.248, 79}},
    {"q2_k_s", FileType::kQ2_K_S, {0.277, 70}, {0.247, 68}, {0.224, 76}, true},
};

struct Case {
  std::string name;
  Checkpoint checkpoint;
  FileType file_type;
  Cost measured;
  bool with_importance = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::vector<Case> quality_cases() {
  std::vector<Case> cases;
  for (const Checkpoint& checkpoint : checkpoints()) {
    for (const Measured& type : kMeasured) {
      const Cost cost = checkpoint.name == "dense" ? type.dense
                        : checkpoint.name == "moe" ? type.moe
                                                   : type.ple;
      cases.push_back({checkpoint.name + "_" + type.name, checkpoint, type.file_type, cost,
                       type.with_importance});
    }
  }
  return cases;
}

class FileTypeQuality : public testing::TestWithParam<Case> {
 protected:
  // One at a time: the tests of a checkpoint follow one another.
  static Engine& reference() {
    static std::string loaded;
    static std::unique_ptr<Engine> kept;
    if (loaded != GetParam().checkpoint.name) {
      kept.reset();
      kept = load(GetParam().checkpoint, FileType::kF32, 128);
      loaded = GetParam().checkpoint.name;
    }
    return *kept;
  }
};

TEST_P(FileTypeQuality, IsAtMostAFifthWorseThanMeasured) {
  const testing_support::TempFolder work;
  std::string importance;
  if (GetParam().with_importance) {
    importance = work / "importance.gguf";
    write_importance(GetParam().checkpoint, reference(), importance);
  }
  const auto quantized = load(GetParam().checkpoint, GetParam().file_type, 128, importance);
  const std::vector<int32_t> text = held_out_text(GetParam().checkpoint);
  const Divergence d =
      value_of(compare_on_text(reference(), *quantized, std::span(text).first(256)));
  ASSERT_EQ(d.n_tokens, 255U);
  const Cost& measured = GetParam().measured;
  EXPECT_LE(d.kl_mean, 1.2 * measured.kl_mean);
  EXPECT_LE((1 - d.same_top1) * 255, 1.2 * measured.n_other + 1);
  // Much better would be a comparison of F32 with itself.
  EXPECT_GE(d.kl_mean, measured.kl_mean / 2);
  EXPECT_LE(d.kl_median, d.kl_p99);
}

INSTANTIATE_TEST_SUITE_P(All, FileTypeQuality, testing::ValuesIn(quality_cases()),
                         [](const auto& info) { return info.param.name; });

// The checkpoint is BF16, and F16 rounds only its smallest values.
TEST(FileTypeQualityOf16Bits, IsThatOfF32) {
  const Checkpoint dense = checkpoints().front();
  const auto reference = load(dense, FileType::kF32, 128);
  const std::vector<int32_t> text = held_out_text(dense);
  for (const FileType type : {FileType::kBF16, FileType::kF16}) {
    const auto other = load(dense, type, 128);
    const Divergence d = value_of(compare_on_text(*reference, *other, std::span(text).first(256)));
    EXPECT_LE(d.kl_mean, 1e-10);
    EXPECT_EQ(d.same_top1, 1);
  }
}

std::vector<Case> recall_cases() {
  std::vector<Case> cases;
  for (const Checkpoint& checkpoint : checkpoints()) {
    if (checkpoint.name == "dense") continue;  // its own weights find no code
    cases.push_back({checkpoint.name + "_f32", checkpoint, FileType::kF32, {}});
    cases.push_back({checkpoint.name + "_bf16", checkpoint, FileType::kBF16, {}});
    cases.push_back({checkpoint.name + "_q8_0", checkpoint, FileType::kQ8_0, {}});
  }
  return cases;
}

class Recall : public testing::TestWithParam<Case> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Recall);

// The longest of the 24 prompts: a code stands more than a thousand tokens before its question.
// (bench/quality asks all of them.)
TEST_P(Recall, FindsACodeAgain) {
  const Golden golden(GetParam().checkpoint.golden);
  const nlohmann::json& prompts = golden.json()["recall_prompts"];
  const nlohmann::json& prompt = *std::max_element(
      prompts.begin(), prompts.end(),
      [](const auto& a, const auto& b) { return a["token_ids"].size() < b["token_ids"].size(); });
  const auto engine = load(GetParam().checkpoint, GetParam().file_type, 1);
  Sequence sequence = engine->new_sequence();
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.n_predict = 16;
  const auto ids = prompt["token_ids"].template get<std::vector<int32_t>>();
  ASSERT_GT(ids.size(), 1500U);
  const Generation answer = value_of(generate(*engine, sequence, ids, options));
  EXPECT_NE(answer.text.find(prompt["answer"].template get<std::string>()), std::string::npos)
      << answer.text;
}

INSTANTIATE_TEST_SUITE_P(All, Recall, testing::ValuesIn(recall_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hf2q
