#include "kv/sequence.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace hf2q {
namespace {

// A window of 4 over two layers, and one full layer.
std::vector<KvGroup> test_groups(uint32_t page_positions) {
  const KvLayerSpec layers[] = {{4, 2, 8}, {0, 1, 16}, {4, 2, 8}};
  const KvFormats formats = {KvFormat::kF16, KvFormat::kF16, KvFormat::kF16, KvFormat::kF16};
  return plan_kv(layers, formats, page_positions).value().groups;
}

// Rows hold 8-byte tags instead of numbers: what was written there, in which layer, plane and head.
uint64_t tag_of(uint64_t token, size_t g, size_t layer, size_t plane, size_t head) {
  return token * 1000000 + g * 10000 + layer * 1000 + plane * 100 + head;
}

template <class F>  // f(row address, tag)
void for_each_row(const Pool& pool, const Sequence& sequence, size_t g, uint32_t position,
                  uint64_t token, F f) {
  const PageLayout& layout = pool.group(g).layout;
  std::byte* page = sequence.pages(g)[position / layout.page_positions];
  ASSERT_NE(page, nullptr);
  for (size_t layer = 0; layer < layout.n_layers; ++layer) {
    for (size_t plane = 0; plane < 2; ++plane) {
      const size_t begin = plane == 0 ? layout.k_codes(layer) : layout.v_codes(layer);
      const size_t row_bytes = plane == 0 ? layout.k_row_bytes() : layout.v_row_bytes();
      for (size_t head = 0; head < layout.n_kv_heads; ++head) {
        const size_t row = head * layout.page_positions + position % layout.page_positions;
        f(page + begin + row * row_bytes, tag_of(token, g, layer, plane, head));
      }
    }
  }
}

void write(const Pool& pool, const Sequence& sequence, uint32_t position, uint64_t token) {
  for (size_t g = 0; g < pool.n_groups(); ++g) {
    for_each_row(pool, sequence, g, position, token,
                 [](std::byte* row, uint64_t tag) { std::memcpy(row, &tag, sizeof(tag)); });
  }
}

// Every row that a query at the end may read holds what was written for `tokens`.
void expect_holds(const Pool& pool, const Sequence& sequence, const std::vector<uint64_t>& tokens) {
  ASSERT_EQ(sequence.length(), tokens.size());
  for (size_t g = 0; g < pool.n_groups(); ++g) {
    for (uint32_t p = sequence.first_resident(g); p < tokens.size(); ++p) {
      for_each_row(pool, sequence, g, p, tokens[p], [&](const std::byte* row, uint64_t tag) {
        uint64_t found = 0;
        std::memcpy(&found, row, sizeof(found));
        ASSERT_EQ(found, tag) << "group " << g << " position " << p;
      });
    }
  }
}

struct Fixture {
  explicit Fixture(uint32_t page_positions, uint64_t budget = 1 << 20)
      : pool(std::move(Pool::create(test_groups(page_positions), {budget, true}).value())) {}

  Sequence sequence(uint32_t max_rollback = 0, uint32_t n_ctx = 1000) {
    return Sequence(*pool, {n_ctx, max_rollback});
  }
  // Adds tokens numbered from `first` on, in one pass.
  void append(Sequence& sequence, uint64_t first, uint32_t count) {
    ASSERT_FALSE(sequence.reserve(count).has_value());
    for (uint32_t i = 0; i < count; ++i) write(*pool, sequence, sequence.length() + i, first + i);
    sequence.commit(count);
  }

