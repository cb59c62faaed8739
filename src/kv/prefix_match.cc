#include "kv/prefix_match.h"

#include <algorithm>

namespace hf2q {

PrefixSearch::PrefixSearch(const Pool& pool, PrefixNode* root, std::span<const TokenKey> keys)
    : pool_(pool),
      page_positions_(pool.group(0).layout.page_positions),
      keys_(keys),
      path_{root},
      runs_(pool.n_groups(), 0),
      deepest_(root) {
  for (;;) {
    PrefixNode* parent = path_.back();
    n_equal_ = parent->end();
    deepest_ = parent;
    const std::span<const TokenKey> page = page_keys(parent->end());
    const auto child = parent->children.find(page);
    if (page.size() < page_positions_ || child == parent->children.end()) break;
    for (size_t g = 0; g < pool.n_groups(); ++g) {
      runs_.push_back(run_at(path_.size() - 1, *child->second, g));
    }
    path_.push_back(child->second.get());
  }
  for_each_alike(*path_.back(), [&](PrefixNode& child, uint32_t n_alike) {
    n_equal_ = child.begin + n_alike;
    deepest_ = &child;
    return true;
  });
}

bool PrefixSearch::was_evicted() const {
  const PrefixNode& node = *path_.back();
  return n_equal_ == node.end() && n_equal_ < keys_.size() &&
         std::find(node.lost.begin(), node.lost.end(), keys_[n_equal_]) != node.lost.end();
}

// At least one token is to be read, and no block in part.
uint32_t PrefixSearch::reachable(uint32_t position) const {
  if (keys_.empty()) return 0;
  const size_t most = std::min<size_t>(position, keys_.size() - 1);
  return static_cast<uint32_t>(before_block(keys_, most));
}

std::span<const TokenKey> PrefixSearch::page_keys(uint32_t begin) const {
  return keys_.subspan(begin, std::min<size_t>(page_positions_, keys_.size() - begin));
}

// From where on a group's rows are there up to the end of a child of path_[level]. A page that is
// gone counts as a whole one, so that nothing attaches inside of it.
uint32_t PrefixSearch::run_at(size_t level, const PrefixNode& child, size_t g) const {
  if (child.pages[g] == kNoPage) return child.begin + page_positions_;
  return runs_[level * pool_.n_groups() + g];
}

bool PrefixSearch::has_windows(size_t level, const PrefixNode& child, uint32_t k) const {
  for (size_t g = 0; g < pool_.n_groups(); ++g) {
    const uint64_t needed = first_needed(pool_.group(g).window, k, 0);
    if (run_at(level, child, g) > needed) return false;
  }
  return true;
}

// f(child, number of first keys that are equal) for the children of a node that have any, the most
// alike first, until it returns true. Children are sorted, so these surround the place of `page`.
template <class F>
void PrefixSearch::for_each_alike(const PrefixNode& parent, F f) const {
  const std::span<const TokenKey> page = page_keys(parent.end());
  auto right = parent.children.lower_bound(page);
  auto left = right;
  const auto alike = [&](const auto& entry) { return common_prefix(entry.first, page); };
  for (;;) {
    const size_t n_right = right == parent.children.end() ? 0 : alike(*right);
    const size_t n_left = left == parent.children.begin() ? 0 : alike(*std::prev(left));
    const size_t n = std::max(n_right, n_left);
    if (n == 0) return;
    PrefixNode& child = n_right >= n_left ? *(right++)->second : *(--left)->second;
    if (f(child, static_cast<uint32_t>(n))) return;
  }
}

// The largest k in the pages of path_[level]'s children.
bool PrefixSearch::find_below(size_t level, Place& place) const {
  PrefixNode* parent = path_[level];
  bool found = false;
  for_each_alike(*parent, [&](PrefixNode& child, uint32_t n_alike) {
    const uint32_t k = reachable(child.begin + n_alike);
    if (k <= child.begin || !has_windows(level, child, k)) return false;
    const bool whole = k == child.begin + page_positions_;
    place = {k, whole ? &child : parent, &child, {}};
    for (size_t g = 0; g < pool_.n_groups(); ++g) place.runs.push_back(run_at(level, child, g));
    return found = true;
  });
  return found;
}

PrefixSearch::Place PrefixSearch::find() const {
  Place place = {0, path_.front(), path_.front(), std::vector<uint32_t>(pool_.n_groups(), 0)};
  for (size_t level = path_.size(); level-- > 0;) {
    if (find_below(level, place)) break;
  }
  return place;
}

}  // namespace hf2q
