#include "kv/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hf2q {

Sequence::Sequence(Pool& pool, const SequenceOptions& options)
    : pool_(&pool), options_(options), tables_(pool.n_groups()) {}

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(other.pool_),
      options_(other.options_),
      length_(std::exchange(other.length_, 0)),
      reserved_(std::exchange(other.reserved_, 0)),
      last_block_(std::exchange(other.last_block_, -1)),
      tables_(std::exchange(other.tables_, std::vector<Table>(pool_->n_groups()))),
      tree_(std::exchange(other.tree_, nullptr)),
      cursor_(std::exchange(other.cursor_, nullptr)),
      tail_(std::exchange(other.tail_, {})),
      planned_(std::exchange(other.planned_, {})) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this == &other) return *this;
  drop();
  std::swap(pool_, other.pool_);
  std::swap(options_, other.options_);
  std::swap(length_, other.length_);
  std::swap(reserved_, other.reserved_);
  std::swap(last_block_, other.last_block_);
  std::swap(tables_, other.tables_);
  std::swap(tree_, other.tree_);
  std::swap(cursor_, other.cursor_);
  std::swap(tail_, other.tail_);
  std::swap(planned_, other.planned_);
  return *this;
}

size_t Sequence::pages_for(size_t g, uint64_t length) const {
  return (length + positions(g) - 1) / positions(g);
}

uint32_t Sequence::first_resident(size_t g) const {
  return static_cast<uint32_t>(tables_[g].first) * positions(g);
}

// The next token would be written into a page that another sequence or the tree also holds.
bool Sequence::copies_last_page(size_t g) const {
  return length_ % positions(g) != 0 && pool_->references(g, tables_[g].ids.back()) > 1;
}

void Sequence::append(size_t g, PageId page) {
  tables_[g].ids.push_back(page);
  tables_[g].data.push_back(pool_->data(g, page));
}

void Sequence::replace_last_page(size_t g, PageId page) {
  Table& table = tables_[g];
  pool_->copy(g, table.ids.back(), page);
  pool_->release(g, table.ids.back());
  table.ids.back() = page;
  table.data.back() = pool_->data(g, page);
}

KvStatus Sequence::reserve(uint32_t n_new) {
  CHECK(reserved_ == 0);
  const uint64_t new_length = uint64_t{length_} + n_new;
  if (new_length > options_.n_ctx) return CapacityExceeded{new_length, options_.n_ctx};
  if (n_new == 0) return std::nullopt;
  std::vector<uint64_t> counts(tables_.size());
  std::vector<bool> copies(tables_.size());
  std::vector<std::vector<PageId>> fresh(tables_.size());
  for (size_t g = 0; g < tables_.size(); ++g) {
    copies[g] = copies_last_page(g);
    counts[g] = pages_for(g, new_length) - tables_[g].ids.size() + (copies[g] ? 1 : 0);
  }
  if (KvStatus refused = pool_->allocate(counts, fresh)) return refused;
  for (size_t g = 0; g < tables_.size(); ++g) {
    auto page = fresh[g].begin();
    if (copies[g]) replace_last_page(g, *page++);
    for (; page != fresh[g].end(); ++page) append(g, *page);
  }
  reserved_ = n_new;
  return std::nullopt;
}

// Gives back the pages that hold no token.
void Sequence::cut_tables() {
  for (size_t g = 0; g < tables_.size(); ++g) {
    Table& table = tables_[g];
    const size_t size = pages_for(g, length_);
    for (size_t i = size; i < table.ids.size(); ++i) pool_->release(g, table.ids[i]);
    table.ids.resize(size);
    table.data.resize(size);
  }
}

// Gives back the pages that no query can reach.
void Sequence::pass_windows() {
  for (size_t g = 0; g < tables_.size(); ++g) {
    Table& table = tables_[g];
    const uint64_t needed =
        first_needed(pool_->group(g).window, length_, options_.max_rollback) / positions(g);
    for (; table.first < needed; ++table.first) {
      pool_->release(g, std::exchange(table.ids[table.first], kNoPage));
      table.data[table.first] = nullptr;
    }
  }
}

void Sequence::commit(uint32_t n_accepted, std::span<const TokenKey> keys, int32_t last_block) {
  CHECK(n_accepted <= reserved_);
  CHECK(!is_attached() || keys.size() == n_accepted);
  if (n_accepted > 0) last_block_ = last_block;
  length_ += n_accepted;
  reserved_ = 0;
  cut_tables();
  if (is_attached()) give_full_pages(keys);
  pass_windows();
}

KvStatus Sequence::truncate(uint32_t new_length) {
  CHECK(reserved_ == 0);
  if (new_length > length_) return OutOfRange{new_length, length_};
  if (new_length == length_) return std::nullopt;
  for (size_t g = 0; g < tables_.size(); ++g) {
    const uint64_t needed = first_needed(pool_->group(g).window, new_length, 0);
    if (needed < first_resident(g)) return NotResident{g, needed, first_resident(g)};
  }
  length_ = new_length;
  last_block_ = -1;
  cut_tables();
  if (is_attached()) move_cursor_back();
  return std::nullopt;
}

Sequence Sequence::fork() const {
  CHECK(reserved_ == 0);
  Sequence copy(*pool_, options_);
  copy.length_ = length_;
  copy.last_block_ = last_block_;
  copy.tables_ = tables_;
  for (size_t g = 0; g < tables_.size(); ++g) {
    for (size_t i = tables_[g].first; i < tables_[g].ids.size(); ++i) {
      pool_->retain(g, tables_[g].ids[i]);
    }
  }
  copy.tree_ = tree_;
  copy.cursor_ = cursor_;
  copy.tail_ = tail_;
  copy.planned_ = planned_;
  if (is_attached()) tree_->hold(cursor_);
  return copy;
}

void Sequence::drop() {
  for (size_t g = 0; g < tables_.size(); ++g) {
    Table& table = tables_[g];
    for (size_t i = table.first; i < table.ids.size(); ++i) pool_->release(g, table.ids[i]);
    table = {};
  }
  length_ = 0;
  reserved_ = 0;
  last_block_ = -1;
  if (is_attached()) tree_->leave(cursor_);
  tree_ = nullptr;
  cursor_ = nullptr;
  tail_.clear();
  planned_.clear();
}

KvRow Sequence::row(size_t g, uint32_t position) const {
  CHECK(position < uint64_t{length_} + reserved_);
  const uint32_t begin = static_cast<uint32_t>(first_needed(pool_->group(g).window, position, 0));
  CHECK(begin >= first_resident(g));
  return {tables_[g].data.data(), position, begin, position + 1};
}

}  // namespace hf2q
