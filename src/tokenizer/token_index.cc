#include "tokenizer/token_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "base/check.h"

namespace hf2q {
namespace {

// Texts that are looked up side by side: enough to hide the latency of memory.
constexpr size_t kBatch = 48;

uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

}  // namespace

TokenIndex::TokenIndex(std::span<const std::string> tokens)
    : tokens_(tokens), slots_(std::bit_ceil(tokens.size() * 2 + 1)) {
  for (size_t id = 0; id < tokens.size(); ++id) {
    const uint64_t hash = hash_of(tokens[id]);
    Slot& slot = slots_[find_slot(tokens[id], hash)];
    if (slot.id != kNoToken) {
      repeated_ = static_cast<int32_t>(id);
    } else {
      slot = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(id)};
    }
  }
}

int32_t TokenIndex::find(std::string_view text) const {
  return slots_[find_slot(text, hash_of(text))].id;
}

void TokenIndex::find_all(std::span<const std::string_view> texts, std::span<int32_t> ids) const {
  CHECK(texts.size() == ids.size());
  std::array<uint64_t, kBatch> hashes = {};
  for (size_t begin = 0; begin < texts.size(); begin += kBatch) {
    const size_t n = std::min(kBatch, texts.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = hash_of(texts[begin + i]);
      __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)]);
    }
    for (size_t i = 0; i < n; ++i) {
      const int32_t id = slots_[hashes[i] & (slots_.size() - 1)].id;
      if (id != kNoToken) __builtin_prefetch(&tokens_[static_cast<size_t>(id)]);
    }
    for (size_t i = 0; i < n; ++i) {
      ids[begin + i] = slots_[find_slot(texts[begin + i], hashes[i])].id;
    }
  }
}

size_t TokenIndex::find_slot(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  while (slots_[at].id != kNoToken &&
         (slots_[at].tag != tag || tokens_[static_cast<size_t>(slots_[at].id)] != text)) {
    at = (at + 1) & mask;
  }
  return at;
}

std::vector<Merge> find_merges(const TokenIndex& index, std::span<const MergeHalves> halves) {
  constexpr size_t kMerges = kBatch / 3;
  std::array<std::string, kMerges> unions;
  std::array<std::string_view, kBatch> texts;
  std::array<int32_t, kBatch> ids = {};
  std::vector<Merge> merges;
  merges.reserve(halves.size());
  while (!halves.empty()) {
    const size_t n = std::min(kMerges, halves.size());
    for (size_t i = 0; i < n; ++i) {
      const auto& [left, right] = halves[i];
      unions[i].assign(left).append(right);
      texts[3 * i] = left;
      texts[3 * i + 1] = right;
      texts[3 * i + 2] = unions[i];
    }
    index.find_all(std::span(texts).first(3 * n), std::span(ids).first(3 * n));
    for (size_t i = 0; i < n; ++i) {
      merges.push_back({ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]});
    }
    halves = halves.subspan(n);
  }
  return merges;
}

}  // namespace hf2q