  std::unique_ptr<Pool> pool;
};

std::vector<uint64_t> numbers(uint64_t first, size_t count) {
  std::vector<uint64_t> list(count);
  for (size_t i = 0; i < count; ++i) list[i] = first + i;
  return list;
}

TEST(Sequence, GrowsByPagesInEveryGroup) {
  Fixture f(4);
  Sequence s = f.sequence(1000);
  EXPECT_EQ(f.pool->used_bytes(), 0U);
  f.append(s, 0, 4);
  EXPECT_EQ(f.pool->used_pages(0), 1U);
  f.append(s, 4, 1);
  EXPECT_EQ(f.pool->used_pages(0), 2U);
  EXPECT_EQ(f.pool->used_pages(1), 2U);
  expect_holds(*f.pool, s, numbers(0, 5));
}

TEST(Sequence, ReservingNothingIsNothing) {
  Fixture f(4);
  Sequence s = f.sequence();
  EXPECT_FALSE(s.reserve(0).has_value());
  s.commit(0);
  EXPECT_EQ(s.length(), 0U);
  EXPECT_EQ(f.pool->used_bytes(), 0U);
}

TEST(Sequence, BeyondTheContextIsAnErrorThatChangesNothing) {
  Fixture f(4);
  Sequence s = f.sequence(0, 10);
  f.append(s, 0, 8);
  const KvStatus refused = s.reserve(3);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(std::get<CapacityExceeded>(*refused), (CapacityExceeded{11, 10}));
  EXPECT_EQ(to_error(*refused).message, "sequence: at most 10 tokens expected, found 11");
  EXPECT_TRUE(s.reserve(UINT32_MAX).has_value());
  expect_holds(*f.pool, s, numbers(0, 8));
  f.append(s, 8, 2);
}

TEST(Sequence, BeyondTheBudgetFailsAsAWhole) {
  const std::vector<KvGroup> groups = test_groups(4);
  const uint64_t both = groups[0].layout.page_bytes() + groups[1].layout.page_bytes();
  Fixture f(4, 2 * both);
  Sequence s = f.sequence(1000);
  f.append(s, 0, 5);
  const KvStatus refused = s.reserve(4);
  ASSERT_TRUE(refused.has_value());
  const auto& budget = std::get<BudgetExceeded>(*refused);
  EXPECT_EQ(budget.needed_pages, 1U);
  EXPECT_EQ(budget.free_pages, 0U);
  EXPECT_EQ(budget.needed_bytes, both);
  EXPECT_EQ(budget.budget_bytes, 2 * both);
  expect_holds(*f.pool, s, numbers(0, 5));
  f.append(s, 5, 3);  // still fits
  s.drop();
  EXPECT_EQ(f.pool->used_bytes(), 0U);
}

TEST(Sequence, PartialCommitKeepsTheAcceptedTokens) {
  Fixture f(4);
  Sequence s = f.sequence();
  f.append(s, 0, 3);
  ASSERT_FALSE(s.reserve(9).has_value());
  for (uint32_t i = 0; i < 9; ++i) write(*f.pool, s, 3 + i, 900 + i);
  EXPECT_EQ(s.reserved(), 9U);
  s.commit(2);
  EXPECT_EQ(s.reserved(), 0U);
  EXPECT_EQ(f.pool->used_pages(1), 2U);
  f.append(s, 5, 3);  // over the rejected rows
  expect_holds(*f.pool, s, {0, 1, 2, 900, 901, 5, 6, 7});
  ASSERT_FALSE(s.reserve(2).has_value());
  s.commit(0);  // an aborted pass
  expect_holds(*f.pool, s, {0, 1, 2, 900, 901, 5, 6, 7});
}

TEST(Sequence, TruncateAndAppendAgain) {
  Fixture f(4);
  Sequence s = f.sequence(1000);
  f.append(s, 0, 8);
  ASSERT_FALSE(s.truncate(5).has_value());
  EXPECT_EQ(s.length(), 5U);
  f.append(s, 50, 1);
  expect_holds(*f.pool, s, {0, 1, 2, 3, 4, 50});
  ASSERT_FALSE(s.truncate(0).has_value());
  EXPECT_EQ(f.pool->used_bytes(), 0U);
  f.append(s, 7, 2);
  expect_holds(*f.pool, s, {7, 8});
}

TEST(Sequence, TruncateBeyondTheLengthIsAnError) {
  Fixture f(4);
  Sequence s = f.sequence();
  f.append(s, 0, 3);
  EXPECT_EQ(std::get<OutOfRange>(*s.truncate(4)), (OutOfRange{4, 3}));
  EXPECT_EQ(to_error(OutOfRange{4, 3}).message, "sequence: position 0 to 3 expected, found 4");
  expect_holds(*f.pool, s, numbers(0, 3));
}

TEST(Sequence, WindowPagesGoWhenNoQueryCanReachThem) {
  Fixture f(1);  // pages of one position show the exact border
  Sequence s = f.sequence(2);
  for (uint64_t token = 0; token < 12; ++token) f.append(s, token, 1);
  // The next query, at 12, sees 9 to 12; after two tokens back, at 10, it sees 7 to 10.
  EXPECT_EQ(s.first_resident(0), 7U);
  EXPECT_EQ(s.first_resident(1), 0U);
  EXPECT_EQ(f.pool->used_pages(0), 5U);
  EXPECT_EQ(f.pool->used_pages(1), 12U);
  EXPECT_EQ(s.pages(0)[6], nullptr);
  EXPECT_EQ(s.page_ids(0)[6], kNoPage);
  expect_holds(*f.pool, s, numbers(0, 12));
}

TEST(Sequence, RollbackIsAlwaysPossibleAndNoFurther) {
  for (uint32_t max_rollback : {0U, 1U, 3U}) {
    Fixture f(1);
    Sequence s = f.sequence(max_rollback);
    f.append(s, 0, 20);
    const KvStatus refused = s.truncate(20 - max_rollback - 1);
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(std::get<NotResident>(*refused),
              (NotResident{0, 16U - max_rollback, 17U - max_rollback}));
    EXPECT_EQ(s.length(), 20U);
    EXPECT_TRUE(s.truncate(0).has_value());
    EXPECT_FALSE(s.truncate(20 - max_rollback).has_value());
    f.append(s, 500, 6);
    s.drop();  // always
    EXPECT_EQ(f.pool->used_bytes(), 0U);
    f.append(s, 0, 5);
    expect_holds(*f.pool, s, numbers(0, 5));
  }
}

TEST(Sequence, WholePromptStaysUntilItsCommit) {
  Fixture f(4);
  Sequence s = f.sequence();
  ASSERT_FALSE(s.reserve(100).has_value());
  EXPECT_EQ(f.pool->used_pages(0), 25U);
  for (uint32_t i = 0; i < 100; ++i) write(*f.pool, s, i, i);
  EXPECT_EQ(s.row(0, 50).begin, 47U);
  EXPECT_EQ(s.row(0, 50).end, 51U);
  EXPECT_EQ(s.row(1, 50).begin, 0U);
  EXPECT_EQ(s.row(0, 2).begin, 0U);
  s.commit(100);
  EXPECT_EQ(f.pool->used_pages(0), 1U);  // 97 to 99
  EXPECT_EQ(f.pool->used_pages(1), 25U);
  expect_holds(*f.pool, s, numbers(0, 100));
}

TEST(Sequence, ForkSharesAllAndCopiesOnlyThePartlyFilledPage) {
  Fixture f(4);
  Sequence a = f.sequence();
  f.append(a, 0, 10);
  const uint64_t full_pages = f.pool->used_pages(1);
  Sequence b = a.fork();
  EXPECT_EQ(f.pool->used_pages(1), full_pages);
  EXPECT_EQ(f.pool->references(1, a.page_ids(1)[0]), 2U);
  f.append(b, 100, 1);
  EXPECT_EQ(f.pool->used_pages(1), full_pages + 1);
  EXPECT_EQ(f.pool->references(1, a.page_ids(1)[2]), 1U);
  f.append(a, 10, 1);  // no longer shared: nothing to copy
  EXPECT_EQ(f.pool->used_pages(1), full_pages + 1);
  std::vector<uint64_t> forked = numbers(0, 10);
  forked.push_back(100);
  expect_holds(*f.pool, b, forked);
  expect_holds(*f.pool, a, numbers(0, 11));
}

TEST(Sequence, ForkOfFullPagesCopiesNothing) {
  Fixture f(4);
  Sequence a = f.sequence();
  f.append(a, 0, 8);
  Sequence b = a.fork();
  f.append(b, 100, 1);
  EXPECT_EQ(f.pool->used_pages(1), 3U);
  ASSERT_FALSE(a.truncate(7).has_value());
  f.append(a, 70, 1);  // into a page that b still reads
  expect_holds(*f.pool, b, {0, 1, 2, 3, 4, 5, 6, 7, 100});
  expect_holds(*f.pool, a, {0, 1, 2, 3, 4, 5, 6, 70});
}

TEST(Sequence, SourceMayGoBeforeItsFork) {
  Fixture f(4);
  Sequence a = f.sequence();
  f.append(a, 0, 10);
  Sequence b = a.fork();
  a.drop();
  f.append(b, 10, 3);
  expect_holds(*f.pool, b, numbers(0, 13));
  Sequence c = std::move(b);
  expect_holds(*f.pool, c, numbers(0, 13));
  c = f.sequence();
  EXPECT_EQ(f.pool->used_bytes(), 0U);
}

TEST(Sequence, CopyThatDoesNotFitChangesNothing) {
  const std::vector<KvGroup> groups = test_groups(4);
  Fixture f(4, groups[0].layout.page_bytes() + groups[1].layout.page_bytes());
  Sequence a = f.sequence();
  f.append(a, 0, 2);
  Sequence b = a.fork();
  EXPECT_TRUE(std::holds_alternative<BudgetExceeded>(*b.reserve(1)));
  expect_holds(*f.pool, b, numbers(0, 2));
  a.drop();
  f.append(b, 2, 2);
  expect_holds(*f.pool, b, numbers(0, 4));
}

TEST(Sequence, MisuseIsCaught) {
  Fixture f(4);
  Sequence s = f.sequence();
  ASSERT_FALSE(s.reserve(2).has_value());
  EXPECT_DEATH(s.commit(3), "check failed");
  EXPECT_DEATH(static_cast<void>(s.reserve(1)), "check failed");
  EXPECT_DEATH(static_cast<void>(s.fork()), "check failed");
  EXPECT_DEATH(static_cast<void>(s.truncate(0)), "check failed");
  EXPECT_DEATH(s.row(0, 2), "check failed");
}

// Thousands of random operations on several sequences, each held against a plain list of tokens.
class RandomUse {
 public:
  RandomUse(uint32_t seed, uint32_t page_positions)
      : random_(seed),
        f_(page_positions, budget(page_positions)),
        free_at_start_(f_.pool->free_pages(1)) {}

