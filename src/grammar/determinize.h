#pragma once
// The subset construction: one rule's fragment to a deterministic automaton.

#include <cstdint>
#include <vector>

#include "grammar/pushdown.h"
#include "grammar/rule_builder.h"

namespace hf2q {

struct DeterministicState {
  std::vector<Pushdown::Move> moves;
  std::vector<Pushdown::Call> calls;  // ascending rules, each once
  uint32_t rule = 0;                  // whose it is
  bool final = false;
};

// Shared by all rules of a grammar.
struct DeterminizeScratch {
  size_t steps_left = 400'000;  // edges looked at; without any left it is given up
  std::vector<uint32_t> seen;   // [state of the builder], the epoch of its last visit
  uint32_t epoch = 0;
};

// Appends the states of `rule` to `states` (targets are indices there) and returns its start, or
// Pushdown::kNone when the steps ran out or there are more than RuleBuilder::kMaxStates.
uint32_t determinize(const RuleBuilder& builder, uint32_t rule, DeterminizeScratch& scratch,
                     std::vector<DeterministicState>& states);

}  // namespace hf2q
