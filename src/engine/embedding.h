#pragma once
// A text as a vector: the final hidden state of its last token, divided by its length.

#include <span>
#include <vector>

#include "base/result.h"

namespace hf2q {

// y = x / max(|x|, 1e-12), |x| summed in F64, ascending. Errors as check_finite().
Result<std::vector<float>> unit_vector(std::span<const float> hidden);

}  // namespace hf2q
