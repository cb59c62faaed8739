// Models whose layers fall into many cache groups.

#include <gtest/gtest.h>

#include "base/huge_memory.h"
#include "forward/forward.h"
#include "kv/pool.h"
#include "kv/sequence.h"
#include "model/small_file.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using testing_support::value_of;

// The logits behind `ids`, read in batches of `chunk`.
std::vector<float> logits_of(const std::vector<uint32_t>& kv_heads, size_t n_groups,
                             const std::vector<int32_t>& ids, size_t chunk) {
  const auto bytes = test::small_file(test::small_config(kv_heads));
  const GgufFile file = value_of(GgufFile::parse(bytes, "m.gguf"));
  Exec exec(2);
  const Weights weights = value_of(load_weights(file, {}, exec));
  std::vector<KvLayerSpec> layers;
  for (const LayerConfig& layer : weights.config.layers) {
    layers.push_back({layer.sliding ? 4U : 0U, layer.n_kv_heads, layer.head_dim, true});
  }
  const KvPlan plan = value_of(plan_kv(layers, {}));
  EXPECT_EQ(plan.groups.size(), n_groups);
  const std::unique_ptr<Pool> pool = value_of(Pool::create(plan.groups, {uint64_t{1} << 28, true}));
  Workspace workspace(weights, exec, {64, 1, 128});
  Sequence sequence(*pool, {128, 64});
  for (size_t at = 0; at < ids.size(); at += chunk) {
    Batch batch;
    for (size_t i = at; i < std::min(at + chunk, ids.size()); ++i) {
      batch.rows.push_back({0, static_cast<uint32_t>(i), ids[i], -1, -1, Wants::kNothing});
    }
    batch.rows.back().wants = Wants::kLogits;
    EXPECT_FALSE(sequence.reserve(static_cast<uint32_t>(batch.rows.size())));
    std::vector<std::byte* const*> pages;
    for (size_t g = 0; g < plan.groups.size(); ++g) pages.push_back(sequence.pages(g).data());
    EXPECT_FALSE(forward(exec, weights, batch, {plan.groups, plan.places, pages}, workspace));
    sequence.commit(static_cast<uint32_t>(batch.rows.size()));
  }
  return {workspace.logits().begin(), workspace.logits().end()};
}

// Even layers slide: ten kinds of layers. One by one and all at once the rows meet the same groups.
TEST(CacheGroups, TenOfThem) {
  const std::vector<uint32_t> kv_heads = {1, 1, 2, 2, 4, 4, 8, 8, 16, 16};
  const std::vector<int32_t> ids = {2, 7, 1, 8, 2, 8, 1, 8, 2, 8};
  const std::vector<float> logits = logits_of(kv_heads, 10, ids, 10);
  ASSERT_EQ(logits.size(), 64U);
  for (const float x : logits) EXPECT_TRUE(std::isfinite(x));
  EXPECT_NE(logits[0], logits[1]);
  EXPECT_EQ(logits_of(kv_heads, 10, ids, 1), logits);
}

}  // namespace
}  // namespace hf2q
