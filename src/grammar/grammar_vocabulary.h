#pragma once
// The tokens of a vocabulary as a grammar sees them: as bytes, in a trie.
//
// Control and unknown tokens, unused ones, and the markers of thinking and tool calls are no text:
// they come only where a grammar names them. Stop tokens come only where the text may end.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace hf2q {

// Bit t % 64 of word t / 64: token t.
using TokenBits = std::vector<uint64_t>;
inline void set_bit(std::span<uint64_t> bits, size_t t) {
  bits[t / 64] |= uint64_t{1} << (t % 64);
}
inline bool has_bit(std::span<const uint64_t> bits, size_t t) {
  return (bits[t / 64] >> (t % 64) & 1) != 0;
}

// Byte strings as a tree in depth-first order: the part below node i is (i, end of i).
class TokenTrie {
 public:
  struct Node {
    uint32_t end;
    uint32_t first_token;  // in tokens()
    uint32_t n_tokens;
    uint16_t depth;  // bytes up to and with this one; the root has 0
    uint8_t byte;
  };

  struct Entry {
    std::string_view bytes;  // not empty
    int32_t id;
  };
  explicit TokenTrie(std::vector<Entry> entries);

  const std::vector<Node>& nodes() const { return nodes_; }
  // The tokens that end at a node.
  std::span<const int32_t> tokens(const Node& node) const {
    return std::span(tokens_).subspan(node.first_token, node.n_tokens);
  }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
};

// Immutable, shared by all grammars of a model.
class GrammarVocabulary {
 public:
  // Plain text is well-formed UTF-8 without control characters, quotes and backslashes: what the
  // inside of a JSON string consists of.
  static constexpr size_t kMaxPlainCharacters = 32;

  static std::shared_ptr<const GrammarVocabulary> create(const Tokenizer& tokenizer);

  size_t n_tokens() const { return bytes_.size(); }
  size_t n_words() const { return (n_tokens() + 63) / 64; }
  // Empty for a token that is no text.
  std::string_view bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }
  bool is_stop(int32_t id) const;
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  // The lowest id of a token that is no text with this name, such as "<|tool_call>".
  std::optional<int32_t> marker(std::string_view name) const;

  const TokenTrie& trie() const { return *trie_; }
  // The tokens that are not plain, or have more than kMaxPlainCharacters.
  const TokenTrie& other_trie() const { return *other_trie_; }
  // The plain tokens of at most n characters, 1 <= n <= kMaxPlainCharacters.
  const TokenBits& plain(size_t n_characters) const { return plain_[n_characters - 1]; }

 private:
  GrammarVocabulary() = default;
  std::vector<std::string> bytes_;  // [id]
  std::vector<int32_t> stop_ids_;
  std::vector<std::pair<std::string, int32_t>> markers_;
  std::unique_ptr<TokenTrie> trie_;
  std::unique_ptr<TokenTrie> other_trie_;
  std::vector<TokenBits> plain_;  // [n - 1]
};

}  // namespace hf2q
