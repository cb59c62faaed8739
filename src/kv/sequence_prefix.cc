// What a sequence does with a prefix tree.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/sequence.h"

namespace hf2q {

PrefixMatch Sequence::attach(PrefixTree& tree, std::string_view name_space,
                             std::span<const TokenKey> keys) {
  CHECK(length_ == 0 && reserved_ == 0 && !is_attached() && &tree.pool() == pool_);
  const std::span<const TokenKey> readable =
      keys.first(std::min<size_t>(keys.size(), options_.n_ctx));
  const PrefixTree::Attachment found = tree.attach(name_space, readable, options_.max_rollback);
  tree_ = &tree;
  cursor_ = found.cursor;
  length_ = found.match.k;
  if (found.match.limit == ReuseLimit::kWindow) planned_.push_back(found.match.common);
  const std::span<const TokenKey> tail = keys.first(length_).subspan(cursor_->end());
  tail_.assign(tail.begin(), tail.end());
  share_pages(found.last, found.first_page);
  return found.match;
}

// Takes the pages of the path that ends in `last`.
void Sequence::share_pages(const PrefixNode* last, std::span<const uint32_t> first_page) {
  for (size_t g = 0; g < tables_.size(); ++g) {
    Table& table = tables_[g];
    table.ids.assign(pages_for(g, length_), kNoPage);
    table.data.assign(table.ids.size(), nullptr);
    table.first = first_page[g];
    const PrefixNode* node = last;
    for (size_t i = table.ids.size(); i-- > table.first; node = node->parent) {
      pool_->retain(g, node->pages[g]);
      table.ids[i] = node->pages[g];
      table.data[i] = pool_->data(g, node->pages[g]);
    }
  }
}

void Sequence::give_full_pages(std::span<const TokenKey> keys) {
  for (const TokenKey& key : keys) {
    tail_.push_back(key);
    if (tail_.size() == positions(0)) give_page();
  }
  make_planned_points();
}

void Sequence::make_planned_points() {
  for (uint32_t position : std::exchange(planned_, {})) (void)mark(position);
}

void Sequence::give_page() {
  const size_t index = cursor_->end() / positions(0);
  std::vector<PageId> pages = pages_at(index);
  cursor_ = tree_->give(cursor_, tail_, pages);
  tail_.clear();
  for (size_t g = 0; g < tables_.size(); ++g) {
    tables_[g].ids[index] = pages[g];
    tables_[g].data[index] = pool_->data(g, pages[g]);
  }
}

std::vector<PageId> Sequence::pages_at(size_t index) const {
  std::vector<PageId> pages;
  for (const Table& table : tables_) pages.push_back(table.ids[index]);
  return pages;
}

// After tokens were taken back.
void Sequence::move_cursor_back() {
  PrefixNode* node = cursor_;
  std::span<const TokenKey> keys = tail_;
  while (node->end() > length_) {
    keys = node->keys;
    node = node->parent;
  }
  const std::span<const TokenKey> rest = keys.first(length_ - node->end());
  tail_ = std::vector<TokenKey>(rest.begin(), rest.end());
  if (node != cursor_) {
    tree_->hold(node);
    tree_->leave(std::exchange(cursor_, node));
  }
}

bool Sequence::mark(uint32_t position) {
  CHECK(is_attached() && reserved_ == 0);
  if (position > length_) {
    planned_.push_back(position);
    return true;
  }
  const bool in_tail = position > cursor_->end();
  const std::vector<PageId> last =
      in_tail ? pages_at(cursor_->end() / positions(0)) : std::vector<PageId>{};
  return tree_->mark(cursor_, tail_, last, position);
}

}  // namespace hf2q
