// Perplexity against the reference implementation's value. (file_type_quality_test.cc compares file
// types.)

#include "engine/text_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/test_engine.h"
#include "forward/test_model.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::value_of;

const std::string kModel = HF2Q_MODELS "/tiny-gemma4";

std::unique_ptr<Engine> load(FileType file_type, uint32_t max_rows = 128, uint32_t n_ctx = 4096) {
  EngineOptions options;
  options.n_ctx = n_ctx;
  options.max_rows = max_rows;
  options.max_outputs = max_rows;
  options.n_threads = 2;
  options.kv_formats = {KvFormat::kF32, KvFormat::kF32, KvFormat::kF32, KvFormat::kF32};
  return load_test_engine(kModel, file_type, options);
}

std::vector<int32_t> text(size_t n) {
  static const Golden golden(HF2Q_TEST_DATA "/tiny-gemma4");
  auto ids = golden.json()["ppl"]["token_ids"].get<std::vector<int32_t>>();
  ids.resize(n);
  return ids;
}

class TextScoreTest : public testing::Test {
 protected:
  static Engine& reference() {
    static const std::unique_ptr<Engine> engine = load(FileType::kF32);
    return *engine;
  }
};

TEST_F(TextScoreTest, HasTheReferencesNumbers) {
  const TextScore score = value_of(score_text(reference(), text(512)));
  EXPECT_EQ(score.n_tokens, 511U);
  const std::vector<float> nll = Golden(HF2Q_TEST_DATA "/tiny-gemma4").tensor("ppl.nll");
  EXPECT_NEAR(score.mean_nll, std::accumulate(nll.begin(), nll.begin() + 511, 0.0) / 511, 1e-5);
}

TEST_F(TextScoreTest, ContextsFollowOneAnother) {
  // Two contexts of 96 and one of 8: the mean of their parts.
  const std::vector<int32_t> ids = text(200);
  const auto short_context = load(FileType::kF32, 128, 96);
  const TextScore score = value_of(score_text(*short_context, ids));
  double sum = 0;
  for (const auto& [begin, n] : {std::pair{0, 96}, {96, 96}, {192, 8}}) {
    const auto part = std::span(ids).subspan(begin, n);
    sum += value_of(score_text(reference(), part)).mean_nll * (n - 1);
  }
  EXPECT_EQ(score.n_tokens, 197U);
  EXPECT_NEAR(score.mean_nll, sum / 197, 1e-12);
}

TEST_F(TextScoreTest, AModelIsItself) {
  const auto other = load(FileType::kF32, 7);
  const Divergence d = value_of(compare_on_text(reference(), *other, text(100)));
  EXPECT_EQ(d.n_tokens, 99U);
  EXPECT_LE(d.kl_p99, 1e-14);
  EXPECT_EQ(d.same_top1, 1);
  EXPECT_EQ(d.ppl_a, d.ppl_b);
  EXPECT_NEAR(d.ppl_a, std::exp(value_of(score_text(reference(), text(100))).mean_nll), 1e-5);
}

TEST_F(TextScoreTest, RefusesWhatIsNoText) {
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{}, {2}}) {
    const auto score = score_text(reference(), ids);
    ASSERT_FALSE(score.ok());
    EXPECT_THAT(score.error().message, HasSubstr("at least 2 tokens expected"));
  }
  const auto score = score_text(reference(), std::vector<int32_t>{2, 8192});
  ASSERT_FALSE(score.ok());
  EXPECT_THAT(score.error().message, HasSubstr("from 0 to 8191 expected, found 8192"));
}

}  // namespace
}  // namespace hf2q
