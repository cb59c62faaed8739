#include "kv/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace hf2q {
namespace {

// One layer, one head of 32 F16 values: 128 bytes per position, K and V.
KvGroup small_group(uint32_t page_positions = 32, uint32_t window = 0) {
  return {window,
          {.n_layers = 1, .n_kv_heads = 1, .head_dim = 32, .page_positions = page_positions}};
}

std::unique_ptr<Pool> make_pool(std::vector<KvGroup> groups, uint64_t budget, bool poison = false) {
  return std::move(Pool::create(groups, {budget, poison}).value());
}

using Pages = std::vector<std::vector<PageId>>;

KvStatus allocate(Pool& pool, std::vector<uint64_t> counts, Pages& pages) {
  pages.resize(pool.n_groups());
  return pool.allocate(counts, pages);
}

TEST(Pool, BudgetBelowAPageIsRefused) {
  const KvGroup group = small_group();
  ASSERT_EQ(group.layout.page_bytes(), 4096U);
  const std::vector<KvGroup> groups = {group, group};
  EXPECT_EQ(
      Pool::create(groups, {8191}).error().message,
      "cache budget: 8192 (a page of each group) to 70368744177664 bytes expected, found 8191");
  EXPECT_FALSE(Pool::create(groups, {UINT64_MAX}).ok());
  EXPECT_TRUE(Pool::create(groups, {8192}).ok());
}

TEST(Pool, EveryPageOfTheBudgetAndNoMore) {
  const auto pool = make_pool({small_group()}, 10 * 4096 + 4095);
  EXPECT_EQ(pool->free_pages(0), 10U);
  Pages pages;
  EXPECT_FALSE(allocate(*pool, {7}, pages).has_value());
  const KvStatus refused = allocate(*pool, {4}, pages);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(std::get<BudgetExceeded>(*refused),
            (BudgetExceeded{0, 4, 3, 4 * 4096, 3 * 4096 + 4095, 10 * 4096 + 4095}));
  EXPECT_EQ(to_error(*refused).message,
            "cache: 4 pages of group 0 needed, 3 free; 16384 bytes needed, 16383 of 45055 free");
  EXPECT_EQ(pages[0].size(), 7U);  // as a whole or not at all
  EXPECT_EQ(pool->used_pages(0), 7U);
  EXPECT_FALSE(allocate(*pool, {3}, pages).has_value());
  EXPECT_EQ(pool->used_bytes(), 40960U);
  EXPECT_EQ(pool->free_pages(0), 0U);
}

TEST(Pool, GroupsShareTheBudget) {
  const auto pool = make_pool({small_group(32), small_group(64)}, 16 * 4096);
  EXPECT_EQ(pool->free_pages(0), 16U);
  EXPECT_EQ(pool->free_pages(1), 8U);
  Pages pages;
  const KvStatus refused = allocate(*pool, {8, 5}, pages);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(std::get<BudgetExceeded>(*refused).needed_bytes, 18U * 4096);
  EXPECT_FALSE(allocate(*pool, {8, 4}, pages).has_value());
  EXPECT_EQ(pool->free_pages(0), 0U);
  // Bytes of one group serve the other once they are free.
  for (PageId page : pages[1]) pool->release(1, page);
  EXPECT_EQ(pool->free_pages(0), 8U);
  EXPECT_FALSE(allocate(*pool, {8, 0}, pages).has_value());
  EXPECT_EQ(pool->committed_bytes(), 16U * 4096);
}

TEST(Pool, HugeDemandsDoNotOverflow) {
  const auto pool = make_pool({small_group(32), small_group(64)}, 16 * 4096);
  Pages pages;
  const KvStatus refused = allocate(*pool, {UINT64_MAX / 2, UINT64_MAX / 4}, pages);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(std::get<BudgetExceeded>(*refused).needed_bytes, UINT64_MAX);
}

TEST(Pool, ReferencesKeepAPage) {
  const auto pool = make_pool({small_group()}, 4 * 4096);
  Pages pages;
  ASSERT_FALSE(allocate(*pool, {1}, pages).has_value());
  const PageId page = pages[0][0];
  pool->retain(0, page);
  pool->release(0, page);
  EXPECT_EQ(pool->references(0, page), 1U);
  EXPECT_EQ(pool->used_pages(0), 1U);
  pool->release(0, page);
  EXPECT_EQ(pool->used_pages(0), 0U);
  EXPECT_DEATH(pool->release(0, page), "check failed");
  EXPECT_DEATH(pool->retain(0, page), "check failed");
}

TEST(Pool, CachedPagesCountAsFreeAndAreGivenUpWhenNeeded) {
  const auto pool = make_pool({small_group()}, 4 * 4096);
  Pages pages;
  ASSERT_FALSE(allocate(*pool, {3}, pages).has_value());
  for (PageId page : pages[0]) pool->cache(0, page);
  EXPECT_EQ(pool->cached_pages(0), 0U);  // live as well
  EXPECT_FALSE(pool->is_cached(0, pages[0][0]));
  pool->release(0, pages[0][0]);
  pool->release(0, pages[0][1]);
  EXPECT_TRUE(pool->is_cached(0, pages[0][0]));
  EXPECT_EQ(pool->cached_bytes(), 2U * 4096);
  EXPECT_EQ(pool->used_pages(0), 3U);
  EXPECT_EQ(pool->free_pages(0), 3U);
  EXPECT_DEATH(pool->release(0, pages[0][0]), "check failed");  // the tree's reference
  EXPECT_DEATH(pool->cache(0, pages[0][0]), "check failed");

  std::vector<PageId> order = {pages[0][1], pages[0][0]};
  pool->set_reclaimer([&] {
    if (order.empty()) return false;
    pool->uncache(0, order.back());
    order.pop_back();
    return true;
  });
  Pages more;
  EXPECT_TRUE(allocate(*pool, {4}, more).has_value());
  EXPECT_EQ(order.size(), 2U);  // nothing was given up in vain
  ASSERT_FALSE(allocate(*pool, {2}, more).has_value());
  EXPECT_EQ(order.size(), 1U);
  pool->retain(0, order[0]);  // attached again
  EXPECT_EQ(pool->cached_pages(0), 0U);
  EXPECT_EQ(pool->free_pages(0), 0U);
}

TEST(Pool, EmptySlabsGoBackButForOne) {
  const auto pool = make_pool({small_group()}, 4 * 4096);
  Pages pages;
  ASSERT_FALSE(allocate(*pool, {4}, pages).has_value());
  EXPECT_EQ(pool->committed_bytes(), 4U * 4096);
  for (PageId page : pages[0]) pool->release(0, page);
  EXPECT_EQ(pool->committed_bytes(), 4096U);
  EXPECT_EQ(pool->free_pages(0), 4U);
}

TEST(Pool, SmallPagesShareSlabs) {
  // 4,096-byte pages under a budget of 64 MiB: slabs of 1 MiB.
  const auto pool = make_pool({small_group()}, uint64_t{64} << 20);
  Pages pages;
  ASSERT_FALSE(allocate(*pool, {257}, pages).has_value());
  EXPECT_EQ(pool->committed_bytes(), uint64_t{2} << 20);
  EXPECT_EQ(pool->used_bytes(), 257U * 4096);
  EXPECT_EQ(pool->free_pages(0), 64U * 256 - 257);
}

TEST(Pool, PagesAreApartAlignedAndPoisoned) {
  KvGroup odd = small_group(1);
  odd.layout.n_layers = 3;  // 3 * 2 * 128 bytes: slabs that are no whole pages of the system
  const auto pool = make_pool({odd}, 768 * 1100, true);
  Pages pages;
  ASSERT_FALSE(allocate(*pool, {1000}, pages).has_value());
  std::vector<std::byte*> starts;
  for (PageId page : pages[0]) starts.push_back(pool->data(0, page));
  std::sort(starts.begin(), starts.end());
  for (size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(starts[i]) % 128, 0U);
    if (i > 0) {
      EXPECT_GE(starts[i] - starts[i - 1], 768);
    }
    EXPECT_TRUE(
        std::all_of(starts[i], starts[i] + 768, [](std::byte b) { return b == std::byte{0xFF}; }));
  }
}

