#include "grammar/stacks.h"

#include <algorithm>

namespace hf2q {
namespace {

// A stack that was opened at this symbol and has no number yet is its index here with this bit.
constexpr uint32_t kOpenBit = 1U << 31;
constexpr size_t kFewItems = 16;

uint32_t hash_of(uint32_t seed, Place place) {
  uint64_t x = place.key() ^ seed;
  x = (x ^ x >> 32) * 0x9E3779B97F4A7C15U;
  return static_cast<uint32_t>(x ^ x >> 29);
}

uint32_t hash_of(std::span<const Place> places) {
  uint32_t hash = 0;
  for (const Place& place : places) hash = hash_of(hash * 31 + 1, place);
  return hash;
}

// The index in scratch.opened of the rule's call, made if it is the first one at this symbol.
uint32_t open_rule(const Pushdown& pushdown, uint32_t rule, StepScratch& scratch,
                   size_t& n_opened) {
  // What slots held before this symbol shows in that the index is too large or another rule's.
  uint32_t& slot = scratch.slots[rule];
  if (slot < n_opened && scratch.opened[slot].rule == rule) return slot;
  if (n_opened == scratch.opened.size()) scratch.opened.emplace_back();
  StepScratch::Opened& opened = scratch.opened[n_opened];
  opened.rule = rule;
  opened.needed = false;
  opened.callers.clear();
  const auto index = static_cast<uint32_t>(n_opened++);
  slot = index;
  scratch.places.insert({pushdown.start(rule), kOpenBit | index});
  return index;
}

// Adds the places inside of rules that can be called next. Returns how many rules were opened.
size_t enter_calls(const Pushdown& pushdown, std::span<const Place> from, StepScratch& scratch) {
  scratch.places.clear();
  scratch.slots.resize(pushdown.n_rules());
  size_t n_opened = 0;
  for (const Place& place : from) scratch.places.insert(place);
  for (size_t i = 0; i < scratch.places.items().size(); ++i) {
    const Place place = scratch.places.items()[i];
    for (const Pushdown::Call& call : pushdown.calls(place.state)) {
      const uint32_t index = open_rule(pushdown, call.rule, scratch, n_opened);
      scratch.opened[index].callers.push_back({call.target, place.stack});
      if (pushdown.matches_empty(call.rule)) scratch.places.insert({call.target, place.stack});
    }
  }
  return n_opened;
}

// Gives numbers to the opened stacks that are needed. Callers have lower rule numbers than the
// rules they call at their beginning, so going up, a caller's stack has its number already.
void number_stacks(const Pushdown& pushdown, StackStore& store, StepScratch& scratch,
                   size_t n_opened) {
  std::vector<uint32_t>& order = scratch.order;
  order.resize(n_opened);
  for (uint32_t i = 0; i < n_opened; ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](uint32_t i) { return scratch.opened[i].rule; });
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    if (!scratch.opened[*i].needed) continue;
    for (const Place& caller : scratch.opened[*i].callers) {
      if (caller.stack & kOpenBit) scratch.opened[caller.stack & ~kOpenBit].needed = true;
    }
  }
  for (const uint32_t i : order) {
    StepScratch::Opened& opened = scratch.opened[i];
    if (!opened.needed) continue;
    std::vector<Place>& flat = scratch.flat;
    flat.clear();
    for (Place caller : opened.callers) {
      if (caller.stack & kOpenBit) caller.stack = scratch.opened[caller.stack & ~kOpenBit].stack;
      // A caller that is over itself then: its own callers stand in for it.
      if (!pushdown.is_last(caller.state)) {
        flat.push_back(caller);
      } else if (caller.stack == 0) {
        flat.push_back({Pushdown::kEndState, 0});
      } else {
        const auto outer = store.places(caller.stack);
        flat.insert(flat.end(), outer.begin(), outer.end());
      }
    }
    std::ranges::sort(flat, {}, &Place::key);
    flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
    opened.stack = store.intern(flat);
  }
}

// Adds to `places` those of the callers wherever a rule has ended. Returns whether the text may
// end.
bool close_ends(const Pushdown& pushdown, const StackStore& store, PlaceSet& places) {
  bool ended = false;
  for (size_t i = 0; i < places.items().size(); ++i) {
    const Place place = places.items()[i];
    if (!pushdown.is_final(place.state)) continue;
    ended = ended || place.stack == 0;
    for (const Place& caller : store.places(place.stack)) places.insert(caller);
  }
  return ended;
}

