#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

namespace hf2q {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::ranges::stable_sort(entries_, {}, &Entry::text);
  const auto same = [](const Entry& a, const Entry& b) { return a.text == b.text; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (const Entry& entry : entries_) ++starts_[byte_at(entry.text, 0) + size_t{1}];
  for (size_t byte = 0; byte < 256; ++byte) starts_[byte + 1] += starts_[byte];
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::find(std::string_view text,
                                                              size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    const uint8_t byte = byte_at(text, at);
    if (starts_[byte] == starts_[byte + size_t{1}]) continue;
    if (const auto match = longest_at(text, at)) return match;
  }
  return std::nullopt;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::longest_at(std::string_view text,
                                                                    size_t at) const {
  std::optional<Match> longest;
  const uint8_t first = byte_at(text, at);
  auto begin = entries_.begin() + starts_[first];
  auto end = entries_.begin() + starts_[first + size_t{1}];
  for (size_t length = 1; begin != end; ++length) {
    // Every entry in [begin, end) starts with the `length` bytes at `at`; the shortest comes first.
    if (begin->text.size() == length) {
      longest = Match{at, at + length, begin->id};
      ++begin;
    }
    if (at + length == text.size()) break;
    const auto byte_of = [length](const Entry& entry) { return byte_at(entry.text, length); };
    const uint8_t next = byte_at(text, at + length);
    begin = std::ranges::lower_bound(begin, end, next, {}, byte_of);
    end = std::ranges::upper_bound(begin, end, next, {}, byte_of);
  }
  return longest;
}

}  // namespace hf2q
