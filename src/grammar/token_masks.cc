#include "grammar/token_masks.h"

#include <algorithm>

#include "base/check.h"

namespace hf2q {
namespace {

constexpr size_t kMaxMaskBytes = size_t{64} << 20;  // kept for one grammar
constexpr size_t kFewTokens = 2048;                 // as numbers they are smaller than as bits

uint64_t key_of(std::span<const Place> places, bool ended) {
  uint64_t key = ended ? 1 : 0;
  for (const Place& place : places) {
    key = (key ^ place.key()) * 0x9E3779B97F4A7C15U;
    key ^= key >> 31;
  }
  return key;
}

void add_all(const TokenBits& from, std::span<uint64_t> to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] |= from[i];
}

}  // namespace

LocalAutomaton::LocalAutomaton(const Pushdown& pushdown) : pushdown_(pushdown) {
  clear();
}

void LocalAutomaton::clear() {
  store_ = StackStore();
  sets_.clear();
  places_.clear();
  next_.clear();
  index_.clear();
  CHECK(intern({}, false) == kDead);
}

uint32_t LocalAutomaton::start(uint32_t state) {
  const Place place = {state, 0};
  return intern(std::span(&place, 1), false);
}

uint32_t LocalAutomaton::intern(std::span<const Place> places, bool ended) {
  const uint64_t key = key_of(places, ended);
  const auto [begin, end] = index_.equal_range(key);
  for (auto i = begin; i != end; ++i) {
    const Set& set = sets_[i->second];
    if (set.ended == ended &&
        std::ranges::equal(std::span(places_).subspan(set.first, set.n), places))
      return i->second;
  }
  const auto number = static_cast<uint32_t>(sets_.size());
  sets_.push_back({static_cast<uint32_t>(places_.size()), static_cast<uint32_t>(places.size()),
                   ended, kUnknown});
  places_.insert(places_.end(), places.begin(), places.end());
  index_.emplace(key, number);
  if (number < kKept) next_.resize(next_.size() + pushdown_.n_classes(), kUnknown);
  return number;
}

uint32_t LocalAutomaton::make_next(uint32_t set, uint32_t symbol) {
  const Set& from = sets_[set];
  if (from.n == 0) return kDead;
  from_.assign(places_.begin() + from.first, places_.begin() + from.first + from.n);
  const bool ended = step(pushdown_, store_, from_, symbol, scratch_, to_);
  return intern(to_, ended);
}

// Where each of the bytes goes, when all go to the same set.
uint32_t LocalAutomaton::after_all(uint32_t set, uint32_t first, uint32_t last) {
  const uint32_t target = next(set, first);
  for (uint32_t byte = first + 1; byte <= last; ++byte) {
    if (next(set, byte) != target) return kMixed;
  }
  return target;
}

uint32_t LocalAutomaton::after_plain(uint32_t set) {
  if (sets_[set].after_plain == kUnknown) {
    const uint32_t found = find_after_plain(set);
    sets_[set].after_plain = found;
  }
  return sets_[set].after_plain;
}

uint32_t LocalAutomaton::find_after_plain(uint32_t set) {
  // Leading bytes and the ranges of the bytes behind them; the characters of one byte have none.
  struct Lead {
    uint8_t first, last;
    uint8_t n_behind;
    uint8_t low, high;  // of the second byte; later ones are 80 to BF
  };
  static constexpr Lead kLeads[] = {
      {0x20, 0x21, 0, 0, 0},       {0x23, 0x5B, 0, 0, 0},       {0x5D, 0x7F, 0, 0, 0},
      {0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF}, {0xE1, 0xEC, 2, 0x80, 0xBF},
      {0xED, 0xED, 2, 0x80, 0x9F}, {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF},
      {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F}};
  const uint32_t target = next(set, 0x20);
  for (const Lead& lead : kLeads) {
    uint32_t at = after_all(set, lead.first, lead.last);
    for (uint32_t i = 0; i < lead.n_behind && at != kMixed; ++i) {
      if (ended(at)) return kMixed;
      at = i == 0 ? after_all(at, lead.low, lead.high) : after_all(at, 0x80, 0xBF);
    }
    if (at != target || ended(at)) return kMixed;
  }
  return target;
}

TokenMasks::TokenMasks(const Pushdown& pushdown, const GrammarVocabulary& vocabulary)
    : pushdown_(pushdown), vocabulary_(vocabulary), automaton_(pushdown) {}

// Visits each node below `node` to which `set` leads, with the set there.
template <class Visit>
void TokenMasks::walk(const TokenTrie& trie, uint32_t node, uint32_t set, Visit visit) {
  const std::vector<TokenTrie::Node>& nodes = trie.nodes();
  const size_t base = nodes[node].depth;
  path_.assign(2, set);
  const uint32_t end = nodes[node].end;
  for (uint32_t i = node + 1; i < end;) {
    const size_t depth = nodes[i].depth - base;
    const uint32_t reached = automaton_.next(path_[depth - 1], nodes[i].byte);
    if (reached == LocalAutomaton::kDead) {
      i = nodes[i].end;
      continue;
    }
    if (path_.size() <= depth) path_.resize(depth + 1);
    path_[depth] = reached;
    visit(i, reached);
    ++i;
  }
}

