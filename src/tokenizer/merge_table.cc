#include "tokenizer/merge_table.h"

#include <algorithm>

namespace hf2q {

MergeTable::MergeTable(std::span<const Merge> merges)
    : slots_(std::bit_ceil(merges.size() * 2 + 2)),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {
  constexpr size_t kAhead = 16;  // slots on their way from memory
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& ahead = merges[std::min(rank + kAhead, merges.size() - 1)];
    __builtin_prefetch(&slots_[home(ahead.left, ahead.right)], 1);
    const Merge& merge = merges[rank];
    Slot& slot = slots_[slot_of(merge.left, merge.right)];
    if (slot.rank != kNoRank) {
      repeated_ = rank;
    } else {
      slot = {merge.left, merge.right, static_cast<uint32_t>(rank), merge.merged};
    }
  }
}

}  // namespace hf2q
