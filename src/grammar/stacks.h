#pragma once
// Where a text that has been read so far may stand in a Pushdown, and reading one symbol more.
//
// A place is a state and the stack of calls it was reached through. A stack is the set of places
// where its rule's callers go on; equal stacks are one, so however ambiguous the rules are, the
// number of places grows with the length of the text at most. Stack 0 has no caller: who ends
// there has read the whole text.
//
// Places are kept closed under ends: where a rule has ended, the places of its callers are there
// too. Calls of rules are entered when the next symbol is read.

#include <cstdint>
#include <span>
#include <vector>

#include "grammar/pushdown.h"

namespace hf2q {

struct Place {
  uint32_t state;
  uint32_t stack;
  uint64_t key() const { return uint64_t{state} << 32 | stack; }  // sets ascend in it
  bool operator==(const Place&) const = default;
};

// Numbered stacks. The stacks in a stack's places have lower numbers. Copied as a value.
class StackStore {
 public:
  StackStore();
  // `places` ascend, without equals.
  uint32_t intern(std::span<const Place> places);
  std::span<const Place> places(uint32_t stack) const {
    return std::span(places_).subspan(ends_[stack], ends_[stack + 1] - ends_[stack]);
  }
  uint32_t size() const { return static_cast<uint32_t>(ends_.size() - 1); }
  // Drops the stacks that no place in `roots` needs, and renumbers those in `roots`.
  void keep_only(std::span<Place> roots);

 private:
  void grow();
  std::vector<Place> places_;
  std::vector<uint32_t> ends_;   // [stack + 1], in places_
  std::vector<uint32_t> table_;  // hash table of stack numbers, 0: free
};

// A set that remembers the order of insertion.
class PlaceSet {
 public:
  void clear();
  bool insert(Place place);
  std::span<const Place> items() const { return items_; }

 private:
  void rehash();
  std::vector<Place> items_;
  std::vector<uint32_t> table_;  // index in items_ + 1; empty while there are few items
};

// Memory that is reused from call to call.
struct StepScratch {
  struct Opened {
    uint32_t rule;
    bool needed;
    uint32_t stack;
    std::vector<Place> callers;
  };
  PlaceSet places;
  PlaceSet reached;
  std::vector<Opened> opened;   // rules called at this symbol
  std::vector<uint32_t> slots;  // [rule], index in opened
  std::vector<uint32_t> order;
  std::vector<Place> flat;
};

// `to`: the places behind `symbol`, ascending, closed, and without those from which nothing goes
// on. Returns whether the text may end there. The symbol cannot come when it may not and `to` is
// empty.
bool step(const Pushdown& pushdown, StackStore& store, std::span<const Place> from, uint32_t symbol,
          StepScratch& scratch, std::vector<Place>& to);

// The places where the callers of a rule that ends on `stack` go on, ascending and closed.
std::vector<Place> returns(const Pushdown& pushdown, const StackStore& store, uint32_t stack);

}  // namespace hf2q