  void run(int rounds) {
    for (int i = 0; i < rounds && !testing::Test::HasFatalFailure(); ++i) {
      step();
      check_books();
      check_contents(i);
    }
    EXPECT_GT(refused_, 20);
    EXPECT_GT(not_resident_, 20);
    live_.clear();
    EXPECT_EQ(f_.pool->used_bytes(), 0U);
    EXPECT_EQ(f_.pool->free_pages(1), free_at_start_);
  }

 private:
  struct Live {
    Sequence sequence;
    std::vector<uint64_t> tokens;
    uint32_t max_rollback;
    size_t longest;  // since it was empty
  };

  // About 100 positions of both groups.
  static uint64_t budget(uint32_t page_positions) {
    uint64_t bytes = 0;
    for (const KvGroup& g : test_groups(page_positions)) bytes += g.layout.page_bytes();
    return std::max<uint64_t>(100 / page_positions, 8) * bytes;
  }

  void step() {
    const uint32_t kind = random_() % 40;
    if (live_.empty() || (kind < 4 && live_.size() < 8)) {
      const uint32_t max_rollback = random_() % 4;
      live_.push_back({f_.sequence(max_rollback, 150), {}, max_rollback, 0});
      return;
    }
    const size_t index = random_() % live_.size();
    Live& one = live_[index];
    if (kind < 32) {
      pass(one);
    } else if (kind < 36) {
      truncate(one);
    } else if (kind < 38 && live_.size() < 8) {
      live_.push_back({one.sequence.fork(), one.tokens, one.max_rollback, one.longest});
    } else if (kind == 38) {
      one.sequence.drop();
      one.tokens.clear();
      one.longest = 0;
    } else {
      live_.erase(live_.begin() + static_cast<ptrdiff_t>(index));
    }
  }

