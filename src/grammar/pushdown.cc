#include "grammar/pushdown.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "base/quote.h"
#include "grammar/determinize.h"

namespace hf2q {

// Compiles in steps, each of which needs what those before it found out.
class PushdownCompiler {
 public:
  PushdownCompiler(const RuleBuilder& builder, std::string_view what)
      : builder_(builder), what_(what) {}

  Result<Pushdown> run(uint32_t root) {
    if (builder_.too_large()) return too_large();
    states_.emplace_back().final = true;  // kEndState
    rule_at_.assign(builder_.rules().size(), Pushdown::kNone);
    add_rule(root);
    for (size_t i = 0; i < rules_.size(); ++i) {
      const uint32_t start = determinize(builder_, rules_[i].source, scratch_, states_);
      if (start == Pushdown::kNone) return too_large();
      rules_[i].start = start;
      for (; n_read_ < states_.size(); ++n_read_) adopt(states_[n_read_], i);
    }
    prune();
    if (!live_[rules_[0].start]) {
      return error(ErrorCode::kInvalidArgument, "{}: no text of finite length matches", what_);
    }
    empty_ = reaches_end(false);
    TRY_OK(order_rules());
    return finish();
  }

 private:
  struct Rule {
    uint32_t source;  // in the builder
    uint32_t start = 0;
  };

  Error too_large() const {
    return error(ErrorCode::kUnsupported, "{}: more than {} states, or too many steps to find them",
                 what_, RuleBuilder::kMaxStates);
  }

  uint32_t add_rule(uint32_t source) {
    CHECK(builder_.rules()[source].body.start != RuleBuilder::kNone);
    if (rule_at_[source] == Pushdown::kNone) {
      rule_at_[source] = static_cast<uint32_t>(rules_.size());
      rules_.push_back({source});
    }
    return rule_at_[source];
  }

  void adopt(DeterministicState& state, size_t rule) {
    state.rule = static_cast<uint32_t>(rule);
    for (Pushdown::Call& call : state.calls) call.rule = add_rule(call.rule);
  }

  // For each state whether the end of its rule can be reached, with moves or over calls alone (of
  // rules for which the same holds).
  std::vector<bool> reaches_end(bool with_moves) const {
    struct Edge {
      uint32_t from;
      uint32_t rule;  // kNone: a move
    };
    std::vector<std::vector<Edge>> into(states_.size());
    std::vector<std::vector<Edge>> waiting(rules_.size());  // target reached, the rule not yet
    std::vector<uint32_t> rule_of_start(states_.size(), Pushdown::kNone);
    for (uint32_t r = 0; r < rules_.size(); ++r) rule_of_start[rules_[r].start] = r;
    for (uint32_t s = 0; s < states_.size(); ++s) {
      for (const auto& call : states_[s].calls) into[call.target].push_back({s, call.rule});
      if (!with_moves) continue;
      for (const auto& move : states_[s].moves) into[move.target].push_back({s, Pushdown::kNone});
    }
    std::vector<bool> reached(states_.size());
    std::vector<uint32_t> todo;
    const auto reach = [&](uint32_t state) {
      if (!reached[state]) todo.push_back(state);
      reached[state] = true;
    };
    for (uint32_t s = 0; s < states_.size(); ++s) {
      if (states_[s].final) reach(s);
    }
    while (!todo.empty()) {
      const uint32_t state = todo.back();
      todo.pop_back();
      for (const Edge& edge : into[state]) {
        if (edge.rule == Pushdown::kNone || reached[rules_[edge.rule].start]) {
          reach(edge.from);
        } else {
          waiting[edge.rule].push_back(edge);
        }
      }
      if (rule_of_start[state] == Pushdown::kNone) continue;
      for (const Edge& edge : waiting[rule_of_start[state]]) reach(edge.from);
    }
    return reached;
  }

  // Without edges from which no text leads to the end.
  void prune() {
    live_ = reaches_end(true);
    for (DeterministicState& state : states_) {
      std::erase_if(state.moves, [&](const auto& move) { return !live_[move.target]; });
      std::erase_if(state.calls, [&](const auto& call) {
        return !live_[call.target] || !live_[rules_[call.rule].start];
      });
    }
  }

  bool matches_empty(uint32_t rule) const { return empty_[rules_[rule].start]; }

  // Rules that `rule` calls before it has read anything.
  std::vector<uint32_t> left_calls(uint32_t rule) const {
    std::vector<uint32_t> states = {rules_[rule].start};
    std::unordered_set<uint32_t> seen = {rules_[rule].start};
    std::unordered_set<uint32_t> called;
    for (size_t i = 0; i < states.size(); ++i) {
      for (const auto& call : states_[states[i]].calls) {
        called.insert(call.rule);
        if (matches_empty(call.rule) && seen.insert(call.target).second) {
          states.push_back(call.target);
        }
      }
    }
    return {called.begin(), called.end()};
  }

