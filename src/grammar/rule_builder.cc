#include "grammar/rule_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hf2q {

uint32_t RuleBuilder::declare(std::string name) {
  rules_.push_back({std::move(name), {kNone, kNone}});
  return static_cast<uint32_t>(rules_.size() - 1);
}

void RuleBuilder::define(uint32_t rule, Fragment body) {
  CHECK(rule < rules_.size() && rules_[rule].body.start == kNone);
  rules_[rule].body = body;
}

uint32_t RuleBuilder::add_rule(std::string name, Fragment body) {
  const uint32_t rule = declare(std::move(name));
  define(rule, body);
  return rule;
}

uint32_t RuleBuilder::new_state() {
  if (first_edges_.size() == kMaxStates) {
    too_large_ = true;
    return 0;
  }
  first_edges_.push_back(kNone);
  return static_cast<uint32_t>(first_edges_.size() - 1);
}

void RuleBuilder::add_edge(uint32_t from, Edge edge) {
  // As many edges as eight for each state are more than any rule of ours has.
  if (edges_.size() == size_t{8} * kMaxStates) too_large_ = true;
  if (too_large_) return;
  edge.next = first_edges_[from];
  first_edges_[from] = static_cast<uint32_t>(edges_.size());
  edges_.push_back(edge);
}

void RuleBuilder::add_symbols(uint32_t from, uint32_t first, uint32_t last, uint32_t to) {
  add_edge(from, {EdgeKind::kSymbols, static_cast<uint16_t>(first), static_cast<uint16_t>(last),
                  kNone, to, kNone});
}

void RuleBuilder::link(uint32_t from, uint32_t to) {
  add_edge(from, {EdgeKind::kEmpty, 0, 0, kNone, to, kNone});
}

void RuleBuilder::link(uint32_t from, Fragment body, uint32_t to) {
  link(from, body.start);
  link(body.end, to);
}

RuleBuilder::Fragment RuleBuilder::empty() {
  const uint32_t state = new_state();
  return {state, state};
}

RuleBuilder::Fragment RuleBuilder::nothing() {
  const uint32_t start = new_state();
  return {start, new_state()};
}

RuleBuilder::Fragment RuleBuilder::bytes(std::string_view text) {
  Fragment result = empty();
  for (const char c : text) {
    const uint32_t next = new_state();
    const auto byte = static_cast<uint8_t>(c);
    add_symbols(result.end, byte, byte, next);
    result.end = next;
  }
  return result;
}

RuleBuilder::Fragment RuleBuilder::character(const CodePointSet& set) {
  const Fragment result = nothing();
  for (const Utf8Ranges& product : utf8_ranges(set)) {
    uint32_t state = result.start;
    for (uint32_t i = 0; i < product.n_bytes; ++i) {
      const uint32_t next = i + 1 == product.n_bytes ? result.end : new_state();
      add_symbols(state, product.bytes[i].first, product.bytes[i].last, next);
      state = next;
    }
  }
  return result;
}

RuleBuilder::Fragment RuleBuilder::token(int32_t id) {
  const auto found = std::ranges::find(tokens_, id);
  const auto symbol = kFirstToken + static_cast<uint32_t>(found - tokens_.begin());
  CHECK(symbol < UINT16_MAX);
  if (found == tokens_.end()) tokens_.push_back(id);
  const Fragment result = nothing();
  add_symbols(result.start, symbol, symbol, result.end);
  return result;
}

RuleBuilder::Fragment RuleBuilder::call(uint32_t rule) {
  CHECK(rule < rules_.size());
  const Fragment result = nothing();
  add_edge(result.start, {EdgeKind::kCall, 0, 0, rule, result.end, kNone});
  return result;
}

RuleBuilder::Fragment RuleBuilder::sequence(Fragment a, Fragment b) {
  link(a.end, b.start);
  return {a.start, b.end};
}

RuleBuilder::Fragment RuleBuilder::sequence(std::initializer_list<Fragment> parts) {
  CHECK(parts.size() > 0);
  Fragment result = *parts.begin();
  for (const Fragment* part = parts.begin() + 1; part != parts.end(); ++part) {
    result = sequence(result, *part);
  }
  return result;
}

RuleBuilder::Fragment RuleBuilder::either(Fragment a, Fragment b) {
  const Fragment result = nothing();
  link(result.start, a, result.end);
  link(result.start, b, result.end);
  return result;
}

RuleBuilder::Fragment RuleBuilder::optional(Fragment body) {
  const Fragment result = nothing();
  link(result.start, body, result.end);
  link(result.start, result.end);
  return result;
}

RuleBuilder::Fragment RuleBuilder::any_number(Fragment body) {
  return optional(one_or_more(body));
}

RuleBuilder::Fragment RuleBuilder::one_or_more(Fragment body) {
  const Fragment result = nothing();
  link(result.start, body, result.end);
  link(body.end, body.start);
  return result;
}

// Whether all edges go straight from start to end.
bool RuleBuilder::is_short(Fragment body) const {
  if (too_large_ || body.start == body.end || first_edges_[body.end] != kNone) return false;
  for (uint32_t e = first_edges_[body.start]; e != kNone; e = edges_[e].next) {
    if (edges_[e].target != body.end) return false;
  }
  return true;
}

RuleBuilder::Fragment RuleBuilder::copy(Fragment body) {
  const Fragment result = nothing();
  if (too_large_) return result;
  for (uint32_t e = first_edges_[body.start]; e != kNone; e = edges_[e].next) {
    Edge edge = edges_[e];
    edge.target = result.end;
    add_edge(result.start, edge);
  }
  return result;
}

RuleBuilder::Fragment RuleBuilder::repeat(Fragment body, uint32_t min, uint32_t max) {
  CHECK(min <= max && min <= kMaxRepeats && (max <= kMaxRepeats || max == kUnbounded));
  if (max == 0) return empty();
  if (min == 0 && max == 1) return optional(body);
  if (min == 0 && max == kUnbounded) return any_number(body);
  if (min == 1 && max == kUnbounded) return one_or_more(body);
  if (min == 1 && max == 1) return body;
  // Copies of what is longer than one step are calls of one rule.
  if (!is_short(body)) body = call(add_rule("a repeated part", body));
  const uint32_t n_copies = max == kUnbounded ? min : max;
  const uint32_t end = new_state();
  Fragment result = empty();
  for (uint32_t i = 0; i < n_copies && !too_large_; ++i) {
    if (i >= min) link(result.end, end);
    result = sequence(result, copy(body));
  }
  if (max == kUnbounded) result = sequence(result, any_number(copy(body)));
  link(result.end, end);
  return {result.start, end};
}

}  // namespace hf2q
