#include "kv/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/prefix_match.h"

namespace hf2q {

std::string_view name_of(ReuseLimit limit) {
  static constexpr std::string_view kNames[kReuseLimits] = {"whole", "no match", "window", "budget",
                                                            "format"};
  return kNames[static_cast<size_t>(limit)];
}

PrefixTree::PrefixTree(Pool& pool)
    : pool_(pool), page_positions_(pool.group(0).layout.page_positions) {
  for (size_t g = 0; g < n_groups(); ++g) {
    CHECK(pool_.group(g).layout.page_positions == page_positions_);
  }
  pool_.set_reclaimer([this] { return reclaim(); });
}

PrefixTree::~PrefixTree() {
  clear();
  CHECK(roots_.empty());  // else a sequence is still attached
  pool_.set_reclaimer({});
}

namespace {

// Paths of other formats that are remembered in a namespace, and keys of each.
constexpr size_t kMostOtherFormats = 16;
constexpr size_t kMostOtherKeys = 1024;

}  // namespace

void PrefixTree::note_other_format(std::string_view name_space, std::span<const TokenKey> keys) {
  std::vector<std::vector<TokenKey>>& paths = other_formats_[std::string(name_space)];
  if (paths.size() == kMostOtherFormats) paths.erase(paths.begin());
  const std::span<const TokenKey> first = keys.first(std::min(keys.size(), kMostOtherKeys));
  paths.emplace_back(first.begin(), first.end());
}

PrefixMatch PrefixTree::describe(std::string_view name_space, std::span<const TokenKey> keys,
                                 const PrefixSearch& search, uint32_t k) const {
  PrefixMatch match = {k, search.common(), ReuseLimit::kNoMatch};
  if (k < match.common) {
    match.limit = ReuseLimit::kWindow;
  } else if (k == search.most()) {
    match.limit = ReuseLimit::kWhole;
  } else if (search.was_evicted()) {
    match.limit = ReuseLimit::kBudget;
  } else if (const auto others = other_formats_.find(name_space); others != other_formats_.end()) {
    const bool was_read = std::ranges::any_of(
        others->second, [&](const auto& path) { return common_prefix(path, keys) > match.common; });
    if (was_read) match.limit = ReuseLimit::kFormat;
  }
  return match;
}

PrefixMatch PrefixTree::match(std::string_view name_space, std::span<const TokenKey> keys) const {
  PrefixNode nothing;
  const auto root = roots_.find(name_space);
  // Searching changes no node.
  auto* start = root == roots_.end() ? &nothing : const_cast<PrefixNode*>(&root->second);
  const PrefixSearch search(pool_, start, keys);
  return describe(name_space, keys, search, search.find().k);
}

PrefixNode* PrefixTree::make_root(std::string_view name_space) {
  auto root = roots_.find(name_space);
  if (root == roots_.end()) root = roots_.try_emplace(std::string(name_space)).first;
  PrefixNode& node = root->second;
  node.name_space = root->first;
  return &node;
}

PrefixTree::Attachment PrefixTree::attach(std::string_view name_space,
                                          std::span<const TokenKey> keys, uint32_t max_rollback) {
  const PrefixSearch search(pool_, make_root(name_space), keys);
  const PrefixSearch::Place place = search.find();
  Attachment result = {describe(name_space, keys, search, place.k), place.cursor, place.last, {}};
  for (size_t g = 0; g < n_groups(); ++g) {
    const uint64_t wanted = first_needed(window(g), place.k, max_rollback);
    const uint32_t first = std::max(place.runs[g], static_cast<uint32_t>(wanted)) / page_positions_;
    result.first_page.push_back(first);
    for (PrefixNode* node = place.last; node->parent && node->begin / page_positions_ >= first;
         node = node->parent) {
      if (window(g) == 0) break;
      use(node, g);
    }
  }
  use_point(search.deepest(), std::min(place.k + 1, search.n_equal()));
  count(result.match, keys.size());
  hold(place.cursor);
  return result;
}

void PrefixTree::count(const PrefixMatch& match, size_t n_tokens) {
  ++stats_.n_attached;
  if (match.k > 0) ++stats_.n_hits;
  stats_.prompt_tokens += n_tokens;
  stats_.reused_tokens += match.k;
  ++stats_.limits[static_cast<size_t>(match.limit)];
}

void PrefixTree::leave(PrefixNode* node) {
  CHECK(node->n_cursors > 0);
  --node->n_cursors;
  refresh(node);
  remove_empty_root(node);
}

PrefixNode* PrefixTree::insert(PrefixNode* parent, std::span<const TokenKey> keys,
                               std::span<const PageId> pages) {
  auto node = std::make_unique<PrefixNode>();
  node->parent = parent;
  node->begin = parent->end();
  node->keys.assign(keys.begin(), keys.end());
  node->pages.assign(n_groups(), kNoPage);
  node->pins.assign(n_groups(), 0);
  node->idle_since.assign(n_groups() + 1, 0);
  PrefixNode* inserted = node.get();
  parent->children.emplace(inserted->keys, std::move(node));
  std::erase(parent->lost, keys.front());
  ++n_nodes_;
  refresh(parent);
  fill(inserted, pages);
  refresh(inserted);
  return inserted;
}

// Takes the pages that the node lacks.
void PrefixTree::fill(PrefixNode* node, std::span<const PageId> pages) {
  for (size_t g = 0; g < n_groups(); ++g) {
    if (node->pages[g] != kNoPage || pages[g] == kNoPage) continue;
    pool_.cache(g, pages[g]);
    node->pages[g] = pages[g];
  }
}

// Both sides hold one page for the same rows afterwards.
void PrefixTree::adopt(PrefixNode* node, std::span<PageId> pages) {
  fill(node, pages);
  for (size_t g = 0; g < n_groups(); ++g) {
    if (node->pages[g] == pages[g] || pages[g] == kNoPage) continue;
    pool_.retain(g, node->pages[g]);
    pool_.release(g, pages[g]);
    pages[g] = node->pages[g];
  }
}

PrefixNode* PrefixTree::give(PrefixNode* at, std::span<const TokenKey> keys,
                             std::span<PageId> pages) {
  CHECK(keys.size() == page_positions_);
  const auto found = at->children.find(keys);
  PrefixNode* node = found != at->children.end() ? found->second.get() : insert(at, keys, pages);
  adopt(node, pages);
  absorb_beginnings(node);
  hold(node);
  refresh(node);
  leave(at);
  return node;
}

bool PrefixTree::is_complete(const PrefixNode& node) const {
  return std::find(node.pages.begin(), node.pages.end(), kNoPage) == node.pages.end();
}

// Leaves that hold fewer of the same rows are not needed any more.
void PrefixTree::absorb_beginnings(PrefixNode* node) {
  if (!is_complete(*node)) return;
  const std::span<const TokenKey> keys = node->keys;
  for (size_t n = 1; n < keys.size(); ++n) {
    const auto shorter = node->parent->children.find(keys.first(n));
    if (shorter != node->parent->children.end()) replace(shorter->second.get(), node);
  }
}

void PrefixTree::replace(PrefixNode* shorter, PrefixNode* node) {
  for (ResumePoints::iterator point : shorter->points) {
    point->node = node;
    node->points.push_back(point);
  }
  shorter->points.clear();
  for (size_t g = 0; g < n_groups(); ++g) {
    node->pins[g] += std::exchange(shorter->pins[g], 0);
  }
  remove_leaf(shorter);
  refresh(node);
}

// A child of `at` that has all rows of these keys.
PrefixNode* PrefixTree::find_holder(PrefixNode* at, std::span<const TokenKey> keys) const {
  for (auto child = at->children.lower_bound(keys); child != at->children.end(); ++child) {
    if (common_prefix(child->first, keys) < keys.size()) break;
    if (is_complete(*child->second)) return child->second.get();
  }
  return nullptr;
}

bool PrefixTree::mark(PrefixNode* at, std::span<const TokenKey> tail, std::span<const PageId> pages,
                      uint32_t position) {
  PrefixNode* node = at;
  if (position > at->end()) {
    node = find_holder(at, tail);
    if (node == nullptr) {
      const auto same = at->children.find(tail);
      node = same == at->children.end() ? insert(at, tail, pages) : same->second.get();
      fill(node, pages);
      absorb_beginnings(node);
    }
  }
  while (node->parent != nullptr && position <= node->begin) node = node->parent;
  if (node->parent == nullptr) return false;
  std::optional<std::vector<uint32_t>> pinned = pages_to_pin(node, position);
  const bool possible = pinned.has_value();
  if (possible) add_point(node, position, std::move(*pinned));
  refresh(node);
  return possible;
}

// How many pages, from the node's upwards, hold the last W rows before `position`; the first of
// these rows may be missing.
std::optional<std::vector<uint32_t>> PrefixTree::pages_to_pin(const PrefixNode* node,
                                                              uint32_t position) const {
  std::vector<uint32_t> counts(n_groups(), 0);
  for (size_t g = 0; g < n_groups(); ++g) {
    if (window(g) == 0) continue;
    const uint64_t needed = first_needed(window(g), position, 0);
    const uint64_t wanted = first_needed(window(g), position, 1);
    for (const PrefixNode* n = node; n->parent != nullptr && n->end() > wanted; n = n->parent) {
      if (n->pages[g] == kNoPage && n->end() > needed) return std::nullopt;
      if (n->pages[g] == kNoPage) break;
      ++counts[g];
    }
  }
  return counts;
}

void PrefixTree::add_point(PrefixNode* node, uint32_t position, std::vector<uint32_t> n_pinned) {
  for (ResumePoints::iterator point : node->points) {
    if (point->position != position) continue;
    points_.splice(points_.end(), points_, point);
    return;
  }
  for (size_t g = 0; g < n_groups(); ++g) {
    PrefixNode* above = node;
    for (uint32_t i = 0; i < n_pinned[g]; ++i, above = above->parent) {
      ++above->pins[g];
      refresh(above);
    }
  }
  points_.push_back({node, position, std::move(n_pinned)});
  node->points.push_back(std::prev(points_.end()));
}

// The deepest point of a path whose keys are equal up to `most`, and that point itself too.
void PrefixTree::use_point(const PrefixNode* node, uint32_t most) {
  for (; node != nullptr; node = node->parent) {
    auto best = points_.end();
    for (ResumePoints::iterator point : node->points) {
      const bool better = best == points_.end() || point->position > best->position;
      if (point->position <= most && better) best = point;
    }
    if (best == points_.end()) continue;
    points_.splice(points_.end(), points_, best);
    return;
  }
}

}  // namespace hf2q
