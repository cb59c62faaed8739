#include "kv/plan.h"

#include <gtest/gtest.h>

namespace hf2q {
namespace {

// `pattern` sliding layers, then a full one, and so on; the last `n_shared` layers own nothing.
std::vector<KvLayerSpec> gemma_layers(size_t n_layers, size_t pattern, size_t n_shared,
                                      KvLayerSpec sliding, KvLayerSpec full) {
  std::vector<KvLayerSpec> layers;
  for (size_t i = 0; i < n_layers; ++i) {
    layers.push_back(i % (pattern + 1) == pattern ? full : sliding);
    layers.back().owns = i < n_layers - n_shared;
  }
  return layers;
}

constexpr KvFormats kF32 = {KvFormat::kF32, KvFormat::kF32, KvFormat::kF32, KvFormat::kF32};
constexpr KvFormats kF16 = {KvFormat::kF16, KvFormat::kF16, KvFormat::kF16, KvFormat::kF16};

// Bytes of `positions` tokens of one layer, from whole pages.
uint64_t layer_bytes(uint32_t n_layers, uint32_t heads, uint32_t dim, uint64_t positions,
                     const KvFormats& formats, uint32_t page_positions) {
  const std::vector<KvLayerSpec> layers(n_layers, {0, heads, dim});
  const KvPlan plan = plan_kv(layers, formats, page_positions).value();
  return bytes_at_rest(plan.groups, positions, 64);
}

TEST(KvPlan, BytesOfPlainFormats) {
  EXPECT_EQ(4 * layer_bytes(1, 2, 256, 8, kF32, 8), 131072U);
  EXPECT_EQ(4 * layer_bytes(1, 2, 256, 8, kF16, 8), 65536U);
  for (uint32_t page_positions : {1, 32, 128}) {
    EXPECT_EQ(layer_bytes(30, 8, 256, 1024, kF32, page_positions), 503316480U);
    EXPECT_EQ(layer_bytes(30, 8, 256, 1024, kF16, page_positions), 251658240U);
  }
}

// K of 256 values in 512 bytes, V in 256 and a norm of 4.
TEST(KvPlan, TheDefaultIsF16AndTq8) {
  EXPECT_EQ(layer_bytes(30, 8, 256, 1024, {}, 32), 30U * 8 * 1024 * (512 + 260));
}

TEST(KvPlan, LayersThatShareReadTheirDonor) {
  // E2B: 35 layers, 4 sliding to 1 full, the last 20 share; donors 13 and 14.
  KvPlan plan = plan_kv(gemma_layers(35, 4, 20, {512, 1, 256}, {0, 1, 512}), {}).value();
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].window, 512U);
  EXPECT_EQ(plan.groups[0].layout.n_layers, 12U);
  EXPECT_EQ(plan.groups[1].layout.n_layers, 3U);
  for (size_t layer = 15; layer < 35; ++layer) {
    const size_t donor = layer % 5 == 4 ? 14 : 13;
    EXPECT_EQ(plan.places[layer].group, plan.places[donor].group) << layer;
    EXPECT_EQ(plan.places[layer].layer, plan.places[donor].layer) << layer;
  }
  EXPECT_EQ(plan.places[13].layer, 11U);
  EXPECT_EQ(plan.places[14].layer, 2U);
  // E4B: 42 layers, 5 to 1, the last 18 share; donors 22 and 23.
  plan = plan_kv(gemma_layers(42, 5, 18, {512, 2, 256}, {0, 2, 512}), {}).value();
  EXPECT_EQ(plan.groups[0].layout.n_layers, 20U);
  EXPECT_EQ(plan.groups[1].layout.n_layers, 4U);
  EXPECT_EQ(plan.places[40].layer, plan.places[22].layer);
  EXPECT_EQ(plan.places[41].layer, plan.places[23].layer);
}

TEST(KvPlan, LayersThatDifferInAnythingGetTheirOwnGroup) {
  const KvLayerSpec layers[] = {{8, 2, 16}, {8, 2, 32}, {8, 4, 16},
                                {0, 2, 16}, {9, 2, 16}, {8, 2, 16}};
  const KvFormats formats = {KvFormat::kF16, KvFormat::kBF16, KvFormat::kF32, KvFormat::kF16};
  const KvPlan plan = plan_kv(layers, formats).value();
  ASSERT_EQ(plan.groups.size(), 5U);
  EXPECT_EQ(plan.places[5].group, 0U);
  EXPECT_EQ(plan.places[5].layer, 1U);
  EXPECT_EQ(plan.groups[0].layout.k_format, KvFormat::kF32);
  EXPECT_EQ(plan.groups[0].layout.v_format, KvFormat::kF16);
  EXPECT_EQ(plan.groups[3].layout.k_format, KvFormat::kF16);
  EXPECT_EQ(plan.groups[3].layout.v_format, KvFormat::kBF16);
}

