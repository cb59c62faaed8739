// How a prefix tree gives up pages. Pages that no resume point needs stand in line by the time
// since which that is so; a page in use is sent to the end of the line.

#include <algorithm>

#include "base/check.h"
#include "kv/prefix_tree.h"

namespace hf2q {
namespace {

// Most children of a node that are remembered after their eviction; only counters depend on it.
constexpr size_t kMaxLost = 16;

}  // namespace

bool PrefixTree::is_needed(const PrefixNode& node, size_t slot) const {
  if (slot == n_groups()) return !node.is_leaf();
  // Pages without a window go with their node.
  return window(slot) == 0 || node.pages[slot] == kNoPage || node.pins[slot] > 0;
}

void PrefixTree::refresh(PrefixNode* node) {
  if (node->parent == nullptr) return;
  for (size_t slot = 0; slot <= n_groups(); ++slot) {
    uint64_t& since = node->idle_since[slot];
    const bool idle = !is_needed(*node, slot);
    if (idle && since == 0) {
      since = ++clock_;
      idle_.emplace(since, Victim{node, slot});
    } else if (!idle && since != 0) {
      idle_.erase(since);
      since = 0;
    }
  }
}

void PrefixTree::move_in_line(PrefixNode* node, size_t slot, uint64_t to) {
  if (node->parent == nullptr || node->idle_since[slot] == 0) return;
  uint64_t& since = node->idle_since[slot];
  idle_.erase(since);
  since = to;
  idle_.emplace(since, Victim{node, slot});
}

void PrefixTree::use(PrefixNode* node, size_t slot) {
  move_in_line(node, slot, ++clock_);
}

bool PrefixTree::can_evict(const Victim& victim) const {
  const auto [node, slot] = victim;
  if (slot < n_groups()) return pool_.is_cached(slot, node->pages[slot]);
  for (size_t g = 0; g < n_groups(); ++g) {
    if (window(g) == 0 && !pool_.is_cached(g, node->pages[g])) return false;
  }
  return true;
}

void PrefixTree::give_up_page(PrefixNode* node, size_t g) {
  if (node->pages[g] == kNoPage) return;
  pool_.uncache(g, node->pages[g]);
  node->pages[g] = kNoPage;
}

void PrefixTree::remove_leaf(PrefixNode* node) {
  for (size_t g = 0; g < n_groups(); ++g) give_up_page(node, g);
  for (uint64_t since : node->idle_since) {
    if (since != 0) idle_.erase(since);
  }
  PrefixNode* parent = node->parent;
  parent->children.erase(parent->children.find(node->keys));
  --n_nodes_;
  refresh(parent);
}

void PrefixTree::remove_empty_root(PrefixNode* root) {
  if (root->parent != nullptr || root->n_cursors > 0 || !root->children.empty()) return;
  roots_.erase(roots_.find(root->name_space));
}

void PrefixTree::evict(const Victim& victim) {
  const auto [node, slot] = victim;
  if (slot < n_groups()) {
    ++stats_.evicted_pages;
    give_up_page(node, slot);
    refresh(node);
    return;
  }
  for (PageId page : node->pages) stats_.evicted_pages += page != kNoPage ? 1 : 0;
  PrefixNode* parent = node->parent;
  if (parent->lost.size() == kMaxLost) parent->lost.erase(parent->lost.begin());
  parent->lost.push_back(node->keys.front());
  const uint64_t since = node->idle_since[n_groups()];
  remove_leaf(node);
  move_in_line(parent, n_groups(), since);  // as a leaf it is as old as the one behind it was
  remove_empty_root(parent);
}

// One page or one leaf that no resume point needs and no sequence holds.
bool PrefixTree::evict_idle() {
  for (size_t n = idle_.size(); n > 0; --n) {
    const Victim victim = idle_.begin()->second;
    if (can_evict(victim)) {
      evict(victim);
      return true;
    }
    use(victim.first, victim.second);
  }
  return false;
}

void PrefixTree::remove_point(ResumePoints::iterator point) {
  PrefixNode* node = point->node;
  for (size_t g = 0; g < n_groups(); ++g) {
    PrefixNode* above = node;
    for (uint32_t i = 0; i < point->n_pinned[g]; ++i, above = above->parent) {
      CHECK(above->pins[g] > 0);
      --above->pins[g];
      refresh(above);
    }
  }
  std::erase(node->points, point);
  points_.erase(point);
  refresh(node);
}

bool PrefixTree::reclaim() {
  while (!evict_idle()) {
    if (points_.empty()) return false;
    remove_point(points_.begin());
    ++stats_.evicted_points;
  }
  return true;
}

void PrefixTree::clear() {
  while (!points_.empty()) remove_point(points_.begin());
  while (evict_idle()) {
  }
}

}  // namespace hf2q