void take_places(const Pushdown& pushdown, const PlaceSet& places, std::vector<Place>& to) {
  to.assign(places.items().begin(), places.items().end());
  std::erase_if(to, [&](const Place& place) { return pushdown.is_last(place.state); });
  std::ranges::sort(to, {}, &Place::key);
}

}  // namespace

StackStore::StackStore() : ends_{0, 0}, table_(16, 0) {}

uint32_t StackStore::intern(std::span<const Place> places) {
  if (places.empty()) return 0;
  const size_t mask = table_.size() - 1;
  size_t slot = hash_of(places) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (std::ranges::equal(this->places(table_[slot]), places)) return table_[slot];
  }
  const uint32_t stack = size();
  table_[slot] = stack;
  places_.insert(places_.end(), places.begin(), places.end());
  ends_.push_back(static_cast<uint32_t>(places_.size()));
  if (size() * size_t{2} > table_.size()) grow();
  return stack;
}

void StackStore::grow() {
  table_.assign(table_.size() * 2, 0);
  const size_t mask = table_.size() - 1;
  for (uint32_t stack = 1; stack < size(); ++stack) {
    size_t slot = hash_of(places(stack)) & mask;
    while (table_[slot] != 0) slot = (slot + 1) & mask;
    table_[slot] = stack;
  }
}

void StackStore::keep_only(std::span<Place> roots) {
  std::vector<uint32_t> number(size(), 0);  // 1: needed, then the new number
  for (const Place& place : roots) number[place.stack] = 1;
  for (uint32_t stack = size(); stack-- > 1;) {
    if (number[stack] == 0) continue;
    for (const Place& place : places(stack)) number[place.stack] = 1;
  }
  number[0] = 0;
  StackStore kept;
  std::vector<Place> renumbered;
  for (uint32_t stack = 1; stack < size(); ++stack) {
    if (number[stack] == 0) continue;
    renumbered.clear();
    for (const Place& place : places(stack)) {
      renumbered.push_back({place.state, number[place.stack]});
    }
    number[stack] = kept.intern(renumbered);
  }
  for (Place& place : roots) place.stack = number[place.stack];
  *this = std::move(kept);
}

void PlaceSet::clear() {
  items_.clear();
  table_.clear();
}

bool PlaceSet::insert(Place place) {
  if (table_.empty()) {
    if (std::ranges::find(items_, place) != items_.end()) return false;
    items_.push_back(place);
    if (items_.size() > kFewItems) rehash();
    return true;
  }
  const size_t mask = table_.size() - 1;
  size_t slot = hash_of(0, place) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (items_[table_[slot] - 1] == place) return false;
  }
  items_.push_back(place);
  table_[slot] = static_cast<uint32_t>(items_.size());
  if (items_.size() * 2 > table_.size()) rehash();
  return true;
}

void PlaceSet::rehash() {
  table_.assign(std::max(size_t{64}, table_.size() * 2), 0);
  const size_t mask = table_.size() - 1;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    size_t slot = hash_of(0, items_[i]) & mask;
    while (table_[slot] != 0) slot = (slot + 1) & mask;
    table_[slot] = i + 1;
  }
}

bool step(const Pushdown& pushdown, StackStore& store, std::span<const Place> from, uint32_t symbol,
          StepScratch& scratch, std::vector<Place>& to) {
  const size_t n_opened = enter_calls(pushdown, from, scratch);
  std::vector<Place>& moved = to;
  moved.clear();
  for (const Place& place : scratch.places.items()) {
    const uint32_t target = pushdown.next(place.state, symbol);
    if (target == Pushdown::kNone) continue;
    moved.push_back({target, place.stack});
    if (place.stack & kOpenBit) scratch.opened[place.stack & ~kOpenBit].needed = true;
  }
  if (moved.empty()) return false;
  number_stacks(pushdown, store, scratch, n_opened);
  scratch.reached.clear();
  for (Place place : moved) {
    if (place.stack & kOpenBit) place.stack = scratch.opened[place.stack & ~kOpenBit].stack;
    scratch.reached.insert(place);
  }
  const bool ended = close_ends(pushdown, store, scratch.reached);
  take_places(pushdown, scratch.reached, to);
  return ended;
}

std::vector<Place> returns(const Pushdown& pushdown, const StackStore& store, uint32_t stack) {
  PlaceSet places;
  for (const Place& place : store.places(stack)) places.insert(place);
  static_cast<void>(close_ends(pushdown, store, places));
  std::vector<Place> result;
  take_places(pushdown, places, result);
  return result;
}

}  // namespace hf2q
