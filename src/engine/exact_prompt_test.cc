// PromptKv::kExact: a prompt that attends to its own rows in F32, whatever is stored.

#include <gtest/gtest.h>

#include <cstring>

#include "engine/generate.h"
#include "engine/test_engine.h"
#include "forward/test_model.h"

namespace hf2q {
namespace {

std::unique_ptr<Engine> load(const std::string& folder, KvFormat format, PromptKv prompt_kv) {
  EngineOptions options;
  options.n_ctx = 256;
  options.max_rows = 48;  // several batches, and windows that end inside
  options.n_threads = 2;
  options.prompt_kv = prompt_kv;
  options.kv_formats = {format, format, format, format};
  return load_test_engine(folder, FileType::kF32, options);
}

std::vector<int32_t> prompt(size_t n) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(3 + (i * i + 7 * i) % 90));
  return ids;
}

std::vector<float> logits_after(Engine& engine, Sequence& sequence,
                                const std::vector<int32_t>& ids) {
  const Status status = read_prompt(engine, sequence, ids, Wants::kLogits);
  EXPECT_TRUE(status.ok());
  return {engine.logits().begin(), engine.logits().end()};
}

class ExactPrompt : public testing::TestWithParam<std::string> {};

TEST_P(ExactPrompt, GivesTheBitsOfAnF32CacheAndLeavesStoredRows) {
  const auto f32 = load(GetParam(), KvFormat::kF32, PromptKv::kStored);
  const auto stored = load(GetParam(), KvFormat::kTq4, PromptKv::kStored);
  const auto exact = load(GetParam(), KvFormat::kTq4, PromptKv::kExact);
  Sequence f32_sequence = f32->new_sequence();
  Sequence stored_sequence = stored->new_sequence();
  Sequence exact_sequence = exact->new_sequence();
  const std::vector<int32_t> ids = prompt(150);
  const std::vector<float> reference = logits_after(*f32, f32_sequence, ids);
  const std::vector<float> found = logits_after(*exact, exact_sequence, ids);
  EXPECT_EQ(0, std::memcmp(reference.data(), found.data(), found.size() * sizeof(float)));
  EXPECT_NE(logits_after(*stored, stored_sequence, ids), reference);

  // What is kept are tq4 rows, and the next token reads them.
  EXPECT_EQ(exact->pool().used_bytes(), stored->pool().used_bytes());
  const std::vector<int32_t> next = {5};
  EXPECT_NE(logits_after(*exact, exact_sequence, next), logits_after(*f32, f32_sequence, next));
  EXPECT_GT(exact->memory().exact, 0U);
  EXPECT_EQ(stored->memory().exact, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, ExactPrompt,
                         testing::Values(HF2Q_TEST_DATA "/micro-moe", HF2Q_TEST_DATA "/micro-ple"),
                         [](const auto& info) {
                           return info.param.ends_with("moe") ? "moe" : "ple";
                         });

}  // namespace
}  // namespace hf2q
