#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include "kv/test_cache.h"

namespace hf2q {
namespace {

constexpr uint32_t kT = 4;
constexpr const char* kSpace = "a";

class PrefixTreeTest : public ::testing::Test {
 protected:
  // Pages of all groups for so many positions.
  explicit PrefixTreeTest(uint64_t positions = 1000)
      : pool_(std::move(
            Pool::create(cache_groups(kT), {positions / kT * bytes_of_all(), true}).value())),
        tree_(*pool_) {}

  static uint64_t bytes_of_all() {
    uint64_t bytes = 0;
    for (const KvGroup& group : cache_groups(kT)) bytes += group.layout.page_bytes();
    return bytes;
  }

  Sequence sequence(uint32_t max_rollback = 0) { return Sequence(*pool_, {10000, max_rollback}); }

  // Reads what is left of a prompt, in passes of `chunk`.
  void read(Sequence& sequence, std::span<const TokenKey> keys, uint32_t chunk = 5) {
    const History history = history_of(keys);
    while (sequence.length() < keys.size()) {
      const auto rest = static_cast<uint32_t>(keys.size()) - sequence.length();
      const uint32_t n = std::min(chunk, rest);
      ASSERT_FALSE(sequence.reserve(n).has_value());
      for (uint32_t i = 0; i < n; ++i) {
        const uint32_t p = sequence.length() + i;
        write_position(*pool_, sequence, p, history.hashes[p]);
      }
      sequence.commit(n, keys.subspan(sequence.length(), n));
    }
    expect_holds(*pool_, sequence, history);
  }

  // A request: attaches, checks what it got, reads the rest, makes a resume point.
  PrefixMatch request(std::span<const TokenKey> keys, const char* name_space = kSpace) {
    Sequence one = sequence();
    const PrefixMatch match = one.attach(tree_, name_space, keys);
    EXPECT_EQ(one.length(), match.k);
    expect_holds(*pool_, one, history_of(keys.first(match.k)));
    read(one, keys);
    EXPECT_TRUE(one.mark(one.length()));
    expect_holds(*pool_, one, history_of(keys));
    return match;
  }

