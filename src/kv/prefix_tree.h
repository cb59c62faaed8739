#pragma once
// What sequences have read, kept for those that begin alike: a tree of pages over token keys.
//
// A node holds one page of each group; a path from the root of a namespace spells a prompt, page by
// page. Sequence::commit() gives each page as it fills, Sequence::mark() the partly filled last
// one at a resume point. Pages are shared, not copied: the tree has one reference to each, the
// sequences that read it have theirs, and who writes into a shared page copies it before.
//
//   live   --sequence drops it, or it leaves the window-->  cached
//   cached --a request attaches-->                          live
//   cached --memory runs out-->                             free
//
// Attaching at k needs every page below k of groups without a window, and of a group with window W
// the rows [k - (W - 1), k). A request attaches at the largest k that has them, below its own
// length (its last token is read again, for the logits) and never inside of a block of rows that
// see each other.
//
// A resume point keeps the last W rows: W - 1 to go on there, one more so that the same prompt can
// read its last token again. When the pool has no free page the tree gives up, in this order,
// pages that no resume point needs, the least recently used first, and the least recently used
// resume point. Pages of a sequence are never given up: that would free nothing.
//
// Namespaces share nothing, so that nobody learns another's prompts from what is fast.
//
// Serial use only. All groups of the pool have the same page length T. The pool outlives the tree,
// the tree outlives sequences that are attached to it.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/pool.h"
#include "kv/prefix_node.h"
#include "kv/prefix_path.h"
#include "kv/token_key.h"

namespace hf2q {

class PrefixSearch;

// Why a request did not attach at a larger k.
enum class ReuseLimit : uint8_t {
  kWhole,    // all but its last token is there
  kNoMatch,  // what comes next was never read
  kWindow,   // it was read, but rows of a window are gone
  kBudget,   // it was read, and given up when memory ran out
  kFormat,   // it was read by an earlier run whose cache had another format
};
inline constexpr size_t kReuseLimits = 5;
std::string_view name_of(ReuseLimit limit);  // "whole", "no match", ...

struct PrefixMatch {
  uint32_t k = 0;       // tokens that need not be read
  uint32_t common = 0;  // tokens that were read before: k without missing windows
  ReuseLimit limit = ReuseLimit::kNoMatch;
};

struct PrefixStats {
  uint64_t n_attached = 0;  // requests
  uint64_t n_hits = 0;      // with k > 0
  uint64_t prompt_tokens = 0;
  uint64_t reused_tokens = 0;
  std::array<uint64_t, kReuseLimits> limits = {};  // requests by ReuseLimit
  uint64_t evicted_pages = 0;
  uint64_t evicted_points = 0;
};

class PrefixTree {
 public:
  explicit PrefixTree(Pool& pool);
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  ~PrefixTree();

  // Where a request would attach. Changes nothing and counts nothing.
  PrefixMatch match(std::string_view name_space, std::span<const TokenKey> keys) const;

  // What a later tree needs to go on at those of these positions of `keys` (ascending) that are
  // resume points or could be; rows before and between them too where a query reads them. Nothing
  // is held. (prefix_path.cc)
  PrefixPath path_to(std::string_view name_space, std::span<const TokenKey> keys,
                     std::span<const uint32_t> points) const;
  // Takes such a path: load(i, to) writes the rows of path.pages[i], and its points are resume
  // points then. The tree's own pages stay where it has the same rows. All or nothing; errors as
  // Pool::allocate. Pages of groups without a window have to be there without a gap.
  KvStatus restore(std::string_view name_space, const PrefixPath& path,
                   const std::function<void(size_t page, std::byte* to)>& load);

  // Rows for these keys were offered whose format is not the pool's (only ReuseLimit depends on
  // it).
  void note_other_format(std::string_view name_space, std::span<const TokenKey> keys);

  // Gives up every page that no sequence holds, and every resume point.
  void clear();