  void pass(Live& one) {
    const uint32_t m = random_() % (random_() % 4 == 0 ? 30 : 4);
    const uint64_t used = f_.pool->used_bytes();
    if (const KvStatus refused = one.sequence.reserve(m)) {
      ++refused_;
      EXPECT_EQ(std::holds_alternative<CapacityExceeded>(*refused), one.tokens.size() + m > 150);
      EXPECT_EQ(f_.pool->used_bytes(), used);
      return;
    }
    const uint32_t accepted = random_() % (m + 1);
    for (uint32_t i = 0; i < m; ++i) {
      write(*f_.pool, one.sequence, one.sequence.length() + i, ++last_token_);
      if (i < accepted) one.tokens.push_back(last_token_);
    }
    one.sequence.commit(accepted);
    one.longest = std::max(one.longest, one.tokens.size());
  }

  void truncate(Live& one) {
    const uint32_t length = random_() % (one.tokens.size() + 3);
    const KvStatus refused = one.sequence.truncate(length);
    if (length > one.tokens.size()) {
      EXPECT_TRUE(refused && std::holds_alternative<OutOfRange>(*refused));
    } else if (refused) {
      ++not_resident_;
      EXPECT_TRUE(std::holds_alternative<NotResident>(*refused));
      EXPECT_LT(length + one.max_rollback, one.longest);
    } else {
      one.tokens.resize(length);
    }
  }

