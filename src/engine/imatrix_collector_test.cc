#include "engine/imatrix_collector.h"

#include <gtest/gtest.h>

#include "forward/test_model.h"

namespace hf2q {
namespace {

using testing_support::value_of;

// A file with the given matrices of two columns, as far as the collector looks at it.
class ImatrixCollectorTest : public testing::Test {
 protected:
  GgufFile file_with(const std::vector<std::string>& names) {
    std::vector<GgufTensorInfo> infos;
    for (const std::string& name : names) infos.push_back({name, {2}, TensorType::kF32});
    GgufWriter writer = value_of(GgufWriter::create(work_ / "model.gguf", {}, infos));
    const float row[2] = {};
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_TRUE(writer.write(std::as_bytes(std::span(row))).ok());
    }
    EXPECT_TRUE(writer.commit().ok());
    return value_of(GgufFile::open(work_ / "model.gguf"));
  }

 private:
  testing_support::TempFolder work_;
};

TEST_F(ImatrixCollectorTest, SumsSquaresOverBatches) {
  ImatrixCollector collector(0, false);
  const float first[] = {1, 2, 3, 4};
  const float second[] = {-5, 0.5F};
  collector.add({"matmul_input", 3, "attn_qkv", {}, -1, first, 2, 2});
  collector.add({"matmul_input", 3, "attn_qkv", {}, -1, second, 1, 2});
  // A layer without attn_v has no entry for it.
  const GgufFile file = file_with({"blk.3.attn_q.weight", "blk.3.attn_k.weight"});
  const Imatrix imatrix = value_of(collector.result(file));
  ASSERT_EQ(imatrix.entries.size(), 2U);
  for (const auto& [name, entry] : imatrix.entries) {
    EXPECT_EQ(entry.sums, (std::vector<float>{1 + 9 + 25, 4 + 16 + 0.25F})) << name;
    EXPECT_EQ(entry.counts, std::vector<int64_t>{3}) << name;
  }
}

TEST_F(ImatrixCollectorTest, EachExpertHasItsOwnRows) {
  ImatrixCollector collector(3, false);
  const float x[] = {1, 2, 3, 4, 5, 6};
  const uint32_t rows[] = {2, 0};
  collector.add({"matmul_input", 0, "ffn_gate_up_exps", rows, 1, x, 2, 2});
  collector.add({"matmul_input", 0, "ffn_gate_up_exps", std::span(rows).first(1), 2, x, 1, 2});
  const Imatrix imatrix = value_of(collector.result(file_with({"blk.0.ffn_gate_up_exps.weight"})));
  const ImatrixEntry& entry = imatrix.entries.at("blk.0.ffn_gate_up_exps.weight");
  EXPECT_EQ(entry.sums, (std::vector<float>{0, 0, 25 + 1, 36 + 4, 25, 36}));
  EXPECT_EQ(entry.counts, (std::vector<int64_t>{0, 2, 1}));
}

TEST_F(ImatrixCollectorTest, HeadOnlyWhenAskedForAndUnderItsName) {
  const float x[] = {3, 4};
  for (const bool output_weight : {false, true}) {
    ImatrixCollector collector(0, output_weight);
    collector.add({"output_normed", -1, {}, {}, -1, x, 1, 2});
    collector.add({"matmul_input", -1, "output", {}, -1, x, 1, 2});  // the same rows once more
    const auto tied = value_of(collector.result(file_with({"token_embd.weight"}))).entries;
    const auto own =
        value_of(collector.result(file_with({"token_embd.weight", "output.weight"}))).entries;
    ASSERT_EQ(tied.size(), output_weight ? 1U : 0U);
    ASSERT_EQ(own.size(), output_weight ? 1U : 0U);
    if (!output_weight) continue;
    EXPECT_EQ(tied.at("token_embd.weight").sums, (std::vector<float>{9, 16}));
    EXPECT_EQ(own.count("output.weight"), 1U);
  }
}

TEST_F(ImatrixCollectorTest, ASumThatIsNotFiniteIsRefused) {
  ImatrixCollector collector(0, false);
  const float x[] = {1e30F, 1};
  collector.add({"matmul_input", 1, "ffn_down", {}, -1, x, 1, 2});
  const auto result = collector.result(file_with({"blk.1.ffn_down.weight"}));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("blk.1.ffn_down.weight"), std::string::npos);
}

// The reference's hidden states and the checkpoint's norms give what attention's matrices meet.
TEST(ImatrixCollectorModel, InputsOfAttentionAreNormedHiddenStates) {
  const std::string folder = HF2Q_TEST_DATA "/micro-moe";
  TestModel model(folder, {});
  const Golden golden(folder);
  const Config& config = model.config();
  const size_t hidden = config.hidden_dim;
  ImatrixCollector collector(config.n_experts, true);
  const Observer observer = [&](const Point& point) { collector.add(point); };
  RunOptions options;
  options.observer = &observer;
  options.chunk = 3;
  (void)model.run(golden.prompt("short"), options);
  testing_support::TempFolder work;
  std::vector<GgufTensorInfo> infos;
  std::vector<std::string> names = {"token_embd.weight"};
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    names.push_back(fmt::format("blk.{}.attn_q.weight", i));
    names.push_back(fmt::format("blk.{}.ffn_down_exps.weight", i));
  }
  for (const std::string& name : names) infos.push_back({name, {1}, TensorType::kF32});
  GgufWriter writer = value_of(GgufWriter::create(work / "names.gguf", {}, infos));
  const float nothing[1] = {};
  for (size_t i = 0; i < names.size(); ++i)
    ASSERT_TRUE(writer.write(std::as_bytes(std::span(nothing))).ok());
  ASSERT_TRUE(writer.commit().ok());
  const Imatrix imatrix = value_of(collector.result(value_of(GgufFile::open(work / "names.gguf"))));

  const size_t n = golden.prompt("short").size();
  for (uint32_t i = 0; i <= config.n_layers; ++i) {
    const std::vector<float> x = golden.tensor(fmt::format("short.hidden.{:02}", i));
    const bool is_head = i == config.n_layers;  // its hidden states are behind the last norm
    std::vector<double> sums(hidden);
    for (size_t t = 0; t < n; ++t) {
      double mean = 0;
      for (size_t c = 0; c < hidden; ++c) mean += std::pow(x[t * hidden + c], 2) / hidden;
      for (size_t c = 0; c < hidden; ++c) {
        const double weight = is_head ? 1 : model.weights().layers[i].attn_norm[c];
        const double scale = is_head ? 1 : weight / std::sqrt(mean + config.norm_eps);
        sums[c] += std::pow(x[t * hidden + c] * scale, 2);
      }
    }
    const ImatrixEntry& entry =
        imatrix.entries.at(is_head ? "token_embd.weight" : fmt::format("blk.{}.attn_q.weight", i));
    ASSERT_EQ(entry.sums.size(), hidden);
    EXPECT_EQ(entry.counts, std::vector<int64_t>{static_cast<int64_t>(n)});
    // Values of up to 5 that agree within 2e-4, squared and summed over 7 tokens.
    for (size_t c = 0; c < hidden; ++c) EXPECT_NEAR(entry.sums[c], sums[c], 0.014) << i << " " << c;
  }
  // Every token meets n_experts_used experts.
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const auto& counts = imatrix.entries.at(fmt::format("blk.{}.ffn_down_exps.weight", i)).counts;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}),
              static_cast<int64_t>(n * config.n_experts_used));
  }
}

}  // namespace
}  // namespace hf2q
