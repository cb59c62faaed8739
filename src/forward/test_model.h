#pragma once
// A small checkpoint, converted and loaded, with its expected values: for tests of the forward
// pass.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/plan.h"
#include "forward/forward.h"
#include "gguf/reader.h"
#include "kv/pool.h"
#include "kv/sequence.h"
#include "model/weights.h"
#include "safetensors/safetensors.h"
#include "safetensors/widen.h"
#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {

struct TestSetup {
  FileType file_type = FileType::kF32;
  KvFormats kv_formats = {KvFormat::kF32, KvFormat::kF32, KvFormat::kF32, KvFormat::kF32};
  uint32_t page_positions = 32;
  size_t n_threads = 2;
  uint32_t max_rows = 512;
  uint32_t n_ctx = 8192;
};

struct RunOptions {
  size_t chunk = 512;      // rows of one batch
  bool all_logits = true;  // of every position, else of the last one
  Wants last = Wants::kLogits;
  std::vector<float> soft_rows;  // replace the embeddings from soft_at on
  size_t soft_at = 0;
  bool soft_block = false;  // the soft rows see each other
  const Observer* observer = nullptr;
};

class TestModel {
 public:
  TestModel(const std::string& folder, const TestSetup& setup)
      : setup_(setup), exec_(setup.n_threads) {
    // The small checkpoints share one tokenizer, which is kept with the bundled model.
    const testing_support::TempFolder work;
    std::filesystem::copy(folder, work.path() / "checkpoint",
                          std::filesystem::copy_options::recursive);
    const std::string tokenizer = work / "checkpoint/tokenizer.json";
    if (!std::filesystem::exists(tokenizer)) {
      std::filesystem::copy(HF2Q_MODELS "/tiny-gemma4/tokenizer.json", tokenizer);
    }
    QuantizeOptions options;
    options.file_type = setup.file_type;
    auto plan = plan_conversion(work / "checkpoint", options);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_TRUE(write(plan.value(), work / "model.gguf", {}).ok());
    const GgufFile file = testing_support::value_of(GgufFile::open(work / "model.gguf"));
    auto weights = load_weights(file, {}, exec_);
    EXPECT_TRUE(weights.ok()) << weights.error().message;
    weights_ = std::make_unique<Weights>(std::move(weights.value()));
    make_cache();
  }

  const Config& config() const { return weights_->config; }
  const Weights& weights() const { return *weights_; }
  Pool& pool() { return *pool_; }
  const KvPlan& plan() const { return plan_; }
  Workspace& workspace() { return *workspace_; }
  Sequence new_sequence() { return Sequence(*pool_, {setup_.n_ctx, 64}); }

  CacheView view(std::span<Sequence* const> sequences) {
    pages_.clear();
    for (Sequence* sequence : sequences) {
      for (size_t g = 0; g < plan_.groups.size(); ++g) pages_.push_back(sequence->pages(g).data());
    }
    return {plan_.groups, plan_.places, pages_};
  }

  std::optional<BadRow> forward(const Batch& batch, const CacheView& cache) {
    return hf2q::forward(exec_, *weights_, batch, cache, *workspace_);
  }

  // Reserves, runs and commits; the logits of the rows that want them.
  std::vector<float> step(const Batch& batch, std::span<Sequence* const> sequences,
                          const Observer* observer = nullptr) {
    std::vector<uint32_t> n_rows(sequences.size());
    for (const BatchRow& row : batch.rows) ++n_rows[row.sequence];
    for (size_t s = 0; s < sequences.size(); ++s) EXPECT_FALSE(sequences[s]->reserve(n_rows[s]));
    EXPECT_FALSE(hf2q::forward(exec_, *weights_, batch, view(sequences), *workspace_, observer));
    for (size_t s = 0; s < sequences.size(); ++s) sequences[s]->commit(n_rows[s]);
    const std::span<const float> logits = workspace_->logits();
    return {logits.begin(), logits.end()};
  }