TEST(KvPlan, WhatCannotBeIsRefused) {
  const auto message = [](std::vector<KvLayerSpec> layers, uint32_t page_positions = 32) {
    const auto plan = plan_kv(layers, kF16, page_positions);
    return plan.ok() ? std::string("accepted") : plan.error().message;
  };
  EXPECT_EQ(message({{0, 0, 16}}), "cache of layer 0: KV heads: at least 1 expected, found 0");
  EXPECT_EQ(message({{0, 1, 16}, {0, 1, 0}}),
            "cache of layer 1: head size for f16: at least 1 expected, found 0");
  EXPECT_EQ(message({{0, 1, 16}}, 24), "cache: page positions: a power of two expected, found 24");
  EXPECT_EQ(message({{0, 1, 16}}, 0), "cache: page positions: a power of two expected, found 0");
  EXPECT_NE(message({{0, UINT32_MAX, UINT32_MAX}}, 1U << 31).find("pages of at most"),
            std::string::npos);
  EXPECT_EQ(message({{8, 1, 16}, {0, 1, 16, false}}),
            "cache of layer 1: it shares rows, but no layer before it owns rows of 1 heads x 16 "
            "values with window 0");
  EXPECT_EQ(message({}), "accepted");

  const auto refusal = [](KvFormat format, uint32_t head_dim) {
    const KvLayerSpec layer = {0, 1, head_dim};
    const auto plan = plan_kv({&layer, 1}, {KvFormat::kF16, format, KvFormat::kF16, format});
    return plan.ok() ? std::string("accepted") : plan.error().message;
  };
  EXPECT_EQ(
      refusal(KvFormat::kTq4, 80),
      "cache of layer 0: head size for tq4: a power of two from 16 to 512 expected, found 80");
  EXPECT_NE(refusal(KvFormat::kTq2Half, 1024), "accepted");
  EXPECT_EQ(refusal(KvFormat::kTq2Half, 512), "accepted");
  EXPECT_EQ(refusal(KvFormat::kQ8_0, 48),
            "cache of layer 0: head size for q8_0: a multiple of 32 expected, found 48");
}

// Norms included; the values of ops/turboquant.h's description.
TEST(PageLayout, StoredBitsPerValue) {
  const auto bits = [](std::string_view name, size_t head_dim) {
    return kv_format_info(parse_kv_format(name).value()).bits_per_value(head_dim);
  };
  EXPECT_EQ(bits("f16", 256), 16);
  EXPECT_EQ(bits("q8_0", 256), 8.5);
  EXPECT_EQ(bits("tq8", 256), 8.125);
  EXPECT_EQ(bits("tq4", 512), 4.125);
  EXPECT_EQ(bits("tq3.5", 512), 3.625);
  EXPECT_EQ(bits("tq2.5", 256), 2.625);
  EXPECT_EQ(bits("tq2", 64), 2.5);
  EXPECT_EQ(kv_format_info(KvFormat::kTq6).row_bytes(256), 192U);
  EXPECT_EQ(kv_format_info(KvFormat::kTq3).row_bytes(512), 192U);
}

// 25 sliding layers (8 heads x 256, window 1,024) and 5 full ones (2 x 512): 5,320 MiB at 262,144
// tokens in F16, the windows' share rounded to pages and with room for rejected drafts.
TEST(KvPlan, OneLongSequenceAtRest) {
  const KvPlan plan = plan_kv(gemma_layers(30, 5, 0, {1024, 8, 256}, {0, 2, 512}), kF16).value();
  const double mib = static_cast<double>(bytes_at_rest(plan.groups, 262144, 64)) / (1 << 20);
  EXPECT_NEAR(mib, 5320, 53.2);
  EXPECT_EQ(pages_at_rest(plan.groups[1], 262144, 64), 8192U);
  // 1,023 tokens before the next one and 64 more: positions 261,057 on, from page 8,158 on.
  EXPECT_EQ(pages_at_rest(plan.groups[0], 262144, 64), 34U);
  EXPECT_EQ(pages_in_pass(plan.groups[0], 262144, 512, 64), 50U);
}

TEST(KvPlan, FirstNeededRow) {
  EXPECT_EQ(first_needed(0, 1000, 0), 0U);
  EXPECT_EQ(first_needed(4, 10, 0), 7U);  // the query at 10 sees 7 to 10
  EXPECT_EQ(first_needed(4, 3, 0), 0U);
  EXPECT_EQ(first_needed(4, 10, 2), 5U);
  EXPECT_EQ(first_needed(1, 10, 0), 10U);
  EXPECT_EQ(first_needed(4, 5, 100), 0U);
}

}  // namespace
}  // namespace hf2q
