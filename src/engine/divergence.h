#pragma once
// How far one row of predictions is from another, and what that comes to over a text. The rows are
// those of two models, or of one model with two caches, for the same tokens; a is the reference.
//
//   x = logits - max, ln Z = ln sum_t exp(x[t]), p[t] = exp(x[t]) / Z
//   KL(a || b) = sum_t p_a[t] (ln p_a[t] - ln p_b[t])
//              = sum_t p_a[t] (x_a[t] - x_b[t]) - (ln Z_a - ln Z_b)      in nats
//   nll = ln Z - x[next]                                               of the token that came
//
// Error: F64 throughout; ln Z is at most ln(vocab_size), so a divergence is right to about 1e-15,
// whatever the size of the logits. Never below 0.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace hf2q {

struct RowDivergence {
  double kl;       // infinite where b rules out what a allows
  bool same_top1;  // the same most likely token; the lowest id among equals
  double nll_a;
  double nll_b;
};

// a and b [vocab_size], -infinity for a token that cannot come; `next` is one of their tokens
// (CHECKed). kCorrupt, naming the place, when a logit is NaN or +infinity or all are -infinity.
Result<RowDivergence> compare_rows(std::span<const float> a, std::span<const float> b,
                                   int32_t next);

struct Divergence {
  size_t n_tokens;   // rows that were compared
  double kl_mean;    // nats
  double kl_median;  // between the two middle rows where their number is even
  double kl_p99;     // at 0.99 (n - 1) in ascending order, linear between two rows
  double same_top1;  // share of the rows
  double ppl_a;      // exp of the mean nll
  double ppl_b;
};

// CHECKs that there is a row.
Divergence summarize(std::span<const RowDivergence> rows);

}  // namespace hf2q
