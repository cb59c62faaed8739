#pragma once
// The cached tokens of one sequence: a length, and for each group the pages that hold its rows.
//
// A pass: reserve(m), then rows of positions [length, length + m) are written and read through
// pages(), then commit(a) with the a <= m tokens that are kept (an aborted pass commits 0).
// Sequences share pages after fork(); a page that others also hold is never written: reserve()
// copies the one partly filled page that would be. Bytes beyond the length mean nothing.
//
// Groups with a window give back pages whose rows no query can reach any more, not even after
// max_rollback tokens were taken back (first_needed() of plan.h).
//
// A sequence that is attached to a prefix tree (prefix_tree.h) begins with what the tree has of its
// prompt, and gives the tree each page that fills: commit() needs the tokens' keys then. Where the
// tree has a page with the same rows already, that one takes the place of the sequence's own.
//
// Operations are serial, those of all sequences of a pool. Pool and tree outlive the sequences.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/error.h"
#include "kv/page_layout.h"
#include "kv/pool.h"
#include "kv/prefix_tree.h"
#include "kv/token_key.h"

namespace hf2q {

struct SequenceOptions {
  uint32_t n_ctx = 0;          // most tokens
  uint32_t max_rollback = 64;  // tokens that truncate() can always take back
};

class Sequence {
 public:
  // Empty; holds no page.
  Sequence(Pool& pool, const SequenceOptions& options);
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() { drop(); }

  uint32_t length() const { return length_; }
  uint32_t reserved() const { return reserved_; }

  // Makes room for `n_new` more tokens: pages for all of their rows, and a copy of the last page if
  // it is partly filled and shared. The only operation that takes memory; it succeeds or changes
  // nothing. Fails with CapacityExceeded, then BudgetExceeded or SystemMemoryExceeded.
  // CHECKs that no reservation is open.
  KvStatus reserve(uint32_t n_new);

  // Keeps the first `n_accepted` of the reserved tokens and closes the reservation. `keys` are
  // theirs; CHECKs that an attached sequence gets that many. `last_block` is the image block of the
  // last one, or -1.
  void commit(uint32_t n_accepted, std::span<const TokenKey> keys = {}, int32_t last_block = -1);
  // The image block of the last token, as it was committed; -1 after truncate() and attach().
  int32_t last_block() const { return last_block_; }

  // Attaches an empty sequence to a tree of its pool. It has the returned k first tokens of the
  // prompt `keys` then, whose rows it shares; nothing is allocated. Where a window kept it from
  // having more, a resume point is made once it has read as far again.
  // CHECKs that it is empty and not attached.
  PrefixMatch attach(PrefixTree& tree, std::string_view name_space, std::span<const TokenKey> keys);
  bool is_attached() const { return cursor_ != nullptr; }

  // Makes a resume point at `position`: at the end of a system turn, a prompt or an answer. One
  // beyond length() is made by the commit that reaches it. False where it cannot be, as rows of a
  // window are gone (never at length() or beyond). The partly filled page there is shared with the
  // tree from then on. CHECKs that the sequence is attached and no reservation is open.
  bool mark(uint32_t position);

  // Takes tokens back, so that the next one gets position `new_length`. Fails, first with
  // OutOfRange when the sequence is shorter, then with NotResident when the rows that a query there
  // would read have left a window (never within max_rollback tokens of the longest length; to start
  // over without them, drop). CHECKs that no reservation is open.
  KvStatus truncate(uint32_t new_length);

  // A second sequence with the same tokens, sharing every page. CHECKs that no reservation is open.
  Sequence fork() const;

  // Back to empty, an open reservation included; every page loses one reference. It is not attached
  // any more.
  void drop();

  // Entry i holds positions [i T, (i + 1) T) of all layers of a group; nullptr where the window has
  // passed. Valid until the next operation.
  std::span<std::byte* const> pages(size_t g) const { return tables_[g].data; }
  std::span<const PageId> page_ids(size_t g) const { return tables_[g].ids; }
  // The first position whose rows are there.
  uint32_t first_resident(size_t g) const;

  // What a causal query at `position` (committed or reserved) of this group's layers reads.
  KvRow row(size_t g, uint32_t position) const;

 private:
  struct Table {
    std::vector<PageId> ids;       // kNoPage where the window has passed
    std::vector<std::byte*> data;  // of the same pages
    size_t first = 0;              // the first page that is there
  };

  uint32_t positions(size_t g) const { return pool_->group(g).layout.page_positions; }
  size_t pages_for(size_t g, uint64_t length) const;
  bool copies_last_page(size_t g) const;
  void append(size_t g, PageId page);
  void replace_last_page(size_t g, PageId page);
  void cut_tables();
  void pass_windows();
  void share_pages(const PrefixNode* last, std::span<const uint32_t> first_page);
  void give_full_pages(std::span<const TokenKey> keys);
  void give_page();
  void make_planned_points();
  void move_cursor_back();
  std::vector<PageId> pages_at(size_t index) const;

  Pool* pool_;
  SequenceOptions options_;
  uint32_t length_ = 0;
  uint32_t reserved_ = 0;
  int32_t last_block_ = -1;
  std::vector<Table> tables_;  // [groups]

  PrefixTree* tree_ = nullptr;
  PrefixNode* cursor_ = nullptr;   // of the last full page; the tree holds every page up to it
  std::vector<TokenKey> tail_;     // of the tokens behind it, fewer than a page
  std::vector<uint32_t> planned_;  // resume points beyond length_
};

}  // namespace hf2q
