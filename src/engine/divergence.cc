#include "engine/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sample/top_k.h"

namespace hf2q {
namespace {

// The highest logit, which is finite.
Result<double> finite_max(std::span<const float> logits) {
  TRY(max, max_logit(logits));
  if (max == -std::numeric_limits<float>::infinity()) {
    return error(ErrorCode::kCorrupt, "logits: a finite number expected, all {} are -infinity",
                 logits.size());
  }
  return double{max};
}

// The value at `share` of the way through `sorted`, linear between neighbours.
double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const double rest = at - static_cast<double>(below);
  if (rest == 0) return sorted[below];  // also where a neighbour is infinite
  return sorted[below] * (1 - rest) + sorted[below + 1] * rest;
}

}  // namespace

Result<RowDivergence> compare_rows(std::span<const float> a, std::span<const float> b,
                                   int32_t next) {
  CHECK(a.size() == b.size() && next >= 0 && static_cast<size_t>(next) < a.size());
  TRY(max_a, finite_max(a));
  TRY(max_b, finite_max(b));
  double z_a = 0;
  double z_b = 0;
  double weighted = 0;  // sum of exp(x_a) (x_a - x_b)
  for (size_t t = 0; t < a.size(); ++t) {
    const double x_a = a[t] - max_a;
    const double x_b = b[t] - max_b;
    const double e = std::exp(x_a);
    z_a += e;
    z_b += std::exp(x_b);
    if (e > 0) weighted += e * (x_a - x_b);
  }
  const double ln_z_a = std::log(z_a);
  const double ln_z_b = std::log(z_b);
  const auto id = static_cast<size_t>(next);
  return RowDivergence{
      std::max(0.0, weighted / z_a - (ln_z_a - ln_z_b)),
      best_token(a, static_cast<float>(max_a)) == best_token(b, static_cast<float>(max_b)),
      ln_z_a - (a[id] - max_a), ln_z_b - (b[id] - max_b)};
}

Divergence summarize(std::span<const RowDivergence> rows) {
  CHECK(!rows.empty());
  std::vector<double> kl;
  Divergence sums = {};
  for (const RowDivergence& row : rows) {
    kl.push_back(row.kl);
    sums.kl_mean += row.kl;
    sums.same_top1 += row.same_top1 ? 1 : 0;
    sums.ppl_a += row.nll_a;
    sums.ppl_b += row.nll_b;
  }
  std::sort(kl.begin(), kl.end());
  const auto n = static_cast<double>(rows.size());
  return {rows.size(),        sums.kl_mean / n,         quantile(kl, 0.5),       quantile(kl, 0.99),
          sums.same_top1 / n, std::exp(sums.ppl_a / n), std::exp(sums.ppl_b / n)};
}

}  // namespace hf2q
