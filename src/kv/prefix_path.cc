// Prompts taken out of a prefix tree, and put into one.

#include "kv/prefix_path.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kv/prefix_tree.h"

namespace hf2q {
namespace {

// f(offset in the page, bytes) for each stretch of the first n positions, in the packed order.
template <class F>
void for_each_stretch(const PageLayout& layout, uint32_t n, F f) {
  for (size_t layer = 0; layer < layout.n_layers; ++layer) {
    const std::pair<size_t, size_t> planes[] = {{layout.k_codes(layer), layout.k_row_bytes()},
                                                {layout.k_norms(layer), layout.k_norm_bytes()},
                                                {layout.v_codes(layer), layout.v_row_bytes()},
                                                {layout.v_norms(layer), layout.v_norm_bytes()}};
    for (const auto& [plane, row_bytes] : planes) {
      for (size_t head = 0; head < layout.n_kv_heads; ++head) {
        f(plane + head * layout.page_positions * row_bytes, n * row_bytes);
      }
    }
  }
}

}  // namespace

size_t packed_bytes(const PageLayout& layout, uint32_t n) {
  return size_t{layout.n_layers} * layout.n_kv_heads * n *
         (layout.k_row_bytes() + layout.k_norm_bytes() + layout.v_row_bytes() +
          layout.v_norm_bytes());
}

void pack_page(const PageLayout& layout, uint32_t n, const std::byte* page, std::byte* packed) {
  for_each_stretch(layout, n, [&](size_t offset, size_t bytes) {
    std::memcpy(packed, page + offset, bytes);
    packed += bytes;
  });
}

void unpack_page(const PageLayout& layout, uint32_t n, const std::byte* packed, std::byte* page) {
  for_each_stretch(layout, n, [&](size_t offset, size_t bytes) {
    std::memcpy(page + offset, packed, bytes);
    packed += bytes;
  });
}

// The nodes of the pages that hold `keys`; fewer where the tree has not all of them.
std::vector<const PrefixNode*> PrefixTree::nodes_of(std::string_view name_space,
                                                    std::span<const TokenKey> keys) const {
  std::vector<const PrefixNode*> nodes;
  const auto root = roots_.find(name_space);
  if (root == roots_.end()) return nodes;
  // Searching changes no node.
  auto* at = const_cast<PrefixNode*>(&root->second);
  while (!keys.empty()) {
    const std::span<const TokenKey> page =
        keys.first(std::min<size_t>(keys.size(), page_positions_));
    const auto whole = at->children.find(page);
    at = page.size() < page_positions_ ? find_holder(at, page)
         : whole == at->children.end() ? nullptr
                                       : whole->second.get();
    if (at == nullptr) break;
    nodes.push_back(at);
    keys = keys.subspan(page.size());
  }
  return nodes;
}

PrefixPath PrefixTree::path_to(std::string_view name_space, std::span<const TokenKey> keys,
                               std::span<const uint32_t> points) const {
  const std::vector<const PrefixNode*> nodes = nodes_of(name_space, keys);
  PrefixPath path;
  std::vector<std::vector<bool>> wanted(n_groups(), std::vector<bool>(nodes.size(), false));
  for (const uint32_t point : points) {
    CHECK(point > 0 && point <= keys.size() && (path.points.empty() || point > path.points.back()));
    const size_t last = (point - 1) / page_positions_;
    if (last >= nodes.size()) break;
    const auto pinned = pages_to_pin(nodes[last], point);
    if (!pinned) continue;
    path.points.push_back(point);
    for (size_t g = 0; g < n_groups(); ++g) {
      const size_t n = window(g) == 0 ? last + 1 : (*pinned)[g];
      for (size_t i = last + 1 - n; i <= last; ++i) wanted[g][i] = true;
    }
  }
  if (path.points.empty()) return path;
  path.keys.assign(keys.begin(), keys.begin() + path.points.back());
  for (uint32_t g = 0; g < n_groups(); ++g) {
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (wanted[g][i]) path.pages.push_back({g, i, nodes[i]->pages[g]});
    }
  }
  return path;
}

KvStatus PrefixTree::restore(std::string_view name_space, const PrefixPath& path,
                             const std::function<void(size_t page, std::byte* to)>& load) {
  std::vector<uint64_t> counts(n_groups(), 0);
  for (const PrefixPath::Page& page : path.pages) ++counts[page.group];
  std::vector<std::vector<PageId>> fresh(n_groups());
  if (const KvStatus refused = pool_.allocate(counts, fresh)) return refused;
  const size_t n_pages = (path.keys.size() + page_positions_ - 1) / page_positions_;
  std::vector<std::vector<PageId>> table(n_pages, std::vector<PageId>(n_groups(), kNoPage));
  std::vector<size_t> next(n_groups(), 0);
  for (size_t i = 0; i < path.pages.size(); ++i) {
    const auto [g, index, id] = path.pages[i];
    table[index][g] = fresh[g][next[g]++];
    load(i, pool_.data(g, table[index][g]));
  }
  PrefixNode* node = make_root(name_space);
  hold(node);
  const std::span<const TokenKey> keys = path.keys;
  for (uint32_t i = 0; i < n_pages; ++i) {
    const std::span<const TokenKey> page =
        keys.subspan(size_t{i} * page_positions_).first(path.n_rows(i, page_positions_));
    const bool whole = page.size() == page_positions_;
    const uint32_t end = i * page_positions_ + static_cast<uint32_t>(page.size());
    if (whole) node = give(node, page, table[i]);
    for (const uint32_t point : path.points) {
      if (point <= i * page_positions_ || point > end) continue;
      mark(node, whole ? std::span<const TokenKey>() : page, table[i], point);
    }
  }
  for (const std::vector<PageId>& pages : table) {
    for (size_t g = 0; g < n_groups(); ++g) {
      if (pages[g] != kNoPage) pool_.release(g, pages[g]);
    }
  }
  leave(node);
  return std::nullopt;
}

}  // namespace hf2q
