#include "sample/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace hf2q {
namespace {

// Logits that are looked at together: enough for the loop over them to become vector instructions,
// few enough that one interesting logit among them costs little.
constexpr size_t kBlock = 64;

// Integers that order like the floats: -NaN < -infinity < ... < -0 < 0 < ... < infinity < NaN.
int32_t order_key(float x) {
  const int32_t bits = std::bit_cast<int32_t>(x);
  return bits ^ (bits >> 31 & 0x7FFFFFFF);
}

float from_order_key(int32_t key) {
  return std::bit_cast<float>(key ^ (key >> 31 & 0x7FFFFFFF));
}

Error not_finite(std::span<const float> logits) {
  const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) {
    return std::isnan(x) || x == std::numeric_limits<float>::infinity();
  });
  return error(ErrorCode::kCorrupt, "logits: finite numbers expected, token {} has {}",
               bad - logits.begin(), *bad);
}

// The first block at or after `begin` (a multiple of kBlock) that satisfies `test`, which sees its
// logits one by one; only whole blocks.
template <class Test>
size_t find_block(std::span<const float> logits, size_t begin, Test test) {
  for (; begin + kBlock <= logits.size(); begin += kBlock) {
    int hits = 0;
    for (size_t i = begin; i < begin + kBlock; ++i) hits |= static_cast<int>(test(logits[i]));
    if (hits != 0) break;
  }
  return begin;
}

// Collects candidates and, each time 2k are there, forgets all but the k best; from then on only
// logits above the k-th best can matter (an equal one has a higher id, as ids come ascending).
class Selection {
 public:
  Selection(size_t k, std::vector<Candidate>& best) : k_(k), best_(best) { best_.clear(); }

  float threshold() const { return threshold_; }

  void offer(size_t token, float logit) {
    if (!(logit > threshold_)) return;
    best_.push_back({static_cast<int32_t>(token), logit});
    if (best_.size() == 2 * k_) shrink();
  }

  void finish() {
    if (best_.size() > k_) shrink();
    std::sort(best_.begin(), best_.end(), better);
  }

 private:
  void shrink() {
    const auto last = best_.begin() + static_cast<ptrdiff_t>(k_) - 1;
    std::nth_element(best_.begin(), last, best_.end(), better);
    threshold_ = last->logit;
    best_.resize(k_);
  }

  size_t k_;
  std::vector<Candidate>& best_;
  float threshold_ = kImpossible;
};

}  // namespace

Result<float> max_logit(std::span<const float> logits) {
  int32_t low = order_key(kImpossible);
  int32_t high = low;
  for (float logit : logits) {
    const int32_t key = order_key(logit);
    low = std::min(low, key);
    high = std::max(high, key);
  }
  if (low < order_key(kImpossible) || high >= order_key(-kImpossible)) {
    return not_finite(logits);
  }
  return from_order_key(high);
}

int32_t best_token(std::span<const float> logits, float max) {
  if (max == kImpossible) return -1;
  const size_t block = find_block(logits, 0, [max](float logit) { return logit == max; });
  const auto first = std::find(logits.begin() + static_cast<ptrdiff_t>(block), logits.end(), max);
  return first == logits.end() ? -1 : static_cast<int32_t>(first - logits.begin());
}

void top_k(std::span<const float> logits, size_t k, std::vector<Candidate>& best) {
  Selection selection(k, best);
  if (k == 0) return;
  for (size_t t = 0; t < logits.size();) {
    t = find_block(logits, t, [above = selection.threshold()](float x) { return x > above; });
    const size_t end = std::min(t + kBlock, logits.size());
    for (; t < end; ++t) selection.offer(t, logits[t]);
  }
  selection.finish();
}

}  // namespace hf2q