// The plain tokens that can come, or nullptr when they have to be looked at one by one.
const TokenBits* TokenMasks::plain_tokens(uint32_t set) {
  for (size_t n = 0; n < GrammarVocabulary::kMaxPlainCharacters; ++n) {
    const uint32_t after = automaton_.after_plain(set);
    if (after == LocalAutomaton::kMixed) return nullptr;
    if (after == LocalAutomaton::kDead) return n == 0 ? nullptr : &vocabulary_.plain(n);
    if (after == set) break;
    set = after;
  }
  return &vocabulary_.plain(GrammarVocabulary::kMaxPlainCharacters);
}

// Whether tokens go on from the node with a byte that can come next.
bool TokenMasks::goes_on(const TokenTrie& trie, uint32_t node,
                         const Pushdown::ByteSet& follow) const {
  const std::vector<TokenTrie::Node>& nodes = trie.nodes();
  for (uint32_t i = node + 1; i < nodes[node].end; i = nodes[i].end) {
    if (follow[nodes[i].byte]) return true;
  }
  return false;
}

TokenMasks::StateMask TokenMasks::make_state_mask(uint32_t state) {
  StateMask mask;
  const uint32_t start = automaton_.start(state);
  mask.plain = plain_tokens(start);
  mask.trie = mask.plain == nullptr ? &vocabulary_.trie() : &vocabulary_.other_trie();
  const Pushdown::ByteSet& follow = pushdown_.follow(state);
  const bool looks_behind = follow.any();
  walk(*mask.trie, 0, start, [&](uint32_t node, uint32_t set) {
    const auto tokens = mask.trie->tokens(mask.trie->nodes()[node]);
    mask.ids.insert(mask.ids.end(), tokens.begin(), tokens.end());
    if (looks_behind && automaton_.ended(set) && goes_on(*mask.trie, node, follow)) {
      mask.exits.push_back(node);
    }
  });
  for (uint32_t i = 0; i < pushdown_.tokens().size(); ++i) {
    const uint32_t behind = automaton_.next(start, RuleBuilder::kFirstToken + i);
    if (behind != LocalAutomaton::kDead) mask.ids.push_back(pushdown_.tokens()[i]);
  }
  if (mask.ids.size() > kFewTokens) {
    mask.bits.resize(vocabulary_.n_words(), 0);
    for (const int32_t id : mask.ids) set_bit(mask.bits, static_cast<size_t>(id));
    mask.ids.clear();
  }
  mask.ids.shrink_to_fit();
  return mask;
}

const TokenMasks::StateMask& TokenMasks::state_mask(uint32_t state) {
  const auto found = masks_.find(state);
  if (found != masks_.end()) return found->second;
  if (mask_bytes_ > kMaxMaskBytes) {
    masks_.clear();
    mask_bytes_ = 0;
  }
  StateMask& mask = masks_.emplace(state, make_state_mask(state)).first->second;
  mask_bytes_ += sizeof(mask) + 8 * mask.bits.size() + 4 * (mask.ids.size() + mask.exits.size());
  return mask;
}

// Adds the tokens that go on from the nodes when the rule has ended there and its callers, which
// `stack` has, go on.
void TokenMasks::add_behind(const TokenTrie& trie, std::span<const uint32_t> nodes, uint32_t stack,
                            const StackStore& store, std::span<uint64_t> bits) {
  if (stack == 0 || nodes.empty()) return;
  for (const Place& place : returns(pushdown_, store, stack)) {
    const uint32_t start = automaton_.start(place.state);
    const Pushdown::ByteSet& follow = pushdown_.follow(place.state);
    std::vector<uint32_t> exits;
    for (const uint32_t node : nodes) {
      walk(trie, node, start, [&](uint32_t i, uint32_t set) {
        for (const int32_t id : trie.tokens(trie.nodes()[i])) {
          set_bit(bits, static_cast<size_t>(id));
        }
        if (automaton_.ended(set) && goes_on(trie, i, follow)) exits.push_back(i);
      });
    }
    add_behind(trie, exits, place.stack, store, bits);
  }
}

void TokenMasks::add(std::span<const Place> places, const StackStore& store,
                     std::span<uint64_t> bits) {
  const std::lock_guard lock(mutex_);
  if (automaton_.is_full()) automaton_.clear();
  for (const Place& place : places) {
    const StateMask& mask = state_mask(place.state);
    if (mask.plain != nullptr) add_all(*mask.plain, bits);
    if (!mask.bits.empty()) add_all(mask.bits, bits);
    for (const int32_t id : mask.ids) set_bit(bits, static_cast<size_t>(id));
    add_behind(*mask.trie, mask.exits, place.stack, store, bits);
  }
}

}  // namespace hf2q
