#include "serve/admission.h"

#include <algorithm>

namespace hf2q {
namespace {

// Most pages of a group while a sequence reads up to `length`.
uint64_t most_pages(const Engine& engine, const KvGroup& group, uint32_t length) {
  const uint32_t n_new = std::min(length, engine.max_rows());
  return pages_in_pass(group, length - n_new, n_new, Engine::kMaxRollback) + 1;
}

}  // namespace

std::vector<uint64_t> pages_to_go(const Engine& engine, uint32_t n_held, uint32_t n_tokens) {
  std::vector<uint64_t> counts;
  for (const KvGroup& group : engine.kv().groups) {
    const uint64_t positions = group.layout.page_positions;
    const uint64_t n_new =
        (n_tokens + positions - 1) / positions - (n_held + positions - 1) / positions;
    counts.push_back(std::min(n_new, most_pages(engine, group, n_tokens)) + 1);
  }
  return counts;
}

uint32_t longest_sequence(Engine& engine) {
  const auto fits = [&](uint32_t length) {
    std::vector<uint64_t> counts;
    for (const KvGroup& group : engine.kv().groups) {
      counts.push_back(most_pages(engine, group, length));
    }
    return engine.pool().could_hold(counts);
  };
  uint32_t good = 0;
  uint32_t bad = engine.n_ctx() + 1;
  while (bad - good > 1) {
    const uint32_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace hf2q
