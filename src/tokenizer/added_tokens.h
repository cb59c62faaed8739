#pragma once
// Finds added tokens in text: leftmost first, and of those that begin at one place the longest.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hf2q {

// A sorted list of texts, walked like a trie: each byte of the input narrows the range of entries
// that begin with what has been read. A place where no entry begins costs one table look-up, any
// other at most kMaxTokenBytes narrowings.
class AddedTokenFinder {
 public:
  struct Entry {
    std::string text;  // not empty
    int32_t id;
  };
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };

  // Of entries with the same text the first one counts.
  explicit AddedTokenFinder(std::vector<Entry> entries);

  bool empty() const { return entries_.empty(); }
  // The first match in `text` that begins at `from` or later.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  std::optional<Match> longest_at(std::string_view text, size_t at) const;

  std::vector<Entry> entries_;             // ascending by bytes
  std::array<uint32_t, 257> starts_ = {};  // [b], [b + 1): the entries that begin with byte b
};

}  // namespace hf2q
