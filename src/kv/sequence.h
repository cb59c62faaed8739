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
// Operations are serial, those of all sequences of a pool. A pool outlives its sequences.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/error.h"
#include "kv/page_layout.h"
#include "kv/pool.h"

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

  // Keeps the first `n_accepted` of the reserved tokens and closes the reservation.
  void commit(uint32_t n_accepted);

  // Takes tokens back, so that the next one gets position `new_length`. Fails, first with
  // OutOfRange when the sequence is shorter, then with NotResident when the rows that a query there
  // would read have left a window (never within max_rollback tokens of the longest length; to start
  // over without them, drop). CHECKs that no reservation is open.
  KvStatus truncate(uint32_t new_length);

  // A second sequence with the same tokens, sharing every page. CHECKs that no reservation is open.
  Sequence fork() const;

  // Back to empty, an open reservation included; every page loses one reference.
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

  Pool* pool_;
  SequenceOptions options_;
  uint32_t length_ = 0;
  uint32_t reserved_ = 0;
  std::vector<Table> tables_;  // [groups]
};

}  // namespace hf2q
