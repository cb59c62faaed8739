#pragma once
// From the texts of tokens to their ids, for the readers of vocabularies.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace hf2q {

// A flat open-addressing table. Refers to `tokens`, which has to outlive it unchanged.
class TokenIndex {
 public:
  explicit TokenIndex(std::span<const std::string> tokens);

  // The lowest id with this text, or kNoToken.
  int32_t find(std::string_view text) const;
  // ids[i] = find(texts[i]), the waits for memory overlapping. As many ids as texts.
  void find_all(std::span<const std::string_view> texts, std::span<int32_t> ids) const;
  // An id whose text also belongs to a lower id, or kNoToken when all texts differ.
  int32_t repeated() const { return repeated_; }

 private:
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash
    int32_t id = kNoToken;
  };
  size_t find_slot(std::string_view text, uint64_t hash) const;  // its slot, or the free one

  std::span<const std::string> tokens_;
  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  int32_t repeated_ = kNoToken;
};

using MergeHalves = std::pair<std::string_view, std::string_view>;

// The merges of tokens given by their texts. A member is kNoToken where the vocabulary lacks the
// left half, the right half, or the two together.
std::vector<Merge> find_merges(const TokenIndex& index, std::span<const MergeHalves> halves);

}  // namespace hf2q