// Random allocations and releases against a plain list of what is held.
TEST(Pool, RandomUseKeepsTheBooks) {
  std::mt19937 random(1);
  const std::vector<KvGroup> groups = {small_group(2), small_group(8), small_group(32)};
  const uint64_t sizes[] = {256, 1024, 4096};
  const uint64_t budget = 200000;
  const auto pool = make_pool(groups, budget);
  std::vector<std::pair<size_t, PageId>> held;
  for (int round = 0; round < 20000; ++round) {
    if (random() % 2 == 0) {
      std::vector<uint64_t> counts = {random() % 30, random() % 8, random() % 3};
      const std::vector<uint64_t> before = {pool->free_pages(0), pool->free_pages(1),
                                            pool->free_pages(2)};
      Pages pages;
      const KvStatus refused = allocate(*pool, counts, pages);
      for (size_t g = 0; g < 3; ++g) {
        ASSERT_EQ(pages[g].size(), refused ? 0 : counts[g]);
        if (!refused) {
          ASSERT_LE(counts[g], before[g]);
        }
        for (PageId page : pages[g]) {
          ASSERT_EQ(pool->references(g, page), 1U);
          std::memset(pool->data(g, page), int(g), sizes[g]);  // memory is there
          held.emplace_back(g, page);
        }
      }
    } else {
      for (size_t n = random() % 20; n > 0 && !held.empty(); --n) {
        std::swap(held[random() % held.size()], held.back());
        pool->release(held.back().first, held.back().second);
        held.pop_back();
      }
    }
    uint64_t used = 0;
    for (auto [g, page] : held) used += sizes[g];
    ASSERT_EQ(pool->used_bytes(), used);
    ASSERT_LE(pool->used_bytes(), pool->committed_bytes());
    ASSERT_LE(pool->committed_bytes(), budget);
  }
  for (auto [g, page] : held) pool->release(g, page);
  EXPECT_EQ(pool->used_bytes(), 0U);
  for (size_t g = 0; g < 3; ++g) EXPECT_EQ(pool->free_pages(g) * sizes[g] / 4096, budget / 4096);
}

}  // namespace
}  // namespace hf2q