  const PrefixStats& stats() const { return stats_; }
  size_t n_points() const { return points_.size(); }
  size_t n_nodes() const { return n_nodes_; }
  Pool& pool() const { return pool_; }

 private:
  friend class Sequence;
  using Victim = std::pair<PrefixNode*, size_t>;  // node and group; n_groups: the node, a leaf

  struct Attachment {
    PrefixMatch match;
    PrefixNode* cursor = nullptr;      // of the last full page before k
    PrefixNode* last = nullptr;        // of the last page, full or not, before k
    std::vector<uint32_t> first_page;  // [groups], the first one to share
  };
  // For an empty sequence: finds k, counts, and refreshes what is used. Rows down to
  // first_needed(W, k, max_rollback) come along where they are.
  Attachment attach(std::string_view name_space, std::span<const TokenKey> keys,
                    uint32_t max_rollback);
  // Sequences stand on nodes; these stay.
  void hold(PrefixNode* node) { ++node->n_cursors; }
  void leave(PrefixNode* node);
  // The page behind `at` is full: pages[g] is the sequence's own (kNoPage: none), and becomes the
  // tree's where that has one (the same rows). Moves the cursor to the page's node.
  PrefixNode* give(PrefixNode* at, std::span<const TokenKey> keys, std::span<PageId> pages);
  // A resume point at `position`, in the pages above `at` or in `tail`, the rows of `pages` behind
  // it: all of these are the tree's then. False, and none is made, where rows of a window are gone.
  bool mark(PrefixNode* at, std::span<const TokenKey> tail, std::span<const PageId> pages,
            uint32_t position);

  size_t n_groups() const { return pool_.n_groups(); }
  uint32_t window(size_t g) const { return pool_.group(g).window; }
  PrefixNode* make_root(std::string_view name_space);
  PrefixNode* find_holder(PrefixNode* at, std::span<const TokenKey> keys) const;
  std::vector<const PrefixNode*> nodes_of(std::string_view name_space,
                                          std::span<const TokenKey> keys) const;
  bool is_complete(const PrefixNode& node) const;
  PrefixNode* insert(PrefixNode* parent, std::span<const TokenKey> keys,
                     std::span<const PageId> pages);
  void adopt(PrefixNode* node, std::span<PageId> pages);
  void fill(PrefixNode* node, std::span<const PageId> pages);
  void absorb_beginnings(PrefixNode* node);
  void replace(PrefixNode* shorter, PrefixNode* node);
  std::optional<std::vector<uint32_t>> pages_to_pin(const PrefixNode* node,
                                                    uint32_t position) const;
  void add_point(PrefixNode* node, uint32_t position, std::vector<uint32_t> n_pinned);
  void use_point(const PrefixNode* node, uint32_t most);
  PrefixMatch describe(std::string_view name_space, std::span<const TokenKey> keys,
                       const PrefixSearch& search, uint32_t k) const;
  void count(const PrefixMatch& match, size_t n_tokens);

  // Eviction (prefix_eviction.cc).
  bool reclaim();
  bool evict_idle();
  bool is_needed(const PrefixNode& node, size_t slot) const;
  bool can_evict(const Victim& victim) const;
  void evict(const Victim& victim);
  void give_up_page(PrefixNode* node, size_t g);
  void remove_leaf(PrefixNode* node);
  void remove_point(ResumePoints::iterator point);
  void refresh(PrefixNode* node);
  void move_in_line(PrefixNode* node, size_t slot, uint64_t to);
  void use(PrefixNode* node, size_t slot);
  void remove_empty_root(PrefixNode* root);

  Pool& pool_;
  uint32_t page_positions_;
  std::map<std::string, PrefixNode, std::less<>> roots_;
  std::map<std::string, std::vector<std::vector<TokenKey>>, std::less<>> other_formats_;
  ResumePoints points_;
  std::map<uint64_t, Victim> idle_;  // by the time since which nobody needs them
  uint64_t clock_ = 0;
  size_t n_nodes_ = 0;
  PrefixStats stats_;
};

}  // namespace hf2q
