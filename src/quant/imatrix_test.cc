#include "quant/imatrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace hf2q {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Imatrix with(const std::string& weight, ImatrixEntry entry) {
  Imatrix imatrix;
  imatrix.entries.emplace(weight, std::move(entry));
  return imatrix;
}

TEST(Importance, IsTheMeanSquareOfEachMatrix) {
  const Imatrix imatrix =
      with("blk.0.ffn_down_exps.weight", {{1.0F, 4.0F, 7.0F, 9.0F, 3.0F, 0.5F}, {2, 0, 8}});
  auto importance = importance_for(imatrix, "blk.0.ffn_down_exps.weight", 2, 3);
  ASSERT_TRUE(importance.ok());
  EXPECT_THAT(importance.value(), ElementsAre(0.5F, 2.0F, 1.0F, 1.0F, 0.375F, 0.0625F));
}

TEST(Importance, OneCountForStackedMatricesAsInTheLegacyForm) {
  const Imatrix imatrix = with("blk.0.ffn_down_exps.weight", {{1.0F, 4.0F, 7.0F, 9.0F}, {2}});
  auto importance = importance_for(imatrix, "blk.0.ffn_down_exps.weight", 2, 2);
  EXPECT_THAT(importance.value(), ElementsAre(0.5F, 2.0F, 3.5F, 4.5F));
}

TEST(Importance, DividesByTheCountRoundedToF32) {
  const int64_t count = 16777217;  // 2^24 + 1 becomes 2^24
  const Imatrix imatrix = with("blk.0.attn_q.weight", {{16777216.0F}, {count}});
  EXPECT_THAT(importance_for(imatrix, "blk.0.attn_q.weight", 1, 1).value(), ElementsAre(1.0F));
}

TEST(Importance, AMissingEntryIsNone) {
  const Imatrix imatrix = with("blk.0.attn_q.weight", {{1.0F}, {1}});
  EXPECT_THAT(importance_for(imatrix, "blk.1.attn_q.weight", 1, 1).value(), IsEmpty());
}

TEST(Importance, AnotherLengthIsRefusedExceptForEmbeddings) {
  for (const std::string weight : {"blk.0.attn_q.weight", "output.weight"}) {
    const Imatrix imatrix = with(weight, {{1.0F, 2.0F}, {1}});
    for (const auto& [ne0, ne2] : std::vector<std::pair<uint64_t, uint64_t>>{
             {3, 1}, {1, 1}, {2, 2}, {uint64_t{1} << 33, uint64_t{1} << 33}}) {
      auto importance = importance_for(imatrix, weight, ne0, ne2);
      ASSERT_FALSE(importance.ok());
      EXPECT_EQ(importance.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(importance.error().message,
                  HasSubstr(fmt::format("{}: {} x {} values expected, found 2", weight, ne2, ne0)));
    }
  }
  for (const std::string weight : {"token_embd.weight", "per_layer_token_embd.weight"}) {
    const Imatrix imatrix = with(weight, {{1.0F, 2.0F}, {1}});
    EXPECT_THAT(importance_for(imatrix, weight, 3, 1).value(), IsEmpty());
    EXPECT_THAT(importance_for(imatrix, weight, 2, 1).value(), ElementsAre(1.0F, 2.0F));
  }
}

TEST(Importance, IsFinite) {
  const Imatrix imatrix =
      with("blk.0.attn_q.weight", {{1.0F, std::numeric_limits<float>::infinity()}, {1}});
  auto importance = importance_for(imatrix, "blk.0.attn_q.weight", 2, 1);
  ASSERT_FALSE(importance.ok());
  EXPECT_THAT(importance.error().message, HasSubstr("blk.0.attn_q.weight"));
}

TEST(ImatrixMerge, AddsWhatBothHaveAndKeepsTheRest) {
  Imatrix into = with("a.weight", {{1.0F, 2.0F}, {3}});
  into.datasets = {"x.txt"};
  into.chunk_count = 5;
  into.chunk_size = 512;
  Imatrix from = with("a.weight", {{0.5F, 0.25F}, {4}});
  from.entries["b.weight"] = {{8.0F}, {1}};
  from.datasets = {"x.txt", "y.txt"};
  from.chunk_count = 7;
  from.chunk_size = 256;
  ASSERT_TRUE(merge_into(into, from).ok());
  EXPECT_THAT(into.entries["a.weight"].sums, ElementsAre(1.5F, 2.25F));
  EXPECT_THAT(into.entries["a.weight"].counts, ElementsAre(7));
  EXPECT_THAT(into.entries["b.weight"].sums, ElementsAre(8.0F));
  EXPECT_THAT(into.datasets, ElementsAre("x.txt", "y.txt"));
  EXPECT_EQ(into.chunk_count, 12U);
  EXPECT_EQ(into.chunk_size, 512U);

  from.chunk_count = std::numeric_limits<uint32_t>::max();
  ASSERT_TRUE(merge_into(into, from).ok());
  EXPECT_EQ(into.chunk_count, std::numeric_limits<uint32_t>::max());
}

TEST(ImatrixMerge, ShapesMustAgree) {
  for (const ImatrixEntry& other :
       {ImatrixEntry{{1.0F, 2.0F}, {1}}, ImatrixEntry{{1.0F, 2.0F, 3.0F, 4.0F}, {1}}}) {
    Imatrix into = with("a.weight", {{1.0F, 2.0F, 3.0F, 4.0F}, {1, 1}});
    auto merged = merge_into(into, with("a.weight", other));
    ASSERT_FALSE(merged.ok());
    EXPECT_THAT(merged.error().message, HasSubstr("a.weight: 4 sums and 2 counts expected"));
  }
}

}  // namespace
}  // namespace hf2q
