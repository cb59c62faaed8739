#pragma once
// One prompt's way through a prefix tree: its keys, the resume points on it, and the pages that
// these need. What is taken out of a tree to be saved, and put into one again.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/page_layout.h"
#include "kv/pool.h"
#include "kv/token_key.h"

namespace hf2q {

struct PrefixPath {
  struct Page {
    uint32_t group = 0;
    uint32_t index = 0;   // it holds positions [index T, (index + 1) T)
    PageId id = kNoPage;  // in the tree's pool, for as long as nobody gives it up
  };
  std::vector<TokenKey> keys;    // up to the last point
  std::vector<uint32_t> points;  // ascending, above 0
  std::vector<Page> pages;       // by group, then index

  // Positions of the path in the page at `index`.
  uint32_t n_rows(uint32_t index, uint32_t page_positions) const {
    const size_t rest = keys.size() - size_t{index} * page_positions;
    return static_cast<uint32_t>(rest < page_positions ? rest : page_positions);
  }
};

// The first `n` positions of a page without what lies between and behind them:
//   [layer][K codes, K norms, V codes, V norms][head][n][row]
size_t packed_bytes(const PageLayout& layout, uint32_t n);
void pack_page(const PageLayout& layout, uint32_t n, const std::byte* page, std::byte* packed);
// The rest of the page stays as it is.
void unpack_page(const PageLayout& layout, uint32_t n, const std::byte* packed, std::byte* page);

}  // namespace hf2q
