// The forward pass against values of the reference implementation (F32, computed from the same BF16
// weights). Tolerances: 2e-4 on logits, hidden states, K, V and each nll, 1e-5 on the mean nll,
// 5e-5 on embeddings; two independent F32 implementations agree within them at every length.

#include "forward/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "forward/test_model.h"

namespace hf2q {
namespace {

constexpr double kTolerance = 2e-4;

struct Model {
  std::string name;
  std::string weights;  // folder of the checkpoint
  std::string golden;   // folder of the expected values
};

void PrintTo(const Model& c, std::ostream* out) {
  *out << c.name;
}

std::vector<Model> checkpoints() {
  std::vector<Model> result = {
      {"dense", HF2Q_MODELS "/tiny-gemma4", HF2Q_TEST_DATA "/tiny-gemma4"},
      {"micro_moe", HF2Q_TEST_DATA "/micro-moe", HF2Q_TEST_DATA "/micro-moe"},
      {"micro_ple", HF2Q_TEST_DATA "/micro-ple", HF2Q_TEST_DATA "/micro-ple"}};
  // The larger ones are not part of the repository.
  for (const char* name : {"moe", "ple"}) {
    const std::string folder = std::string(HF2Q_REFERENCE) + "/" + name;
    if (std::filesystem::exists(folder)) result.push_back({name, folder, folder});
  }
  return result;
}

class Reference : public testing::TestWithParam<Model> {
 protected:
  static TestModel& model() {
    // One model at a time: the tests of a checkpoint follow one another.
    static std::string loaded;
    static std::unique_ptr<TestModel> kept;
    if (loaded != GetParam().name) {
      kept.reset();
      kept = std::make_unique<TestModel>(GetParam().weights, TestSetup{});
      loaded = GetParam().name;
    }
    return *kept;
  }
  const Golden golden_{GetParam().golden};
};

TEST_P(Reference, LogitsAtTheEndOfEveryPrompt) {
  RunOptions options;
  options.all_logits = false;
  for (const auto& [name, prompt] : golden_.json()["prompts"].items()) {
    if (!golden_.has(name + ".logits_last")) continue;
    const std::vector<float> logits = model().run(golden_.prompt(name), options);
    EXPECT_LE(max_difference(logits, golden_.tensor(name + ".logits_last")), kTolerance) << name;
  }
}

TEST_P(Reference, Embeddings) {
  RunOptions options;
  options.all_logits = false;
  options.last = Wants::kHidden;
  for (const auto& [name, prompt] : golden_.json()["prompts"].items()) {
    if (!golden_.has(name + ".embedding")) continue;
    (void)model().run(golden_.prompt(name), options);
    std::vector<float> hidden(model().workspace().hidden().begin(),
                              model().workspace().hidden().end());
    double norm = 0;
    for (const float x : hidden) norm += static_cast<double>(x) * x;
    for (float& x : hidden) x = static_cast<float>(x / std::sqrt(norm));
    EXPECT_LE(max_difference(hidden, golden_.tensor(name + ".embedding")), 5e-5) << name;
  }
}

// [T, heads, head_dim] to [heads, T, head_dim].
std::vector<float> by_head(const float* data, size_t n, size_t n_heads, size_t head_dim) {
  std::vector<float> result(n * n_heads * head_dim);
  for (size_t t = 0; t < n; ++t) {
    for (size_t h = 0; h < n_heads; ++h) {
      std::copy_n(data + (t * n_heads + h) * head_dim, head_dim,
                  result.data() + (h * n + t) * head_dim);
    }
  }
  return result;
}

TEST_P(Reference, EveryLayerOfAShortPrompt) {
  std::map<std::string, std::vector<float>> seen;
  const Config& config = model().config();
  const Observer observer = [&](const Point& point) {
    const auto name = [&](const char* what, int i) {
      return fmt::format("short.{}.{:02}", what, i);
    };
    const std::vector<float> values(point.data, point.data + point.n * point.cols);
    if (point.name == "pre_layer_hidden") seen[name("hidden", point.layer)] = values;
    if (point.name == "output_normed")
      seen[name("hidden", static_cast<int>(config.n_layers))] = values;
    const char* cached =
        point.name == "k_cached" ? "k" : (point.name == "v_cached" ? "v" : nullptr);
    if (cached == nullptr) return;
    const LayerConfig& layer = config.layers[static_cast<size_t>(point.layer)];
    seen[name(cached, point.layer)] =
        by_head(point.data, point.n, layer.n_kv_heads, layer.head_dim);
  };
  RunOptions options;
  options.observer = &observer;
  const std::vector<float> logits = model().run(golden_.prompt("short"), options);
  EXPECT_LE(max_difference(logits, golden_.tensor("short.logits")), kTolerance);
  EXPECT_GE(seen.size(), config.n_layers + 1);
  for (const auto& [name, values] : seen) {
    EXPECT_LE(max_difference(values, golden_.tensor(name)), kTolerance) << name;
  }
}

TEST_P(Reference, TailOfALongerPrompt) {
  if (!golden_.has("recall_500.logits_tail")) return;
  const std::vector<float> expected = golden_.tensor("recall_500.logits_tail");
  const std::vector<float> logits = model().run(golden_.prompt("recall_500"));
  EXPECT_LE(max_difference(std::span(logits).last(expected.size()), expected), kTolerance);
}

TEST_P(Reference, SoftRowsStandForEmbeddings) {
  const nlohmann::json& soft = golden_.json()["soft"];
  RunOptions options;
  options.soft_rows = golden_.tensor("soft.embeddings");
  options.soft_at = soft["range"][0].get<size_t>();
  const std::vector<float> logits =
      model().run(soft["token_ids"].get<std::vector<int32_t>>(), options);
  EXPECT_LE(max_difference(logits, golden_.tensor("soft.logits")), kTolerance);
}

TEST_P(Reference, ImageRowsSeeEachOtherOnSlidingLayers) {
  if (!golden_.has("vision.soft_tokens")) return;
  const nlohmann::json& vision = golden_.json()["vision"];
  RunOptions options;
  options.soft_rows = golden_.tensor("vision.soft_tokens");
  options.soft_at = vision["image_block"][0].get<size_t>();
  const auto ids = vision["token_ids"].get<std::vector<int32_t>>();
  for (const bool block : {true, false}) {
    options.soft_block = block;
    const std::string whole = block ? "vision.logits" : "vision.logits_causal";
    const std::vector<float> expected =
        golden_.tensor(golden_.has(whole) ? whole : whole + "_tail");
    for (const size_t chunk : {512, 7}) {
      options.chunk = chunk;
      const std::vector<float> logits = model().run(ids, options);
      EXPECT_LE(max_difference(std::span(logits).last(expected.size()), expected), kTolerance)
          << whole;
    }
  }
}

TEST_P(Reference, NllOfEveryToken) {
  const auto ids = golden_.json()["ppl"]["token_ids"].get<std::vector<int32_t>>();
  const std::vector<float> expected = golden_.tensor("ppl.nll");
  const size_t vocab = model().config().vocab_size;
  Sequence sequence = model().new_sequence();
  double sum = 0;
  double worst = 0;
  for (size_t at = 0; at < ids.size(); at += 512) {
    const std::vector<int32_t> chunk(
        ids.begin() + static_cast<ptrdiff_t>(at),
        ids.begin() + static_cast<ptrdiff_t>(std::min(at + 512, ids.size())));
    const std::vector<float> logits = model().run(chunk, sequence);
    for (size_t i = at; i < std::min(at + 512, expected.size()); ++i) {
      const float* row = logits.data() + (i - at) * vocab;
      const double max = *std::max_element(row, row + vocab);
      double total = 0;
      for (size_t t = 0; t < vocab; ++t) total += std::exp(row[t] - max);
      const double nll = max + std::log(total) - row[ids[i + 1]];
      worst = std::max(worst, std::abs(nll - expected[i]));
      sum += nll;
    }
  }
  EXPECT_LE(worst, kTolerance);
  EXPECT_NEAR(sum / static_cast<double>(expected.size()),
              golden_.json()["ppl"]["mean_nll"].get<double>(), 1e-5);
}

TEST_P(Reference, GreedyContinuations) {
  RunOptions options;
  options.all_logits = false;
  for (const auto& [name, prompt] : golden_.json()["prompts"].items()) {
    if (!prompt.contains("greedy")) continue;
    Sequence sequence = model().new_sequence();
    std::vector<float> logits = model().run(golden_.prompt(name), sequence, options);
    const auto expected = prompt["greedy"].get<std::vector<int32_t>>();
    const auto margins = prompt["greedy_margin"].get<std::vector<float>>();
    for (size_t i = 0; i < expected.size() && margins[i] >= 0.02F; ++i) {
      const auto best =
          static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      ASSERT_EQ(best, expected[i]) << name << " at step " << i;
      logits = model().run({best}, sequence, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reference, testing::ValuesIn(checkpoints()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hf2q
