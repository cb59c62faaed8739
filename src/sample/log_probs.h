#pragma once
// Log-probabilities as the OpenAI API reports them: of the model's own distribution, that is of the
// logits after the final soft-cap and before bias, penalties, masks, filters and temperature.
//   log p[t] = logits[t] - max - ln(sum_i exp(logits[i] - max))
// Error: a few units in the last place of the F32 result; the sum is F64 in a fixed order.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace hf2q {

// In place of minus infinity, which JSON cannot carry.
inline constexpr float kLowestLogProb = -9999;

struct TokenLogProb {
  int32_t token;
  float log_prob;  // natural logarithm; kLowestLogProb at the least
};

struct LogProbs {
  TokenLogProb chosen;
  std::vector<TokenLogProb> top;  // most likely first, the lower id first among equals
};

// For `token` and the `n_top` most likely tokens (fewer when fewer are possible); logits
// [vocab_size]. CHECKs the token id; fails with kCorrupt when a logit is NaN or +infinity or all
// are -infinity.
Result<LogProbs> log_probs(std::span<const float> logits, int32_t token, size_t n_top);

}  // namespace hf2q
