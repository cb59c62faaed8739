#pragma once
// Elements of a checkpoint's tensor as F32.

#include <cstdint>

#include "base/result.h"
#include "safetensors/safetensors.h"

namespace hf2q {

// dst[i] = element first + i of `tensor` (row by row, as in the file), 0 <= i < count.
// Exact for F32, F16 and BF16, bit for bit in NaNs as well; the source may lie at any address.
// Fails with kUnsupported, naming the tensor, for every other dtype.
// CHECKs that the range lies in the tensor.
Status widen(const SourceTensor& tensor, uint64_t first, uint64_t count, float* dst);

}  // namespace hf2q
