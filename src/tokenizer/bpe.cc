#include "tokenizer/bpe.h"

#include <algorithm>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

// Where shifting an array becomes slower than a queue: around here both take the same time.
constexpr size_t kShortSymbols = 64;

// A part has fewer than 2^32 pairs in its time.
constexpr size_t kMaxPart = size_t{1} << 30;

constexpr uint32_t kNone = 0xFFFFFFFF;

// Spaces and U+2581 are one symbol, under the code point of the space.
uint32_t unified(uint32_t code_point) {
  return code_point == 0x2581 ? ' ' : code_point;
}

// The first and the last character of a token that may merge.
struct Ends {
  uint32_t first = kNone;
  uint32_t last = kNone;
};

Ends ends_of(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return {unified(first_code_point(text).value), unified(first_code_point(text.substr(at)).value)};
}

}  // namespace

Bpe::CharacterTokens::CharacterTokens() {
  pages.emplace_back();
  pages[0].fill(kNoToken);
}

int32_t& Bpe::CharacterTokens::at_for_write(uint32_t code_point) {
  uint16_t& page = page_of[code_point >> 8];
  if (page == 0) {
    page = static_cast<uint16_t>(pages.size());
    pages.push_back(pages[0]);
  }
  return pages[page][code_point & 255];
}

Result<Bpe> Bpe::create(const Vocabulary& vocabulary) {
  Bpe bpe(vocabulary);
  TRY_OK(bpe.read_tokens(vocabulary));
  TRY_OK(bpe.read_merges(vocabulary));
  return bpe;
}

Status Bpe::read_tokens(const Vocabulary& vocabulary) {
  bytes_.fill(kNoToken);
  for (size_t i = vocabulary.tokens.size(); i-- > 0;) {  // down, so that the lowest id stays
    const std::string& text = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    if (text.empty()) return error(ErrorCode::kCorrupt, "token {}: its text is empty", id);
    if (const auto byte = byte_of_token(text)) bytes_[*byte] = id;
    const CodePoint first = first_code_point(text);
    if (first.n_bytes == text.size() && first.value != kInvalidCodePoint) {
      characters_.at_for_write(first.value) = id;
    }
  }
  characters_.at_for_write(' ') = characters_.at(0x2581);
  for (size_t byte = 0; byte < 256; ++byte) {
    if (bytes_[byte] == kNoToken) {
      return error(ErrorCode::kCorrupt, "the token {} of byte fallback is missing",
                   token_of_byte(static_cast<uint8_t>(byte)));
    }
  }
  return Ok{};
}

Status Bpe::read_merges(const Vocabulary& vocabulary) {
  if (merges_.repeated()) {
    return error(ErrorCode::kCorrupt, "merge {}: the same pair stands earlier in the list",
                 *merges_.repeated());
  }
  // Apart from the texts, which lie all over memory.
  std::vector<Ends> ends(vocabulary.tokens.size());
  for (size_t id = 0; id < ends.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    if (!byte_of_token(text)) ends[id] = ends_of(text);
  }
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const Merge& merge = vocabulary.merges[rank];
    for (const int32_t id : {merge.left, merge.right, merge.merged}) {
      if (id < 0 || static_cast<size_t>(id) >= ends.size()) {
        return error(ErrorCode::kCorrupt, "merge {}: token ids below {} expected, found {}", rank,
                     ends.size(), id);
      }
      if (ends[static_cast<size_t>(id)].first == kNone) {
        return error(ErrorCode::kUnsupported, "merge {}: the token of a byte, {}, cannot merge",
                     rank, vocabulary.tokens[static_cast<size_t>(id)]);
      }
    }
    meeting_.add(ends[static_cast<size_t>(merge.left)].last,
                 ends[static_cast<size_t>(merge.right)].first);
  }
  return Ok{};
}

void Bpe::encode(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids) const {
  uint32_t previous = kNone;
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = first_code_point(text.substr(at));
    const int32_t id =
        character.value == kInvalidCodePoint ? kNoToken : characters_.at(character.value);
    const uint32_t current = unified(character.value);
    if (id == kNoToken) {
      merge_part(scratch, ids);
      for (size_t i = at; i < at + character.n_bytes; ++i) {
        ids.push_back(bytes_[static_cast<uint8_t>(text[i])]);
      }
    } else {
      if (!scratch.symbols.empty() && !meeting_.contains(previous, current)) {
        merge_part(scratch, ids);
      }
      scratch.symbols.push_back({id, MergeTable::kNoRank, kNoToken, kNone, kNone});
    }
    previous = current;
    at += character.n_bytes;
  }
  merge_part(scratch, ids);
}

void Bpe::pair_up(Symbol& left, const Symbol& right) const {
  const MergeTable::Slot& slot = merges_.find(left.id, right.id);
  left.rank = slot.rank;
  left.merged = slot.merged;
}

void Bpe::merge_part(Scratch& scratch, std::vector<int32_t>& ids) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  for (size_t i = 0; i + 1 < symbols.size(); ++i) pair_up(symbols[i], symbols[i + 1]);
  if (symbols.size() <= kShortSymbols) {
    merge_short(symbols, ids);
  } else {
    merge_long(symbols, scratch.queue, ids);
  }
  symbols.clear();
}

void Bpe::merge_short(std::vector<Symbol>& symbols, std::vector<int32_t>& ids) const {
  while (symbols.size() > 1) {
    const auto lowest = std::ranges::min_element(symbols, {}, &Symbol::rank);
    if (lowest->rank == MergeTable::kNoRank) break;
    lowest->id = lowest->merged;
    const auto next = symbols.erase(lowest + 1);
    const auto left = next - 1;
    if (next != symbols.end()) {
      pair_up(*left, *next);
    } else {
      left->rank = MergeTable::kNoRank;
    }
    if (left != symbols.begin()) pair_up(*(left - 1), *left);
  }
  for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
}

// A pair from the queue is stale when the symbol at its position has another rank by now; a rank
// belongs to one pair of tokens, so that an equal one means that the pair is there.
void Bpe::merge_long(std::vector<Symbol>& symbols, PairQueue& queue,
                     std::vector<int32_t>& ids) const {
  CHECK(symbols.size() <= kMaxPart);
  const auto n = static_cast<uint32_t>(symbols.size());
  for (uint32_t i = 0; i < n; ++i) {
    symbols[i].previous = i == 0 ? kNone : i - 1;
    symbols[i].next = i + 1 == n ? kNone : i + 1;
    if (symbols[i].rank != MergeTable::kNoRank) queue.push(symbols[i].rank, i);
  }
  const auto pair_with_next = [&](uint32_t i) {
    Symbol& left = symbols[i];
    left.rank = MergeTable::kNoRank;
    if (left.next != kNone) pair_up(left, symbols[left.next]);
    if (left.rank != MergeTable::kNoRank) queue.push(left.rank, i);
  };
  while (const auto pair = queue.pop()) {
    Symbol& left = symbols[pair->position];
    if (left.rank != pair->rank) continue;
    Symbol& right = symbols[left.next];
    left.id = left.merged;
    left.next = right.next;
    right.rank = MergeTable::kNoRank;
    if (left.next != kNone) symbols[left.next].previous = pair->position;
    pair_with_next(pair->position);
    if (left.previous != kNone) pair_with_next(left.previous);
  }
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace hf2q
