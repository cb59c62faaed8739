#include "grammar/determinize.h"

#include <algorithm>
#include <map>

namespace hf2q {
namespace {

using Set = std::vector<uint32_t>;  // ascending

class SubsetConstruction {
 public:
  SubsetConstruction(const RuleBuilder& builder, uint32_t rule, DeterminizeScratch& scratch,
                     std::vector<DeterministicState>& states)
      : builder_(builder), rule_(rule), scratch_(scratch), states_(states) {
    scratch_.seen.resize(builder.first_edges().size(), 0);
  }

  uint32_t run() {
    const uint32_t start = state_of({builder_.rules()[rule_].body.start});
    for (size_t i = 0; i < todo_.size() && !given_up_; ++i) {
      add_calls(*todo_[i].set, todo_[i].state);
      add_moves(*todo_[i].set, todo_[i].state);
    }
    return given_up_ ? Pushdown::kNone : start;
  }

 private:
  struct Todo {
    const Set* set;
    uint32_t state;
  };

  bool pay(size_t steps) {
    given_up_ = given_up_ || scratch_.steps_left < steps;
    if (!given_up_) scratch_.steps_left -= steps;
    return !given_up_;
  }

  // The states that `from` reaches over empty edges, less those that have only such.
  Set closure(const Set& from) {
    ++scratch_.epoch;
    Set stack;
    Set result;
    const auto visit = [&](uint32_t state) {
      if (scratch_.seen[state] == scratch_.epoch) return;
      scratch_.seen[state] = scratch_.epoch;
      stack.push_back(state);
    };
    for (const uint32_t state : from) visit(state);
    while (!stack.empty()) {
      const uint32_t state = stack.back();
      stack.pop_back();
      bool matters = state == builder_.rules()[rule_].body.end;
      for (uint32_t e = builder_.first_edges()[state]; e != RuleBuilder::kNone;) {
        const RuleBuilder::Edge& edge = builder_.edges()[e];
        if (!pay(1)) return {};
        if (edge.kind == RuleBuilder::EdgeKind::kEmpty) {
          visit(edge.target);
        } else {
          matters = true;
        }
        e = edge.next;
      }
      if (matters) result.push_back(state);
    }
    std::ranges::sort(result);
    return result;
  }

  uint32_t state_of(const Set& targets) {
    Set set = closure(targets);
    if (given_up_ || states_.size() > RuleBuilder::kMaxStates) {
      given_up_ = true;
      return 0;
    }
    const auto [found, inserted] =
        known_.try_emplace(std::move(set), static_cast<uint32_t>(states_.size()));
    if (inserted) {
      DeterministicState& state = states_.emplace_back();
      state.rule = rule_;
      state.final = std::ranges::binary_search(found->first, builder_.rules()[rule_].body.end);
      todo_.push_back({&found->first, found->second});
    }
    return found->second;
  }

  template <class Visit>
  void each_edge(const Set& set, RuleBuilder::EdgeKind kind, Visit visit) {
    for (const uint32_t state : set) {
      for (uint32_t e = builder_.first_edges()[state]; e != RuleBuilder::kNone;
           e = builder_.edges()[e].next) {
        if (builder_.edges()[e].kind == kind) visit(builder_.edges()[e]);
      }
    }
  }

  void add_calls(const Set& set, uint32_t from) {
    std::map<uint32_t, Set> targets;
    each_edge(set, RuleBuilder::EdgeKind::kCall,
              [&](const RuleBuilder::Edge& edge) { targets[edge.rule].push_back(edge.target); });
    for (const auto& [rule, to] : targets) {
      const uint32_t target = state_of(to);
      if (given_up_) return;
      states_[from].calls.push_back({rule, target});
    }
  }

  // Between neighbouring ends of ranges all symbols go to the same states.
  void add_moves(const Set& set, uint32_t from) {
    std::vector<RuleBuilder::Edge> edges;
    std::vector<uint32_t> cuts;
    each_edge(set, RuleBuilder::EdgeKind::kSymbols, [&](const RuleBuilder::Edge& edge) {
      edges.push_back(edge);
      cuts.push_back(edge.first);
      cuts.push_back(uint32_t{edge.last} + 1);
    });
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Set> targets(cuts.size());
    for (const RuleBuilder::Edge& edge : edges) {
      auto at = std::ranges::lower_bound(cuts, uint32_t{edge.first}) - cuts.begin();
      for (; cuts[static_cast<size_t>(at)] <= edge.last; ++at) {
        if (!pay(1)) return;
        targets[static_cast<size_t>(at)].push_back(edge.target);
      }
    }
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (targets[i].empty()) continue;
      const uint32_t target = state_of(targets[i]);
      if (given_up_) return;
      add_move(states_[from].moves, cuts[i], cuts[i + 1] - 1, target);
    }
  }

  static void add_move(std::vector<Pushdown::Move>& moves, uint32_t first, uint32_t last,
                       uint32_t target) {
    if (!moves.empty() && moves.back().target == target && moves.back().last + 1U == first) {
      moves.back().last = static_cast<uint16_t>(last);
    } else {
      moves.push_back({static_cast<uint16_t>(first), static_cast<uint16_t>(last), target});
    }
  }

  const RuleBuilder& builder_;
  uint32_t rule_;
  DeterminizeScratch& scratch_;
  std::vector<DeterministicState>& states_;
  std::map<Set, uint32_t> known_;
  std::vector<Todo> todo_;
  bool given_up_ = false;
};

}  // namespace

uint32_t determinize(const RuleBuilder& builder, uint32_t rule, DeterminizeScratch& scratch,
                     std::vector<DeterministicState>& states) {
  return SubsetConstruction(builder, rule, scratch, states).run();
}

}  // namespace hf2q
