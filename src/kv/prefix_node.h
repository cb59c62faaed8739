#pragma once
// The parts of a prefix tree: nodes of one page each, and resume points on them.

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kv/pool.h"
#include "kv/token_key.h"

namespace hf2q {

struct PrefixNode;

// A place where a prompt is likely to go on. The pages of the path to it stay, and of groups with a
// window those of the last W rows, until it is evicted.
struct ResumePoint {
  PrefixNode* node = nullptr;
  uint32_t position = 0;           // in the node's page, its end included
  std::vector<uint32_t> n_pinned;  // [groups], pages with a window: the node's and those above it
};
using ResumePoints = std::list<ResumePoint>;  // least recently used first

struct KeysLess {
  bool operator()(std::span<const TokenKey> a, std::span<const TokenKey> b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

// One page of every group behind the pages of its ancestors. Its keys are compared one by one;
// nothing is found by a hash.
struct PrefixNode {
  PrefixNode* parent = nullptr;      // null: the root of a namespace, which has no page
  std::string_view name_space;       // of a root
  uint32_t begin = 0;                // position of the first key
  std::vector<TokenKey> keys;        // T, or fewer in a leaf at a resume point
  std::vector<PageId> pages;         // [groups]; kNoPage where one with a window was given up
  std::vector<uint32_t> pins;        // [groups], by resume points
  std::vector<uint64_t> idle_since;  // [groups + 1], pages and the node as a leaf; 0: is needed
  std::map<std::span<const TokenKey>, std::unique_ptr<PrefixNode>, KeysLess> children;
  std::vector<ResumePoints::iterator> points;
  uint32_t n_cursors = 0;      // sequences whose last full page this is
  std::vector<TokenKey> lost;  // first keys of children that were evicted

  uint32_t end() const { return begin + static_cast<uint32_t>(keys.size()); }
  bool is_leaf() const {
    return parent != nullptr && children.empty() && points.empty() && n_cursors == 0;
  }
};

inline size_t common_prefix(std::span<const TokenKey> a, std::span<const TokenKey> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

}  // namespace hf2q
