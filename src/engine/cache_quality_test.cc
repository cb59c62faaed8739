#include "engine/cache_quality.h"

#include <gtest/gtest.h>

#include "engine/test_engine.h"
#include "forward/test_model.h"

namespace hf2q {
namespace {

using testing_support::value_of;

EngineOptions quality_options(KvFormat k, KvFormat v) {
  EngineOptions options;
  options.n_ctx = 1024;
  options.max_rows = 128;
  options.max_outputs = 128;
  options.n_threads = 2;
  options.kv_formats = {k, v, k, v};
  return options;
}

std::unique_ptr<Engine> load(const std::string& folder, KvFormat k, KvFormat v) {
  return load_test_engine(folder, FileType::kF32, quality_options(k, v));
}

std::vector<int32_t> text(const std::string& folder, size_t n) {
  auto ids = Golden(folder).json()["ppl"]["token_ids"].get<std::vector<int32_t>>();
  ids.resize(n);
  return ids;
}

class CacheQualityTest : public testing::Test {
 protected:
  static CacheQuality measure(KvFormat k, KvFormat v) {
    static const std::unique_ptr<Engine> reference =
        load(HF2Q_MODELS "/tiny-gemma4", KvFormat::kF32, KvFormat::kF32);
    const auto other = value_of(reference->with_other_cache(quality_options(k, v)));
    EXPECT_EQ(&other->weights(), &reference->weights());
    return value_of(compare_caches(*reference, *other, text(HF2Q_TEST_DATA "/tiny-gemma4", 600)));
  }
};

TEST_F(CacheQualityTest, TheSameCacheIsNoDifference) {
  const CacheQuality same = measure(KvFormat::kF32, KvFormat::kF32);
  EXPECT_EQ(same.divergence.kl_mean, 0);
  EXPECT_EQ(same.divergence.n_tokens, 599U);
  EXPECT_EQ(same.attention_cosine, std::vector<double>(same.attention_cosine.size(), 1.0));
  EXPECT_EQ(same.n_routed, 0U);
}

TEST_F(CacheQualityTest, FewerBitsCostMore) {
  const CacheQuality tq8 = measure(KvFormat::kF16, KvFormat::kTq8);
  EXPECT_GT(tq8.divergence.kl_mean, 0);
  EXPECT_LT(tq8.divergence.kl_mean, 5e-5);
  for (const double cosine : tq8.attention_cosine) EXPECT_GT(cosine, 0.9999);
  const CacheQuality tq4 = measure(KvFormat::kTq4, KvFormat::kTq4);
  const CacheQuality tq3_5 = measure(KvFormat::kTq3Half, KvFormat::kTq3Half);
  const CacheQuality tq2_5 = measure(KvFormat::kTq2Half, KvFormat::kTq2Half);
  EXPECT_LT(tq4.divergence.kl_mean, 0.02);
  const double ratio = tq3_5.divergence.kl_mean / tq4.divergence.kl_mean;
  EXPECT_GT(ratio, 1.5);
  EXPECT_LT(ratio, 2.7);
  EXPECT_GT(tq2_5.divergence.kl_mean, 2 * tq3_5.divergence.kl_mean);
  for (size_t i = 0; i < tq4.attention_cosine.size(); ++i) {
    EXPECT_GT(tq4.attention_cosine[i], tq2_5.attention_cosine[i]);
  }
}

// Random experts flip often, and as often as rows of both caches say.
TEST(CacheQuality, CountsRouterFlips) {
  const std::string folder = HF2Q_TEST_DATA "/micro-moe";
  const auto f32 = load(folder, KvFormat::kF32, KvFormat::kF32);
  const auto tq2 = load(folder, KvFormat::kTq2, KvFormat::kTq2);
  const std::vector<int32_t> ids(300, 7);
  const CacheQuality flips = value_of(compare_caches(*f32, *tq2, ids));
  EXPECT_EQ(flips.n_routed, 300U * f32->config().n_layers);
  EXPECT_GT(flips.n_flips, 0U);
  EXPECT_LT(flips.n_flips, flips.n_routed);
}

}  // namespace
}  // namespace hf2q
