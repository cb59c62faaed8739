#pragma once
// From the texts of tokens to their ids, for the readers of vocabularies.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/huge_memory.h"
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
  // The text of an id, empty outside of the vocabulary.
  std::string_view text(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return at < tokens_.size() ? std::string_view(tokens_[at]) : std::string_view();
  }
  // An id whose text also belongs to a lower id, or kNoToken when all texts differ.
  int32_t repeated() const { return repeated_; }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t id = kNoToken;
  };
  static uint64_t key_of(std::string_view text);
  size_t home(uint64_t key) const { return (key * 0x9E3779B97F4A7C15U) >> shift_; }
  template <class Text>
  void fetch(std::span<const Text> texts, std::span<uint64_t> keys) const;
  size_t slot_of(std::string_view text, uint64_t key) const;  // its slot, or the free one

  std::span<const std::string> tokens_;
  std::vector<Slot, HugeAllocator<Slot>>
      slots_;  // a power of two, at most two thirds of them taken
  int shift_ = 0;
  int32_t repeated_ = kNoToken;
};

using MergeHalves = std::pair<std::string_view, std::string_view>;

// The merges of tokens given by their texts, which all differ (index.repeated()). A member is
// kNoToken where the vocabulary lacks the left half, the right half, or the two together.
std::vector<Merge> find_merges(const TokenIndex& index, std::span<const MergeHalves> halves);

}  // namespace hf2q