  // Depth first over left calls: callers come before those they call, and a way back into what is
  // being visited is a left recursion.
  Status order_rules() {
    enum class Mark : uint8_t { kNew, kOpen, kDone };
    struct Visit {
      uint32_t rule;
      std::vector<uint32_t> calls;
    };
    std::vector<Mark> marks(rules_.size(), Mark::kNew);
    std::vector<Visit> path;
    const auto enter = [&](uint32_t rule) {
      marks[rule] = Mark::kOpen;
      path.push_back({rule, left_calls(rule)});
    };
    for (uint32_t r = 0; r < rules_.size(); ++r) {
      if (marks[r] == Mark::kNew) enter(r);
      while (!path.empty()) {
        if (path.back().calls.empty()) {
          marks[path.back().rule] = Mark::kDone;
          order_.push_back(path.back().rule);
          path.pop_back();
          continue;
        }
        const uint32_t next = path.back().calls.back();
        path.back().calls.pop_back();
        if (marks[next] == Mark::kOpen) {
          return error(ErrorCode::kInvalidArgument,
                       "{}: {}: it calls itself before it has read anything (left recursion)",
                       what_, builder_.rules()[rules_[next].source].name);
        }
        if (marks[next] == Mark::kNew) enter(next);
      }
    }
    std::ranges::reverse(order_);
    return Ok{};
  }

  // Grows sets until none grows any more: sets[i] takes over sets[j] for all j in sources.
  static void take_over(std::vector<Pushdown::ByteSet>& sets,
                        const std::vector<std::vector<uint32_t>>& takers) {
    std::vector<uint32_t> todo;
    std::vector<bool> queued(sets.size(), true);
    for (uint32_t i = 0; i < sets.size(); ++i) todo.push_back(i);
    while (!todo.empty()) {
      const uint32_t from = todo.back();
      todo.pop_back();
      queued[from] = false;
      for (const uint32_t to : takers[from]) {
        const Pushdown::ByteSet grown = sets[to] | sets[from];
        if (grown == sets[to]) continue;
        sets[to] = grown;
        if (!queued[to]) todo.push_back(to);
        queued[to] = true;
      }
    }
  }

  // [state]: the bytes that can come next within its rule.
  std::vector<Pushdown::ByteSet> first_bytes() const {
    std::vector<Pushdown::ByteSet> sets(states_.size());
    std::vector<std::vector<uint32_t>> takers(states_.size());
    for (uint32_t s = 0; s < states_.size(); ++s) {
      for (const auto& move : states_[s].moves) {
        for (uint32_t b = move.first; b <= move.last && b < 256; ++b) sets[s].set(b);
      }
      for (const auto& call : states_[s].calls) {
        takers[rules_[call.rule].start].push_back(s);
        if (matches_empty(call.rule)) takers[call.target].push_back(s);
      }
    }
    take_over(sets, takers);
    return sets;
  }

  // [rule]: the bytes that can come next behind it.
  std::vector<Pushdown::ByteSet> follow_bytes() const {
    const std::vector<Pushdown::ByteSet> first = first_bytes();
    std::vector<Pushdown::ByteSet> sets(rules_.size());
    std::vector<std::vector<uint32_t>> takers(rules_.size());
    for (const DeterministicState& state : states_) {
      for (const auto& call : state.calls) {
        sets[call.rule] |= first[call.target];
        if (empty_[call.target]) takers[state.rule].push_back(call.rule);
      }
    }
    take_over(sets, takers);
    return sets;
  }

  Pushdown finish() const {
    Pushdown result;
    const std::vector<Pushdown::ByteSet> follow = follow_bytes();
    std::vector<uint32_t> number(rules_.size());
    for (uint32_t i = 0; i < order_.size(); ++i) {
      number[order_[i]] = i;
      result.rules_.push_back(
          {rules_[order_[i]].start, matches_empty(order_[i]), follow[order_[i]]});
    }
    result.root_ = number[0];
    for (const DeterministicState& state : states_) {
      result.states_.push_back(
          {static_cast<uint32_t>(result.moves_.size()), static_cast<uint32_t>(state.moves.size()),
           static_cast<uint32_t>(result.calls_.size()), static_cast<uint32_t>(state.calls.size()),
           number[state.rule], state.final});
      result.moves_.insert(result.moves_.end(), state.moves.begin(), state.moves.end());
      for (const auto& call : state.calls) {
        result.calls_.push_back({number[call.rule], call.target});
      }
    }
    result.tokens_ = builder_.tokens();
    add_classes(result);
    return result;
  }

  static void add_classes(Pushdown& result) {
    const size_t n_symbols = RuleBuilder::kFirstToken + result.tokens_.size();
    std::vector<bool> begins(n_symbols + 1, false);
    for (const Pushdown::Move& move : result.moves_) {
      begins[move.first] = true;
      begins[move.last + size_t{1}] = true;
    }
    uint32_t current = 0;
    for (size_t symbol = 0; symbol < n_symbols; ++symbol) {
      if (symbol > 0 && begins[symbol]) ++current;
      result.classes_.push_back(static_cast<uint16_t>(current));
    }
    result.n_classes_ = current + 1;
  }

  const RuleBuilder& builder_;
  std::string_view what_;
  DeterminizeScratch scratch_;
  std::vector<DeterministicState> states_;
  size_t n_read_ = 1;  // states whose calls have been looked at; the first is kEndState
  std::vector<Rule> rules_;
  std::vector<uint32_t> rule_at_;  // [rule of the builder], kNone: not reached
  std::vector<bool> live_;
  std::vector<bool> empty_;      // [state], the rest of its rule matches no text at all
  std::vector<uint32_t> order_;  // of rules
};

Result<Pushdown> Pushdown::compile(const RuleBuilder& builder, uint32_t root,
                                   std::string_view what) {
  return PushdownCompiler(builder, what).run(root);
}

uint32_t Pushdown::next(uint32_t state, uint32_t symbol) const {
  const std::span<const Move> all = moves(state);
  const auto found = std::ranges::lower_bound(all, symbol, {}, &Move::last);
  return found != all.end() && found->first <= symbol ? found->target : kNone;
}

}  // namespace hf2q