  // Runs `ids` behind what the sequence holds, in chunks; logits [wanted positions, vocabulary].
  std::vector<float> run(const std::vector<int32_t>& ids, Sequence& sequence,
                         const RunOptions& options = {}) {
    std::vector<float> all;
    const size_t hidden = config().hidden_dim;
    const size_t n_soft = options.soft_rows.size() / hidden;
    for (size_t at = 0; at < ids.size();) {
      size_t end = std::min(at + options.chunk, ids.size());
      // A block is never split: the chunk grows to its end.
      if (options.soft_block && end > options.soft_at && end < options.soft_at + n_soft) {
        end = options.soft_at + n_soft;
      }
      Batch batch;
      batch.soft_rows = options.soft_rows;
      for (size_t i = at; i < end; ++i) {
        BatchRow row;
        row.position = sequence.length() + static_cast<uint32_t>(i - at);
        row.token = ids[i];
        if (i >= options.soft_at && i < options.soft_at + n_soft) {
          row.token = 0;
          row.soft = static_cast<int32_t>(i - options.soft_at);
          row.block = options.soft_block ? 0 : -1;
        }
        if (options.all_logits) row.wants = Wants::kLogits;
        if (i + 1 == ids.size()) row.wants = options.last;
        batch.rows.push_back(row);
      }
      Sequence* one[] = {&sequence};
      const std::vector<float> logits = step(batch, one, options.observer);
      all.insert(all.end(), logits.begin(), logits.end());
      at = end;
    }
    return all;
  }

  std::vector<float> run(const std::vector<int32_t>& ids, const RunOptions& options = {}) {
    Sequence sequence = new_sequence();
    return run(ids, sequence, options);
  }

 private:
  void make_cache() {
    std::vector<KvLayerSpec> layers;
    for (uint32_t i = 0; i < config().n_layers; ++i) {
      const LayerConfig& layer = config().layers[i];
      layers.push_back({layer.sliding ? config().sliding_window : 0, layer.n_kv_heads,
                        layer.head_dim, config().owns_kv(i)});
    }
    plan_ = testing_support::value_of(plan_kv(layers, setup_.kv_formats, setup_.page_positions));
    pool_ =
        testing_support::value_of(Pool::create(plan_.groups, {uint64_t{2} << 30, /*poison=*/true}));
    workspace_ = std::make_unique<Workspace>(
        *weights_, exec_, WorkspaceLimits{setup_.max_rows, setup_.max_rows, setup_.n_ctx});
  }

  TestSetup setup_;
  Exec exec_;
  std::unique_ptr<Weights> weights_;
  KvPlan plan_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Workspace> workspace_;
  std::vector<std::byte* const*> pages_;
};

// golden.json and golden.safetensors of a checkpoint.
class Golden {
 public:
  explicit Golden(const std::string& folder)
      : json_(nlohmann::json::parse(testing_support::read_text(folder + "/golden.json"))),
        tensors_(testing_support::value_of(SafetensorsFile::open(folder + "/golden.safetensors"))) {
  }

  const nlohmann::json& json() const { return json_; }
  bool has(const std::string& name) const { return tensors_.find(name) != nullptr; }
  std::vector<float> tensor(const std::string& name) const {
    const SourceTensor* tensor = tensors_.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    if (tensor == nullptr) return {};
    std::vector<float> values(tensor->n_elements());
    EXPECT_TRUE(widen(*tensor, 0, values.size(), values.data()).ok());
    return values;
  }
  std::vector<int32_t> prompt(const std::string& name) const {
    return json_["prompts"][name]["token_ids"].get<std::vector<int32_t>>();
  }

 private:
  nlohmann::json json_;
  SafetensorsFile tensors_;
};

inline double max_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= worst)) worst = difference;  // a NaN counts
  }
  return worst;
}

}  // namespace hf2q
