#pragma once
// The best of many logits without sorting them all. "Better" is a total order everywhere: the
// higher logit first, the lower token id among equals.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/result.h"

namespace hf2q {

// The logit of a token that cannot come.
inline constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t token;
  float logit;
};

inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// The highest logit; logits [vocab_size], kImpossible included.
// Fails with kCorrupt, naming the first place, when a logit is NaN or +infinity.
Result<float> max_logit(std::span<const float> logits);

// The best token, or -1 when every logit is -infinity or there is none.
int32_t best_token(std::span<const float> logits, float max);

// The k best tokens, best first (fewer when fewer are above -infinity), into `best`, whose memory
// is reused. No logit may be NaN. About one comparison per logit when k is small.
void top_k(std::span<const float> logits, size_t k, std::vector<Candidate>& best);

}  // namespace hf2q
