#pragma once
// The search of a prefix tree: how far a prompt can be taken from it.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/plan.h"
#include "kv/prefix_node.h"
#include "kv/token_key.h"

namespace hf2q {

class PrefixSearch {
 public:
  // Walks down from `root` as long as whole pages are equal. `keys` stays.
  PrefixSearch(const Pool& pool, PrefixNode* root, std::span<const TokenKey> keys);

  struct Place {
    uint32_t k = 0;
    PrefixNode* cursor = nullptr;  // of the last full page before k, or the root
    PrefixNode* last = nullptr;    // of the last page before k, or the root
    std::vector<uint32_t> runs;    // [groups], from where on rows are there, up to k
  };
  // The largest k that a request can attach at.
  Place find() const;

  uint32_t n_equal() const { return n_equal_; }  // keys that the tree has, in any state
  // The largest k, did no window lack rows.
  uint32_t common() const { return reachable(n_equal_); }
  // The largest k of any tree.
  uint32_t most() const { return reachable(static_cast<uint32_t>(keys_.size())); }
  // The deepest node that has some of the keys.
  PrefixNode* deepest() const { return deepest_; }
  // What follows the equal keys was evicted.
  bool was_evicted() const;

 private:
  uint32_t reachable(uint32_t position) const;
  std::span<const TokenKey> page_keys(uint32_t begin) const;
  uint32_t run_at(size_t level, const PrefixNode& child, size_t g) const;
  bool has_windows(size_t level, const PrefixNode& child, uint32_t k) const;
  bool find_below(size_t level, Place& place) const;
  template <class F>
  void for_each_alike(const PrefixNode& parent, F f) const;

  const Pool& pool_;
  uint32_t page_positions_;
  std::span<const TokenKey> keys_;
  std::vector<PrefixNode*> path_;  // the root, then nodes whose pages are equal
  std::vector<uint32_t> runs_;  // [path, groups], from where on rows are there, to the node's end
  PrefixNode* deepest_;
  uint32_t n_equal_ = 0;
};

}  // namespace hf2q
