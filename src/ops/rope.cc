#include "ops/rope.h"

#include <cmath>

#include "base/check.h"

namespace hf2q {

std::vector<float> rope_frequencies(float base, size_t head_dim, size_t n_pairs, float factor) {
  CHECK(n_pairs <= head_dim / 2);
  std::vector<float> frequencies;
  for (size_t i = 0; i < n_pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const auto power =
        static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    frequencies.push_back(1.0F / power / factor);
  }
  return frequencies;
}

void rope_angles(std::span<const float> frequencies, int64_t position, float* cos, float* sin) {
  const auto p = static_cast<float>(position);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = p * frequencies[i];
    cos[i] = std::cos(angle);
    sin[i] = std::sin(angle);
  }
}

void rope_angles(std::span<const float> frequencies, std::span<const int64_t> positions,
                 std::span<const uint8_t> axis_of_pair, float* cos, float* sin) {
  CHECK(axis_of_pair.size() == frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    CHECK(axis_of_pair[i] < positions.size());
    const float angle = static_cast<float>(positions[axis_of_pair[i]]) * frequencies[i];
    cos[i] = std::cos(angle);
    sin[i] = std::sin(angle);
  }
}

}  // namespace hf2q
