#pragma once
// Which tokens can come at a place: what the state alone decides is found once for each state and
// kept; only tokens that go on behind the end of the state's rule are looked at for each stack.
//
// The walk over the trie is that of a deterministic automaton that is made as it is needed: its
// states are the sets of places (relative to the stack where the walk began), kept with their
// successors. A state where all plain text goes on alike (the inside of a JSON string) takes the
// vocabulary's sets of plain tokens as they are and walks over the others only.

#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar_vocabulary.h"
#include "grammar/stacks.h"

namespace hf2q {

// Sets of places under one unknown stack, which has the number 0 here; `ended`: the rule that was
// called with that stack has ended.
class LocalAutomaton {
 public:
  static constexpr uint32_t kDead = 0;
  static constexpr uint32_t kMixed = UINT32_MAX;

  explicit LocalAutomaton(const Pushdown& pushdown);
  uint32_t start(uint32_t state);
  uint32_t next(uint32_t set, uint32_t symbol) {
    if (set >= kKept) return make_next(set, symbol);
    const size_t at = size_t{set} * pushdown_.n_classes() + pushdown_.symbol_class(symbol);
    if (next_[at] == kUnknown) {
      const uint32_t made = make_next(set, symbol);
      next_[at] = made;
    }
    return next_[at];
  }
  bool ended(uint32_t set) const { return sets_[set].ended; }
  // Where every plain character goes, when all go to the same set and none ends the rule; else
  // kMixed.
  uint32_t after_plain(uint32_t set);
  // More sets than are worth keeping have been made.
  bool is_full() const { return sets_.size() >= kKept; }
  void clear();

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint32_t kKept = 8192;  // sets whose successors are kept

  struct Set {
    uint32_t first;  // in places_
    uint32_t n;
    bool ended;
    uint32_t after_plain;  // kUnknown: not looked for
  };
  uint32_t intern(std::span<const Place> places, bool ended);
  uint32_t make_next(uint32_t set, uint32_t symbol);
  uint32_t after_all(uint32_t set, uint32_t first, uint32_t last);
  uint32_t find_after_plain(uint32_t set);

  const Pushdown& pushdown_;
  StackStore store_;
  std::vector<Set> sets_;
  std::vector<Place> places_;
  std::vector<uint32_t> next_;  // [set, class], or kUnknown
  std::unordered_multimap<uint64_t, uint32_t> index_;
  StepScratch scratch_;
  std::vector<Place> from_;
  std::vector<Place> to_;
};

class TokenMasks {
 public:
  // Both have to outlive it.
  TokenMasks(const Pushdown& pushdown, const GrammarVocabulary& vocabulary);

  // Adds the tokens that can come at one of `places`, which are closed under ends. Any number of
  // threads may call it; they take turns.
  void add(std::span<const Place> places, const StackStore& store, std::span<uint64_t> bits);

 private:
  // The tokens of one state.
  struct StateMask {
    const TokenBits* plain = nullptr;  // besides those below
    TokenBits bits;                    // of many tokens
    std::vector<int32_t> ids;          // of few
    const TokenTrie* trie = nullptr;
    std::vector<uint32_t> exits;  // nodes of the trie where the rule has ended and tokens go on
  };

  const StateMask& state_mask(uint32_t state);
  StateMask make_state_mask(uint32_t state);
  const TokenBits* plain_tokens(uint32_t set);
  bool goes_on(const TokenTrie& trie, uint32_t node, const Pushdown::ByteSet& follow) const;
  template <class Visit>
  void walk(const TokenTrie& trie, uint32_t node, uint32_t set, Visit visit);
  void add_behind(const TokenTrie& trie, std::span<const uint32_t> nodes, uint32_t stack,
                  const StackStore& store, std::span<uint64_t> bits);

  const Pushdown& pushdown_;
  const GrammarVocabulary& vocabulary_;
  std::mutex mutex_;  // of all below
  LocalAutomaton automaton_;
  std::unordered_map<uint32_t, StateMask> masks_;
  size_t mask_bytes_ = 0;
  std::vector<uint32_t> path_;  // of a walk: [depth], the set there
};

}  // namespace hf2q
