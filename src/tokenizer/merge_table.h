#pragma once
// Which two neighbouring tokens merge, at what rank, and into what.

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/huge_memory.h"
#include "tokenizer/vocabulary.h"

namespace hf2q {

// A flat open-addressing table over (left, right), at most half full: four slots share a cache
// line, so that a lookup mostly touches one.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = 0xFFFFFFFF;
  struct Slot {
    int32_t left = kNoToken;
    int32_t right = kNoToken;
    uint32_t rank = kNoRank;  // index of the merge
    int32_t merged = kNoToken;
  };

  explicit MergeTable(std::span<const Merge> merges);

  // The slot of this pair; one with rank kNoRank when the two do not merge.
  const Slot& find(int32_t left, int32_t right) const { return slots_[slot_of(left, right)]; }
  // The index of a merge whose pair stands earlier in the list as well, if any.
  std::optional<size_t> repeated() const { return repeated_; }

 private:
  size_t home(int32_t left, int32_t right) const {
    const uint64_t pair =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return (pair * 0x9E3779B97F4A7C15U) >>
           shift_;  // the top bits of a product by 2^64 / golden ratio
  }

  size_t slot_of(int32_t left, int32_t right) const {
    size_t at = home(left, right);
    while (slots_[at].rank != kNoRank && (slots_[at].left != left || slots_[at].right != right)) {
      at = (at + 1) & mask_;
    }
    return at;
  }

  std::vector<Slot, HugeAllocator<Slot>> slots_;  // a power of two
  size_t mask_ = 0;
  int shift_ = 0;
  std::optional<size_t> repeated_;
};

}  // namespace hf2q
