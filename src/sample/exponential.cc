#include "sample/exponential.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hf2q {

double exp_sum(std::span<const float> logits, float max) {
  constexpr size_t kLanes = 8;
  constexpr size_t kBlock = 256;  // exponentials first, then sums: each a loop that vectorizes
  std::array<double, kLanes> sums{};
  std::array<double, kBlock> values{};
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - begin);
    for (size_t i = 0; i < count; ++i) values[i] = exp_non_positive(logits[begin + i] - max);
    for (size_t i = 0; i < count; ++i) sums[i % kLanes] += values[i];
  }
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace hf2q
