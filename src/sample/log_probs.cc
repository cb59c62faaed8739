#include "sample/log_probs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sample/exponential.h"
#include "sample/top_k.h"

namespace hf2q {

Result<LogProbs> log_probs(std::span<const float> logits, int32_t token, size_t n_top) {
  CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  TRY(max, max_logit(logits));
  if (max == -std::numeric_limits<float>::infinity()) {
    return error(ErrorCode::kCorrupt, "logits: a finite number expected, all {} are -infinity",
                 logits.size());
  }
  const double log_sum = double{max} + std::log(exp_sum(logits, max));
  const auto entry = [&](int32_t id, float logit) -> TokenLogProb {
    return {id, std::max(static_cast<float>(double{logit} - log_sum), kLowestLogProb)};
  };
  LogProbs result{entry(token, logits[static_cast<size_t>(token)]), {}};
  std::vector<Candidate> best;
  top_k(logits, n_top, best);
  for (const Candidate& candidate : best) {
    result.top.push_back(entry(candidate.token, candidate.logit));
  }
  return result;
}

}  // namespace hf2q