  std::unique_ptr<Pool> pool_;
  PrefixTree tree_;
};

TEST_F(PrefixTreeTest, NothingIsKnownAtFirst) {
  Sequence s = sequence();
  const PrefixMatch match = s.attach(tree_, kSpace, count_keys(0, 10));
  EXPECT_EQ(match.k, 0U);
  EXPECT_EQ(match.limit, ReuseLimit::kNoMatch);
  EXPECT_EQ(tree_.stats().n_attached, 1U);
  EXPECT_EQ(tree_.stats().n_hits, 0U);
}

TEST_F(PrefixTreeTest, TheSamePromptReadsItsLastTokenOnly) {
  for (uint32_t n = 1; n <= 30; ++n) {
    const auto keys = count_keys(1000 * static_cast<int32_t>(n), n);
    EXPECT_EQ(request(keys).k, 0U);
    const PrefixMatch match = request(keys);
    EXPECT_EQ(match.k, n - 1);
    EXPECT_EQ(match.limit, ReuseLimit::kWhole);
  }
}

TEST_F(PrefixTreeTest, ALongerPromptGoesOnAtTheResumePoint) {
  for (uint32_t n = 1; n <= 30; ++n) {
    const auto keys = count_keys(1000 * static_cast<int32_t>(n), n);
    request(keys);
    const PrefixMatch match = request(joined(keys, count_keys(7, 9)));
    EXPECT_EQ(match.k, n);
    EXPECT_EQ(match.limit, ReuseLimit::kNoMatch);
  }
}

TEST_F(PrefixTreeTest, AnotherEndReusesUpToTheDifferenceAtEveryPosition) {
  const auto keys = count_keys(0, 40);
  request(keys);
  for (uint32_t k = 1; k < 40; ++k) {
    auto other = keys;
    other[k] = TokenKey::token(5000 + static_cast<int32_t>(k));
    EXPECT_EQ(request(other).k, k);
  }
}

TEST_F(PrefixTreeTest, NamespacesShareNothing) {
  const auto keys = count_keys(0, 20);
  request(keys, "a");
  EXPECT_EQ(request(keys, "b").k, 0U);
  EXPECT_EQ(request(keys, "").k, 0U);
  EXPECT_EQ(request(keys, "b").k, 19U);
}

TEST_F(PrefixTreeTest, SharesPagesAndCopiesThePartlyFilledOne) {
  const auto keys = count_keys(0, 10);
  request(keys);
  const uint64_t full = pool_->used_pages(1);
  Sequence a = sequence();
  ASSERT_EQ(a.attach(tree_, kSpace, joined(keys, count_keys(50, 3))).k, 10U);
  EXPECT_EQ(pool_->used_pages(1), full);
  read(a, joined(keys, count_keys(50, 1)));
  EXPECT_EQ(pool_->used_pages(1), full + 1);
  // What a wrote changed nothing for the next one.
  EXPECT_EQ(request(joined(keys, count_keys(70, 3))).k, 10U);
}

TEST_F(PrefixTreeTest, EqualPagesOfTwoSequencesBecomeOne) {
  const auto keys = count_keys(0, 16);
  Sequence a = sequence();
  Sequence b = sequence();
  a.attach(tree_, kSpace, keys);
  b.attach(tree_, kSpace, keys);
  read(a, keys);
  read(b, keys);
  EXPECT_EQ(pool_->used_pages(1), 4U);
  EXPECT_EQ(a.page_ids(1)[2], b.page_ids(1)[2]);
  EXPECT_EQ(pool_->references(1, a.page_ids(1)[2]), 3U);
}

TEST_F(PrefixTreeTest, AnotherImageNeverMatches) {
  const auto text = count_keys(0, 6);
  const auto tail = count_keys(90, 5);
  const auto one = joined(joined(text, image_keys(1, 7)), tail);
  const auto other = joined(joined(text, image_keys(2, 7)), tail);
  request(one);
  EXPECT_EQ(request(other).k, 6U);
  EXPECT_EQ(request(one).k, one.size() - 1);
  EXPECT_EQ(request(joined(joined(text, image_keys(1, 7)), count_keys(40, 5))).k, 13U);
}

TEST_F(PrefixTreeTest, ABlockIsReadWhole) {
  // The last token of a prompt is read again, and with it the block that it belongs to.
  const auto text = count_keys(0, 6);
  const auto image_last = joined(text, image_keys(1, 7));
  request(image_last);
  const PrefixMatch match = request(image_last);
  EXPECT_EQ(match.k, 6U);
  EXPECT_EQ(match.limit, ReuseLimit::kWhole);
}

TEST_F(PrefixTreeTest, CausalSoftRowsMayBeReadInPart) {
  std::vector<TokenKey> keys = count_keys(0, 3);
  for (uint32_t i = 0; i < 8; ++i) keys.push_back({i, TokenKey::Kind::kSoft, {5, 5}});
  request(keys);
  EXPECT_EQ(request(keys).k, 10U);
}

TEST_F(PrefixTreeTest, TheLimitIsTheContextToo) {
  const auto keys = count_keys(0, 40);
  request(keys);
  Sequence s(*pool_, {20, 0});
  EXPECT_EQ(s.attach(tree_, kSpace, keys).k, 19U);
}

TEST_F(PrefixTreeTest, MatchPredictsAndCountsNothing) {
  const auto keys = count_keys(0, 25);
  EXPECT_EQ(tree_.match(kSpace, keys).k, 0U);
  request(keys);
  const uint64_t attached = tree_.stats().n_attached;
  EXPECT_EQ(tree_.match(kSpace, keys).k, 24U);
  EXPECT_EQ(tree_.match("b", keys).k, 0U);
  EXPECT_EQ(tree_.match(kSpace, {}).k, 0U);
  EXPECT_EQ(tree_.stats().n_attached, attached);
}

TEST_F(PrefixTreeTest, APointAheadIsMadeWhenItIsReached) {
  const auto keys = count_keys(0, 30);
  Sequence s = sequence();
  s.attach(tree_, kSpace, keys);
  EXPECT_TRUE(s.mark(13));
  read(s, {keys.data(), 12}, 12);
  EXPECT_EQ(tree_.n_points(), 0U);
  read(s, keys, 18);
  EXPECT_EQ(tree_.n_points(), 1U);
}

TEST_F(PrefixTreeTest, TruncatedSequencesBranchOff) {
  const auto keys = count_keys(0, 22);
  Sequence s = sequence(1000);
  s.attach(tree_, kSpace, keys);
  read(s, keys);
  for (uint32_t k : {21U, 18U, 16U, 11U, 3U, 0U}) {
    ASSERT_FALSE(s.truncate(k).has_value());
    const auto other = joined({keys.begin(), keys.begin() + k}, count_keys(500 + int(k), 9));
    read(s, other);
    EXPECT_EQ(tree_.match(kSpace, other).k, other.size() / kT * kT - (other.size() % kT == 0));
    // The first branch begins with key 20.
    EXPECT_EQ(tree_.match(kSpace, keys).k, 21U);
    ASSERT_FALSE(s.truncate(k).has_value());
  }
}

TEST_F(PrefixTreeTest, AForkGivesAndTakesLikeItsSource) {
  const auto keys = count_keys(0, 14);
  Sequence a = sequence();
  a.attach(tree_, kSpace, keys);
  read(a, keys);
  Sequence b = a.fork();
  read(b, joined(keys, count_keys(80, 6)));
  a.drop();
  EXPECT_FALSE(a.is_attached());
  EXPECT_EQ(tree_.match(kSpace, joined(keys, count_keys(80, 9))).k, 20U);
  Sequence c = std::move(b);
  read(c, joined(keys, count_keys(80, 12)));
}

TEST_F(PrefixTreeTest, ClearFreesAllThatNoSequenceHolds) {
  const auto keys = count_keys(0, 30);
  request(keys);
  request(count_keys(100, 30), "b");
  EXPECT_GT(pool_->cached_bytes(), 0U);
  EXPECT_EQ(pool_->cached_bytes(), pool_->used_bytes());
  Sequence live = sequence();
  EXPECT_EQ(live.attach(tree_, kSpace, joined(keys, count_keys(60, 1))).k, 30U);
  tree_.clear();
  EXPECT_EQ(pool_->cached_bytes(), 0U);
  EXPECT_EQ(tree_.n_points(), 0U);
  expect_holds(*pool_, live, history_of(keys));
  read(live, joined(keys, count_keys(60, 10)));
  live.drop();
  tree_.clear();
  EXPECT_EQ(pool_->used_bytes(), 0U);
  EXPECT_EQ(tree_.n_nodes(), 0U);
  EXPECT_EQ(request(keys).k, 0U);
}

TEST_F(PrefixTreeTest, MisuseIsCaught) {
  Sequence s = sequence();
  EXPECT_DEATH(s.mark(0), "check failed");
  s.attach(tree_, kSpace, count_keys(0, 9));
  EXPECT_DEATH(s.attach(tree_, kSpace, count_keys(0, 9)), "check failed");
  ASSERT_FALSE(s.reserve(3).has_value());
  EXPECT_DEATH(s.commit(2), "check failed");  // no keys
  EXPECT_DEATH(s.mark(0), "check failed");
}

// Room for 24 positions of all groups.
class SmallPrefixTreeTest : public PrefixTreeTest {
 protected:
  SmallPrefixTreeTest() : PrefixTreeTest(24) {}
};

TEST_F(SmallPrefixTreeTest, CachedPagesMakeRoom) {
  for (int32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(request(count_keys(100 * i, 16)).k, 0U);
    EXPECT_LE(pool_->committed_bytes(), pool_->budget_bytes());
    EXPECT_EQ(request(count_keys(100 * i, 16)).k, 15U);
  }
  EXPECT_GT(tree_.stats().evicted_points, 10U);
  EXPECT_GT(tree_.stats().evicted_pages, 50U);
}

TEST_F(SmallPrefixTreeTest, TheLeastRecentlyUsedPointGoesFirst) {
  const auto a = count_keys(0, 8);
  const auto b = count_keys(100, 8);
  const auto c = count_keys(200, 8);
  for (const auto& keys : {a, b, a, c}) request(keys);  // full
  request(count_keys(300, 8));
  EXPECT_EQ(tree_.match(kSpace, a).k, 7U);
  EXPECT_EQ(tree_.match(kSpace, c).k, 7U);
  EXPECT_EQ(tree_.match(kSpace, b).k, 0U);
  request(count_keys(400, 12));
  const PrefixMatch lost = tree_.match(kSpace, b);
  EXPECT_EQ(lost.k, 0U);
  EXPECT_EQ(lost.limit, ReuseLimit::kBudget);
}

TEST_F(SmallPrefixTreeTest, PagesOfASequenceAreNeverTaken) {
  const auto keys = count_keys(0, 12);
  Sequence live = sequence();
  live.attach(tree_, kSpace, keys);
  read(live, keys);
  for (int32_t i = 1; i < 6; ++i) request(count_keys(100 * i, 12));
  expect_holds(*pool_, live, history_of(keys));
  EXPECT_EQ(tree_.match(kSpace, joined(keys, count_keys(90, 1))).k, 12U);
}

TEST_F(SmallPrefixTreeTest, ADemandThatCannotBeMetEvictsNothing) {
  const auto keys = count_keys(0, 12);
  request(keys);
  const uint64_t cached = pool_->cached_bytes();
  Sequence big = sequence();
  const KvStatus refused = big.reserve(25);
  ASSERT_TRUE(refused && std::holds_alternative<BudgetExceeded>(*refused));
  EXPECT_EQ(pool_->cached_bytes(), cached);
  EXPECT_EQ(tree_.stats().evicted_points, 0U);
  EXPECT_FALSE(big.reserve(24).has_value());
  EXPECT_EQ(pool_->cached_bytes(), 0U);
}

// Pages that left their windows go before any resume point; what was missed for lack of them is a
// resume point from then on.
TEST_F(SmallPrefixTreeTest, GoesOnBeforeAMissingWindowAndRemembersThePlace) {
  const auto keys = count_keys(0, 20);
  request(keys);
  const auto edited = [&](int32_t tail) {
    return joined({keys.begin(), keys.begin() + 11}, count_keys(tail, 2));
  };
  EXPECT_EQ(tree_.match(kSpace, edited(70)).k, 11U);
  Sequence filler = sequence();
  ASSERT_FALSE(filler.reserve(12).has_value());
  filler.drop();
  EXPECT_EQ(tree_.stats().evicted_points, 0U);
  EXPECT_EQ(tree_.match(kSpace, keys).k, 19U);
  const PrefixMatch match = request(edited(70));
  EXPECT_EQ(match.k, 0U);
  EXPECT_EQ(match.common, 11U);
  EXPECT_EQ(match.limit, ReuseLimit::kWindow);
  ASSERT_FALSE(filler.reserve(8).has_value());
  EXPECT_EQ(tree_.match(kSpace, edited(80)).k, 11U);
}

}  // namespace
}  // namespace hf2q
