#include "tokenizer/token_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <tuple>

#include "base/check.h"
#include "base/parallel.h"

namespace hf2q {
namespace {

// Texts that are looked up side by side: enough to hide the latency of memory.
constexpr size_t kBatch = 48;

// Merges that one thread looks up in a row, and threads that share the work of a large list.
constexpr size_t kChunk = size_t{1} << 14;
constexpr size_t kMaxThreads = 4;

// Keys of longer texts have all of these bits, those of shorter ones cannot.
constexpr uint64_t kLongKey = uint64_t{0xFF} << 56;
constexpr size_t kShortBytes = 7;

}  // namespace

TokenIndex::TokenIndex(std::span<const std::string> tokens)
    : tokens_(tokens),
      slots_(std::bit_ceil(tokens.size() + tokens.size() / 2 + 2)),
      shift_(64 - std::countr_zero(slots_.size())) {
  std::array<uint64_t, kBatch> keys = {};
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (id % kBatch == 0) fetch(tokens.subspan(id, std::min(kBatch, tokens.size() - id)), keys);
    const uint64_t key = keys[id % kBatch];
    Slot& slot = slots_[slot_of(tokens[id], key)];
    if (slot.id != kNoToken) {
      repeated_ = static_cast<int32_t>(id);
    } else {
      slot = {key, static_cast<int32_t>(id)};
    }
  }
}

// The keys of up to kBatch texts; their slots are on the way from memory.
template <class Text>
void TokenIndex::fetch(std::span<const Text> texts, std::span<uint64_t> keys) const {
  for (size_t i = 0; i < texts.size(); ++i) {
    keys[i] = key_of(texts[i]);
    __builtin_prefetch(&slots_[home(keys[i])]);
  }
}

int32_t TokenIndex::find(std::string_view text) const {
  return slots_[slot_of(text, key_of(text))].id;
}

void TokenIndex::find_all(std::span<const std::string_view> texts, std::span<int32_t> ids) const {
  CHECK(texts.size() == ids.size());
  std::array<uint64_t, kBatch> keys = {};
  for (size_t begin = 0; begin < texts.size(); begin += kBatch) {
    const size_t n = std::min(kBatch, texts.size() - begin);
    fetch(texts.subspan(begin, n), keys);
    for (size_t i = 0; i < n; ++i) ids[begin + i] = slots_[slot_of(texts[begin + i], keys[i])].id;
  }
}

// Short texts, nearly all of them, are their own keys (the length, then the bytes), so that a
// look-up touches nothing but the slot; the key of a longer one is a hash.
uint64_t TokenIndex::key_of(std::string_view text) {
  if (text.size() > kShortBytes) return std::hash<std::string_view>()(text) | kLongKey;
  uint64_t key = text.size();
  for (size_t i = 0; i < text.size(); ++i) key = key << 8 | static_cast<uint8_t>(text[i]);
  return key;
}

size_t TokenIndex::slot_of(std::string_view text, uint64_t key) const {
  const bool is_long = (key & kLongKey) == kLongKey;
  const auto matches = [&](const Slot& slot) {
    return slot.key == key && (!is_long || tokens_[static_cast<size_t>(slot.id)] == text);
  };
  size_t at = home(key);
  while (slots_[at].id != kNoToken && !matches(slots_[at])) at = (at + 1) & (slots_.size() - 1);
  return at;
}

namespace {

// The ids of left halves followed by right halves. Merges mostly stand grouped by their result, and
// the groups in the order of ids: the last result and the one after it are looked at first, which
// saves nearly all of these look-ups.
class UnionFinder {
 public:
  explicit UnionFinder(const TokenIndex& index) : index_(index) {}

  int32_t find(const MergeHalves& halves) {
    for (int32_t guess = last_; guess <= last_ + 1; ++guess) {
      if (is_union(guess, halves)) return last_ = guess;
    }
    union_.assign(halves.first).append(halves.second);
    const int32_t id = index_.find(union_);
    if (id != kNoToken) last_ = id;
    return id;
  }

 private:
  bool is_union(int32_t id, const MergeHalves& halves) const {
    const std::string_view text = index_.text(id);
    return text.size() == halves.first.size() + halves.second.size() &&
           text.starts_with(halves.first) && text.ends_with(halves.second);
  }

  const TokenIndex& index_;
  int32_t last_ = 0;
  std::string union_;
};

// merges[i] of halves[i].
void find_some(const TokenIndex& index, std::span<const MergeHalves> halves,
               std::span<Merge> merges) {
  std::array<std::string_view, kBatch> texts;
  std::array<int32_t, kBatch> ids = {};
  UnionFinder unions(index);
  for (size_t begin = 0; begin < halves.size(); begin += kBatch / 2) {
    const size_t n = std::min(kBatch / 2, halves.size() - begin);
    for (size_t i = 0; i < n; ++i) std::tie(texts[2 * i], texts[2 * i + 1]) = halves[begin + i];
    index.find_all(std::span(texts).first(2 * n), std::span(ids).first(2 * n));
    for (size_t i = 0; i < n; ++i) {
      merges[begin + i] = {ids[2 * i], ids[2 * i + 1], unions.find(halves[begin + i])};
    }
  }
}

}  // namespace

std::vector<Merge> find_merges(const TokenIndex& index, std::span<const MergeHalves> halves) {
  std::vector<Merge> merges(halves.size());
  const auto find_chunk = [&](size_t chunk) {
    const size_t begin = chunk * kChunk;
    const size_t n = std::min(kChunk, halves.size() - begin);
    find_some(index, halves.subspan(begin, n), std::span(merges).subspan(begin, n));
  };
  const size_t n_chunks = (halves.size() + kChunk - 1) / kChunk;
  if (n_chunks <= 1) {
    if (n_chunks == 1) find_chunk(0);
    return merges;
  }
  ThreadPool(std::min({n_chunks, usable_processors(), kMaxThreads}))
      .parallel_for(n_chunks, find_chunk);
  return merges;
}

}  // namespace hf2q
