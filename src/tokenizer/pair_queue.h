#pragma once
// The order in which the pairs of a text merge: by rank, and from left to right within a rank.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

namespace hf2q {

// A list of positions for each rank that waits; when a rank's turn comes its list is sorted and
// handed out as a run. Against one heap of all pairs, only ranks are in a heap: a text of a million
// equal characters has long lists, but few of them.
//
// A lower rank that is pushed in the middle of a run comes first, then the run goes on. Positions
// pushed for the rank of a run that is not over come after it; BPE has none: a pair that a merge of
// the tokens L and R brings about has a member that contains their union, and so does every later
// one until that rank and the lower ones are through, while L and R are shorter than that.
class PairQueue {
 public:
  struct Pair {
    uint32_t rank;
    uint32_t position;  // of the left token
  };

  void push(uint32_t rank, uint32_t position);
  // Takes the next pair; nothing when none waits.
  std::optional<Pair> pop();

 private:
  struct Node {
    uint32_t position;
    uint32_t older;  // the node of the same rank pushed before it, as in Page
  };
  // For each rank 1 + the index of its newest node, 0 when it has none.
  using Page = std::array<uint32_t, 256>;
  struct Run {
    uint32_t rank;
    size_t begin;  // in positions_
    size_t next;
  };

  uint32_t& newest(uint32_t rank);
  void start_run();

  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Page>> pages_;  // [rank / 256], made when first used
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks_;  // with nodes
  std::vector<Run> runs_;            // each of a lower rank than those before it
  std::vector<uint32_t> positions_;  // of the runs, one behind the other
};

}  // namespace hf2q
