// The cache against a plain model of it: ten thousand random operations on sequences that share
// pages with each other and with a prefix tree, where the model gives each sequence all of its rows
// in one piece. What a query may read is the same, bit for bit, and so is what attention makes of
// it; nobody reads what was never written (fresh pages are full of NaN).

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv/test_cache.h"
#include "ops/attention.h"

namespace hf2q {
namespace {

constexpr uint32_t kMost = 128;  // tokens of a sequence
constexpr uint32_t kMaxHeads = 4;

// All rows of one sequence: for each group one page that holds every position.
class DenseCache {
 public:
  explicit DenseCache(const Pool& pool) {
    for (size_t g = 0; g < pool.n_groups(); ++g) {
      KvGroup& group = groups_.emplace_back(pool.group(g));
      group.layout.page_positions = kMost;
      bytes_.emplace_back(group.layout.page_bytes() + PageLayout::kPlaneAlignment);
    }
  }

  const PageLayout& layout(size_t g) const { return groups_[g].layout; }
  std::byte* page(size_t g) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_[g].data());
    return bytes_[g].data() + (PageLayout::kPlaneAlignment - address) % PageLayout::kPlaneAlignment;
  }
  void write(uint32_t position, uint64_t hash) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      write_row(layout(g), page(g), g, position, hash);
    }
  }

 private:
  std::vector<KvGroup> groups_;
  std::vector<std::vector<std::byte>> bytes_;
};

struct Live {
  Sequence sequence;
  History history;
  std::string name_space;
  uint32_t max_rollback;
  size_t longest;  // since it was attached
};

struct Setup {
  uint32_t page_positions;
  uint32_t budget_positions;  // of all groups
};

