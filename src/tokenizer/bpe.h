#pragma once
// Byte-pair encoding of text without added tokens.
//
// The symbols are the characters of the text, a space standing for U+2581. While any two
// neighbours merge, the pair of the lowest rank does (leftmost among equals). A character without
// a token becomes the tokens of its UTF-8 bytes, and so does every byte that is not part of
// well-formed UTF-8; these never merge.
//
// Fast, and the same ids: text is cut between two characters that no merge can bring together, that
// is when no merge has a left half that ends in the first and a right half that begins with the
// second. Whatever token a sequence of merges builds, its neighbouring characters met in one of
// them, so nothing that spans such a place ever forms and the parts do not depend on each other.
// Which pairs can meet is read from the merges; nothing is assumed about words or lines.
//
// Cost: a few look-ups in a table for each character, and for long parts the sorting of positions
// (pair_queue.h), which are mostly in order.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/pair_queue.h"
#include "tokenizer/vocabulary.h"

namespace hf2q {

class Bpe {
 public:
  // kCorrupt naming the token or merge: an id out of range, a pair listed twice, a byte without a
  // token; kUnsupported when a merge involves the token of a byte.
  static Result<Bpe> create(const Vocabulary& vocabulary);

  // Memory that a thread may use for one encode() after the other.
  struct Scratch;
  // Appends the ids of `text`. CHECKs that no part has more than 2^30 characters.
  void encode(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  // A token of a part, and its merge with the next one.
  struct Symbol {
    int32_t id;
    uint32_t rank;  // MergeTable::kNoRank where the two do not merge
    int32_t merged;
    uint32_t previous;  // merge_long only: neighbours, 2^32 - 1 at the ends
    uint32_t next;
  };
  // Tokens of characters, in pages of 256 code points; page 0 of the pool is the empty one.
  struct CharacterTokens {
    using Page = std::array<int32_t, 256>;
    std::array<uint16_t, 0x1100> page_of = {};
    std::vector<Page> pages;
    CharacterTokens();
    int32_t& at_for_write(uint32_t code_point);
    int32_t at(uint32_t code_point) const {
      return pages[page_of[code_point >> 8]][code_point & 255];
    }
  };
  // Which two characters some merge brings together. A bit per hash of the pair: it may say yes for
  // a pair that never meets, which only costs time.
  class MeetingPairs {
   public:
    MeetingPairs() : bits_((kAsciiPairs + (1U << kHashBits)) / 64) {}
    void add(uint32_t first, uint32_t second) {
      const uint32_t bit = bit_of(first, second);
      bits_[bit / 64] |= uint64_t{1} << (bit % 64);
    }
    bool contains(uint32_t first, uint32_t second) const {
      const uint32_t bit = bit_of(first, second);
      return (bits_[bit / 64] >> (bit % 64) & 1) != 0;
    }

   private:
    static constexpr uint32_t kAsciiPairs = 128 * 128;  // exact
    static constexpr uint32_t kHashBits = 20;           // 128 KiB: stays in a second-level cache
    static uint32_t bit_of(uint32_t first, uint32_t second) {
      if ((first | second) < 128) return first * 128 + second;
      const uint64_t pair = static_cast<uint64_t>(first) << 32 | second;
      return kAsciiPairs + static_cast<uint32_t>((pair * 0x9E3779B97F4A7C15U) >> (64 - kHashBits));
    }
    std::vector<uint64_t> bits_;
  };

  explicit Bpe(const Vocabulary& vocabulary) : merges_(vocabulary.merges) {}
  Status read_tokens(const Vocabulary& vocabulary);
  Status read_merges(const Vocabulary& vocabulary);
  void pair_up(Symbol& left, const Symbol& right) const;
  void merge_part(Scratch& scratch, std::vector<int32_t>& ids) const;
  void merge_short(std::vector<Symbol>& symbols, std::vector<int32_t>& ids) const;
  void merge_long(std::vector<Symbol>& symbols, PairQueue& queue, std::vector<int32_t>& ids) const;

  MergeTable merges_;
  CharacterTokens characters_;
  MeetingPairs meeting_;
  std::array<int32_t, 256> bytes_ = {};
};

struct Bpe::Scratch {
  std::vector<Symbol> symbols;  // of the part in work
  PairQueue queue;
};

}  // namespace hf2q
