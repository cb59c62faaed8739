#pragma once
// Rules over bytes, token ids and one another, put together from fragments of a nondeterministic
// automaton; pushdown.h compiles them.
//
// A fragment is the part between two states; it is used up by the call that takes it. Sizes are
// bounded: beyond kMaxStates nothing more is made, too_large() says so, and fragments are then
// worth nothing.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace hf2q {

class RuleBuilder {
 public:
  static constexpr uint32_t kMaxStates = 60'000;
  static constexpr uint32_t kMaxRepeats = 10'000;  // highest number in {m,n}, minItems, maxLength
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kFirstToken = 256;  // symbols from here on are tokens()[symbol - 256]

  enum class EdgeKind : uint8_t { kEmpty, kSymbols, kCall };
  struct Edge {
    EdgeKind kind;
    uint16_t first;  // kSymbols: [first, last]
    uint16_t last;
    uint32_t rule;  // kCall
    uint32_t target;
    uint32_t next;  // edge of the same state, or kNone
  };
  struct Fragment {
    uint32_t start;
    uint32_t end;
  };
  struct Rule {
    std::string name;
    Fragment body;  // start is kNone until it is defined
  };

  // `name` is for messages.
  uint32_t declare(std::string name);
  void define(uint32_t rule, Fragment body);
  uint32_t add_rule(std::string name, Fragment body);

  Fragment empty();
  Fragment nothing();  // matches no text
  Fragment bytes(std::string_view text);
  Fragment character(const CodePointSet& set);
  Fragment token(int32_t id);  // this very token; its text does not count
  Fragment call(uint32_t rule);

  Fragment sequence(Fragment a, Fragment b);
  Fragment sequence(std::initializer_list<Fragment> parts);
  Fragment either(Fragment a, Fragment b);
  Fragment optional(Fragment body);
  Fragment any_number(Fragment body);   // x*
  Fragment one_or_more(Fragment body);  // x+
  // x{min,max}; max may be kUnbounded. Both at most kMaxRepeats, min <= max.
  Fragment repeat(Fragment body, uint32_t min, uint32_t max);

  // For automata that are no expression: an edge between any two states.
  uint32_t new_state();
  void link(uint32_t from, uint32_t to);
  void link(uint32_t from, Fragment body, uint32_t to);

  bool too_large() const { return too_large_; }
  const std::vector<uint32_t>& first_edges() const { return first_edges_; }  // [state], or kNone
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  void add_edge(uint32_t from, Edge edge);
  void add_symbols(uint32_t from, uint32_t first, uint32_t last, uint32_t to);
  bool is_short(Fragment body) const;
  Fragment copy(Fragment body);

  std::vector<uint32_t> first_edges_;
  std::vector<Edge> edges_;
  std::vector<Rule> rules_;
  std::vector<int32_t> tokens_;
  bool too_large_ = false;
};

}  // namespace hf2q