class CacheModel {
 public:
  CacheModel(uint32_t seed, const Setup& setup)
      : random_(seed),
        page_positions_(setup.page_positions),
        pool_(
            std::move(Pool::create(cache_groups(page_positions_), {budget(setup), true}).value())),
        tree_(std::make_unique<PrefixTree>(*pool_)),
        scratch_(exec_.n_threads(), kMaxHeads, 16, kMost),
        evicts_(setup.budget_positions < 1000) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      step();
      check_books();
      if (i % 16 == 0) check_rows();
    }
    check_counts();
    live_.clear();
    EXPECT_EQ(pool_->cached_bytes(), pool_->used_bytes());
    tree_->clear();
    EXPECT_EQ(pool_->used_bytes(), 0U);
    EXPECT_EQ(tree_->n_nodes(), 0U);
  }

 private:
  static uint64_t budget(const Setup& setup) {
    uint64_t bytes = 0;
    for (const KvGroup& g : cache_groups(setup.page_positions)) bytes += g.layout.page_bytes();
    return setup.budget_positions / setup.page_positions * bytes;
  }

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void step() {
    const uint32_t kind = below(100);
    if (live_.empty() || (kind < 12 && live_.size() < 6)) return admit();
    Live& one = live_[below(static_cast<uint32_t>(live_.size()))];
    if (kind < 64) return pass(one);
    if (kind < 72) return truncate(one);
    if (kind < 80) return mark(one);
    if (kind < 85 && live_.size() < 6) return fork(one);
    if (kind < 86) return evict();
    if (kind < 93) return leave(one);
  }

  // A token, or an image.
  void add_keys(History& history) {
    if (below(8) > 0) return history.append(TokenKey::token(static_cast<int32_t>(below(3))));
    const uint64_t digest = below(2);
    for (const TokenKey& key : image_keys(digest, 2 + static_cast<uint32_t>(digest) * 4)) {
      history.append(key);
    }
  }

  // What is common to a prompt that was read before, and goes on otherwise.
  History prompt(const std::vector<History>& known) {
    History history;
    if (!known.empty() && below(8) > 0) {
      history = known[below(static_cast<uint32_t>(known.size()))];
      if (below(3) > 0) history.cut(before_block(history.keys, below(history.size() + 1)));
    }
    while (history.size() == 0 || (history.size() < 60 && below(4) > 0)) add_keys(history);
    return history;
  }

  // The largest k for a tree that has every page and point that was ever given to it.
  uint32_t best_k(const std::string& name_space, std::span<const TokenKey> keys) const {
    size_t best = 0;
    const auto known = known_.find(name_space);
    if (known == known_.end()) return 0;
    for (const History& history : known->second) {
      const size_t common = common_prefix(history.keys, keys);
      best = std::max(best, before_block(keys, std::min(common, keys.size() - 1)));
    }
    return static_cast<uint32_t>(best);
  }

  // The tree got a full page or a resume point that ends here.
  void remember(const Live& one, size_t length) {
    History history = one.history;
    history.cut(length);
    known_[one.name_space].push_back(std::move(history));
  }

  void admit() {
    const std::string name_space = below(4) == 0 ? "b" : "a";
    History wanted = prompt(known_[name_space]);
    const uint32_t max_rollback = below(4);
    Live& one = live_.emplace_back(
        Live{Sequence(*pool_, {kMost, max_rollback}), {}, name_space, max_rollback, 0});
    const PrefixMatch match = one.sequence.attach(*tree_, name_space, wanted.keys);
    ASSERT_EQ(one.sequence.length(), match.k);
    if (evicts_) {
      ASSERT_LE(match.k, best_k(name_space, wanted.keys));
    } else {
      ASSERT_EQ(match.k, best_k(name_space, wanted.keys));
    }
    ASSERT_LE(match.k, match.common);
    ASSERT_EQ(match.limit == ReuseLimit::kWindow, match.k < match.common);
    ASSERT_EQ(before_block(wanted.keys, match.k), match.k);
    wanted.cut(match.k);
    one.history = std::move(wanted);
    one.longest = match.k;
    attend(one, one.history, match.k);
  }

  // Reserves, writes, attends, commits a part.
  void pass(Live& one) {
    History longer = one.history;
    const size_t before = longer.size();
    for (uint32_t n = below(below(4) == 0 ? 30 : 4); n > 0; --n) add_keys(longer);
    const auto n_new = static_cast<uint32_t>(longer.size() - before);
    if (const KvStatus refused = one.sequence.reserve(n_new)) {
      ++n_refused_;
      ASSERT_EQ(std::holds_alternative<CapacityExceeded>(*refused), longer.size() > kMost);
      return;
    }
    for (size_t p = before; p < longer.size(); ++p) {
      write_position(*pool_, one.sequence, static_cast<uint32_t>(p), longer.hashes[p]);
    }
    attend(one, longer, before);
    const size_t kept =
        below(3) > 0 ? longer.size() : before_block(longer.keys, before + below(n_new + 1));
    longer.cut(kept);
    const auto keys = std::span<const TokenKey>(longer.keys).subspan(before);
    one.sequence.commit(static_cast<uint32_t>(keys.size()), keys);
    one.history = std::move(longer);
    one.longest = std::max(one.longest, one.history.size());
    if (kept > before) remember(one, kept / page_positions_ * page_positions_);
  }

  void truncate(Live& one) {
    const size_t back = below(4) > 0 ? below(5) : below(one.history.size() + 1);
    const auto length = static_cast<uint32_t>(
        before_block(one.history.keys, one.history.size() - std::min(back, one.history.size())));
    if (const KvStatus refused = one.sequence.truncate(length)) {
      ++n_not_resident_;
      ASSERT_TRUE(std::holds_alternative<NotResident>(*refused));
      return;
    }
    one.history.cut(length);
  }

  void mark(Live& one) {
    const size_t length = one.history.size();
    const size_t position =
        below(2) == 0 ? length : before_block(one.history.keys, below(length + 1));
    const bool marked = one.sequence.mark(static_cast<uint32_t>(position));
    ASSERT_TRUE(marked || position < length || length == 0);
    // A partly filled page is given as it is.
    if (marked)
      remember(one, position > length / page_positions_ * page_positions_ ? length : position);
    n_marked_ += marked ? 1 : 0;
  }

  void fork(const Live& one) {
    live_.push_back(
        {one.sequence.fork(), one.history, one.name_space, one.max_rollback, one.longest});
  }

  // Somebody else needs memory, or nothing is to be remembered.
  void evict() {
    if (!evicts_) {
      live_.clear();
      known_.clear();
    }
    if (!evicts_ || below(4) == 0) return tree_->clear();
    Sequence other(*pool_, {kMost, 0});
    (void)other.reserve(1 + below(kMost));
  }

  void leave(Live& one) {
    std::swap(one, live_.back());
    live_.pop_back();
  }

  // Attention of the queries at [begin, end of history) over both caches.
  void attend(Live& one, const History& history, size_t begin) {
    DenseCache dense(*pool_);
    for (size_t p = 0; p < history.size(); ++p) {
      dense.write(static_cast<uint32_t>(p), history.hashes[p]);
    }
    for (size_t g = 0; g < pool_->n_groups(); ++g) {
      std::vector<KvRow> paged;
      std::vector<KvRow> plain;
      std::byte* page = dense.page(g);
      for (size_t p = begin; p < history.size(); ++p) {
        paged.push_back(one.sequence.row(g, static_cast<uint32_t>(p)));
        expect_rows(*pool_, one.sequence, history, g, paged.back().begin, paged.back().end);
        KvRow row = paged.back();
        const uint32_t window = pool_->group(g).window;
        row.begin = window == 0 || p < window ? 0 : static_cast<uint32_t>(p) + 1 - window;
        row.pages = &page;
        plain.push_back(row);
      }
      for (uint32_t layer = 0; layer < dense.layout(g).n_layers; ++layer) {
        ASSERT_EQ(attention({pool_->group(g).layout, layer, kMaxHeads}, paged),
                  attention({dense.layout(g), layer, kMaxHeads}, plain));
      }
    }
  }

  std::vector<float> attention(const AttentionShape& shape, const std::vector<KvRow>& rows) {
    std::vector<float> q(rows.size() * shape.n_heads * shape.layout.head_dim);
    for (size_t i = 0; i < q.size(); ++i) q[i] = row_value(i, 0, 0, false, 0, 0);
    std::vector<float> out(q.size());
    hf2q::attend(exec_, shape, rows, q.data(), scratch_, out.data());
    return out;
  }

  // Each page has a reference of every sequence that lists it, and the tree's; used are those that
  // a sequence or the tree has.
  void check_books() {
    for (size_t g = 0; g < pool_->n_groups(); ++g) {
      std::map<PageId, uint32_t> holders;
      for (const Live& one : live_) {
        for (PageId page : one.sequence.page_ids(g)) {
          if (page != kNoPage) ++holders[page];
        }
      }
      ASSERT_EQ(pool_->used_pages(g), holders.size() + pool_->cached_pages(g));
      for (auto [page, count] : holders) {
        ASSERT_GE(pool_->references(g, page), count);
        ASSERT_LE(pool_->references(g, page), count + 1);
      }
    }
    ASSERT_LE(pool_->used_bytes(), pool_->committed_bytes());
    ASSERT_LE(pool_->committed_bytes(), pool_->budget_bytes());
  }

  void check_rows() {
    for (const Live& one : live_) expect_holds(*pool_, one.sequence, one.history);
  }

  // That all of this came up.
  void check_counts() {
    const PrefixStats& stats = tree_->stats();
    EXPECT_GT(stats.n_hits, 100U);
    EXPECT_GT(n_marked_, 200);
    EXPECT_GT(n_not_resident_, 20);
    if (!evicts_) return;
    EXPECT_GT(n_refused_, 20);
    EXPECT_GT(stats.evicted_pages, 500U);
    EXPECT_GT(stats.evicted_points, 50U);
    for (size_t i = 0; i < kReuseLimits; ++i) {
      const bool counted = stats.limits[i] > 5;
      EXPECT_TRUE(counted || i == static_cast<size_t>(ReuseLimit::kFormat)) << i;
    }
  }

  std::mt19937 random_;
  uint32_t page_positions_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PrefixTree> tree_;
  Exec exec_{1};
  AttentionScratch scratch_;
  bool evicts_;
  std::vector<Live> live_;
  std::map<std::string, std::vector<History>> known_;
  int n_refused_ = 0;
  int n_not_resident_ = 0;
  int n_marked_ = 0;
};

class CacheModelTest : public testing::TestWithParam<Setup> {};

TEST_P(CacheModelTest, TenThousandRandomOperations) {
  CacheModel(GetParam().page_positions, GetParam()).run(10000);
}

INSTANTIATE_TEST_SUITE_P(All, CacheModelTest,
                         testing::Values(Setup{1, 160}, Setup{2, 160}, Setup{4, 160}, Setup{8, 200},
                                         Setup{4, 1000000}, Setup{8, 1000000}),
                         [](const auto& info) {
                           return "pages_of_" + std::to_string(info.param.page_positions) +
                                  (info.param.budget_positions < 1000 ? "_small" : "_large");
                         });

}  // namespace
}  // namespace hf2q
