#include "engine/embedding.h"

#include <algorithm>
#include <cmath>

#include "engine/generate.h"

namespace hf2q {

Result<std::vector<float>> unit_vector(std::span<const float> hidden) {
  TRY_OK(check_finite("hidden state", hidden));
  double sum = 0;
  for (const float x : hidden) sum += static_cast<double>(x) * x;
  const double length = std::max(std::sqrt(sum), 1e-12);
  std::vector<float> vector;
  for (const float x : hidden) vector.push_back(static_cast<float>(x / length));
  return vector;
}

}  // namespace hf2q
