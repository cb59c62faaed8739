#pragma once
// Rules compiled: one deterministic automaton for each rule, whose edges are symbols (bytes, token
// ids) or calls of rules. A text matches the root rule when its automaton gets to a final state,
// each call being a text that matches the called rule.
//
// From every state that is left here some text goes on to the end, and no rule calls itself before
// it has read something (left recursion), so a text position needs finitely many steps.

#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/rule_builder.h"

namespace hf2q {

class Pushdown {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kEndState = 0;  // final, nothing goes on from it

  struct Move {
    uint16_t first;  // symbols [first, last]; those of one state do not overlap, and ascend
    uint16_t last;
    uint32_t target;
  };
  struct Call {
    uint32_t rule;
    uint32_t target;
  };
  using ByteSet = std::bitset<256>;

  // kInvalidArgument or kUnsupported, beginning with `what`: a rule that is left recursive (by
  // name), no text that matches, or more states than kMaxStates or more work than finding them is
  // worth. Rules that `root` does not reach are not looked at; all others are defined.
  static Result<Pushdown> compile(const RuleBuilder& builder, uint32_t root, std::string_view what);

  std::span<const Move> moves(uint32_t state) const {
    return std::span(moves_).subspan(states_[state].first_move, states_[state].n_moves);
  }
  std::span<const Call> calls(uint32_t state) const {
    return std::span(calls_).subspan(states_[state].first_call, states_[state].n_calls);
  }
  // Where `symbol` goes, or kNone.
  uint32_t next(uint32_t state, uint32_t symbol) const;
  bool is_final(uint32_t state) const { return states_[state].final; }
  // Final, and nothing goes on.
  bool is_last(uint32_t state) const {
    return states_[state].final && states_[state].n_moves == 0 && states_[state].n_calls == 0;
  }
  uint32_t n_states() const { return static_cast<uint32_t>(states_.size()); }

  // Rules are numbered so that one that calls another at its beginning has the lower number.
  uint32_t root() const { return root_; }
  uint32_t n_rules() const { return static_cast<uint32_t>(rules_.size()); }
  uint32_t start(uint32_t rule) const { return rules_[rule].start; }
  bool matches_empty(uint32_t rule) const { return rules_[rule].matches_empty; }

  // Bytes that can come next when the rule of this state has ended, whoever called it.
  const ByteSet& follow(uint32_t state) const { return rules_[states_[state].rule].follow; }

  const std::vector<int32_t>& tokens() const { return tokens_; }
  // Symbols that no state tells apart have the same class.
  uint32_t n_classes() const { return n_classes_; }
  uint32_t symbol_class(uint32_t symbol) const { return classes_[symbol]; }

 private:
  friend class PushdownCompiler;
  struct State {
    uint32_t first_move = 0;
    uint32_t n_moves = 0;
    uint32_t first_call = 0;
    uint32_t n_calls = 0;
    uint32_t rule = 0;
    bool final = false;
  };
  struct Rule {
    uint32_t start = kNone;
    bool matches_empty = false;
    ByteSet follow;
  };

  std::vector<State> states_;
  std::vector<Move> moves_;
  std::vector<Call> calls_;
  std::vector<Rule> rules_;
  std::vector<int32_t> tokens_;
  std::vector<uint16_t> classes_;  // [256 + tokens]
  uint32_t n_classes_ = 0;
  uint32_t root_ = 0;
};

}  // namespace hf2q
