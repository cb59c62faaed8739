#include "tokenizer/pair_queue.h"

#include <algorithm>

namespace hf2q {

void PairQueue::push(uint32_t rank, uint32_t position) {
  uint32_t& head = newest(rank);
  if (head == 0) ranks_.push(rank);
  nodes_.push_back({position, head});
  head = static_cast<uint32_t>(nodes_.size());
}

std::optional<PairQueue::Pair> PairQueue::pop() {
  for (;;) {
    if (!ranks_.empty() && (runs_.empty() || ranks_.top() < runs_.back().rank)) start_run();
    if (runs_.empty()) {
      nodes_.clear();
      return std::nullopt;
    }
    Run& run = runs_.back();
    if (run.next < positions_.size()) return Pair{run.rank, positions_[run.next++]};
    positions_.resize(run.begin);
    runs_.pop_back();
  }
}

uint32_t& PairQueue::newest(uint32_t rank) {
  const size_t page = rank / std::tuple_size_v<Page>;
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (pages_[page] == nullptr) pages_[page] = std::make_unique<Page>();
  return (*pages_[page])[rank % std::tuple_size_v<Page>];
}

void PairQueue::start_run() {
  const uint32_t rank = ranks_.top();
  ranks_.pop();
  const size_t begin = positions_.size();
  uint32_t& head = newest(rank);
  for (uint32_t node = head; node != 0; node = nodes_[node - 1].older) {
    positions_.push_back(nodes_[node - 1].position);
  }
  head = 0;
  const auto first = positions_.begin() + static_cast<std::ptrdiff_t>(begin);
  std::reverse(first, positions_.end());  // mostly pushed from left to right
  if (!std::is_sorted(first, positions_.end())) std::sort(first, positions_.end());
  runs_.push_back({rank, begin, begin});
}

}  // namespace hf2q
