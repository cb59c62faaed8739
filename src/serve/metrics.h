#pragma once
// What a server tells of itself: numbers since its start, and the state of this moment.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "kv/prefix_tree.h"

namespace hf2q {

// Durations by size, in 1-2-5 steps.
struct Histogram {
  static constexpr std::array<double, 16> kBounds = {
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100};  // seconds

  std::array<uint64_t, kBounds.size() + 1> counts = {};  // [i]: above bound i - 1, up to bound i
  double sum = 0;                                        // seconds
  uint64_t n = 0;

  void observe(double seconds) {
    const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
    ++counts[static_cast<size_t>(std::distance(kBounds.begin(), bound))];
    sum += seconds;
    ++n;
  }
};

// How requests and answers ended.
struct Outcomes {
  uint64_t stop = 0;    // answers
  uint64_t length = 0;  // answers
  uint64_t embedding = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t refused_context = 0;  // see Rejection
  uint64_t refused_queue = 0;
  uint64_t refused_other = 0;
};

struct Metrics {
  uint64_t prompt_tokens = 0;  // of requests whose prompt has begun to be read
  uint64_t reused_tokens = 0;  // of them, taken from the prefix tree
  uint64_t read_tokens = 0;    // rows of prompts that were computed, those after a set-back too
  uint64_t generated_tokens = 0;
  uint64_t prefix_queries = 0;  // requests; a set-back sequence asks no second time
  uint64_t prefix_hits = 0;
  std::array<uint64_t, kReuseLimits> reuse_limits = {};  // by ReuseLimit
  uint64_t preemptions = 0;                              // sequences set back
  uint64_t steps = 0;                                    // batches
  Outcomes outcomes;
  Histogram first_token;  // from submit() to the first token of the first answer
  Histogram token;        // between two tokens of an answer
  Histogram end_to_end;   // from submit() to the last event
};

struct SequenceStats {
  uint64_t request = 0;
  uint32_t answer = 0;
  bool running = false;     // false: waiting, or set back
  uint32_t n_prompt = 0;    // tokens
  uint32_t n_cached = 0;    // of the prompt, taken from the tree
  uint32_t n_held = 0;      // tokens whose rows are in the cache
  uint32_t n_answered = 0;  // tokens generated
  bool embedding = false;
};

struct GroupStats {
  uint64_t used_bytes = 0;    // live and cached
  uint64_t cached_bytes = 0;  // of them, only the prefix tree refers to
};

struct ServiceStats {
  uint32_t running = 0;                  // sequences with a place in the next batch
  uint32_t waiting = 0;                  // sequences without: not begun, or set back
  std::vector<SequenceStats> sequences;  // oldest first
  std::vector<GroupStats> groups;        // as Engine::kv().groups
  uint64_t committed_bytes = 0;          // of the cache
  uint64_t budget_bytes = 0;
  uint64_t evicted_pages = 0;
  uint64_t evicted_points = 0;
  uint64_t resume_points = 0;
  Metrics metrics;
};

}  // namespace hf2q