  // Each page has exactly as many references as sequences that list it, and no other page is in
  // use.
  void check_books() {
    for (size_t g = 0; g < f_.pool->n_groups(); ++g) {
      std::map<PageId, uint32_t> holders;
      for (const Live& one : live_) {
        for (PageId page : one.sequence.page_ids(g)) {
          if (page != kNoPage) ++holders[page];
        }
      }
      ASSERT_EQ(f_.pool->used_pages(g), holders.size());
      for (auto [page, count] : holders) ASSERT_EQ(f_.pool->references(g, page), count);
    }
    ASSERT_LE(f_.pool->committed_bytes(), f_.pool->budget_bytes());
  }

  void check_contents(int round) {
    for (size_t i = 0; i < live_.size(); ++i) {
      const Live& one = live_[i];
      if (round % 8 == 0 || i + 1 == live_.size()) {
        expect_holds(*f_.pool, one.sequence, one.tokens);
      }
      // What the next query reads is there.
      const size_t length = one.tokens.size();
      ASSERT_LE(one.sequence.first_resident(0), length < 3 ? 0 : length - 3);
      ASSERT_EQ(one.sequence.first_resident(1), 0U);
    }
  }

  std::mt19937 random_;
  Fixture f_;
  uint64_t free_at_start_;
  std::vector<Live> live_;
  uint64_t last_token_ = 0;
  int refused_ = 0;
  int not_resident_ = 0;
};

class SequenceRandomTest : public testing::TestWithParam<uint32_t> {};

TEST_P(SequenceRandomTest, MatchesAListOfTokens) {
  for (uint32_t seed = 1; seed <= 3; ++seed) RandomUse(seed, GetParam()).run(4000);
}

INSTANTIATE_TEST_SUITE_P(PagePositions, SequenceRandomTest, testing::Values(1, 2, 4, 16, 32));

}  // namespace
}  // namespace hf2q
