#include "safetensors/widen.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "base/quote.h"

namespace hf2q {
namespace {

template <float (*ToFloat)(uint16_t)>
void widen_halves(const std::byte* __restrict src, uint64_t count, float* __restrict dst) {
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, src + 2 * i, sizeof bits);
    dst[i] = ToFloat(bits);
  }
}

}  // namespace

Status widen(const SourceTensor& tensor, uint64_t first, uint64_t count, float* dst) {
  const uint64_t n_elements = tensor.n_elements();
  CHECK(first <= n_elements && count <= n_elements - first);
  const std::byte* src = tensor.data.data() + first * bits_of(tensor.dtype) / 8;
  switch (tensor.dtype) {
    case Dtype::kF32:
      if (count > 0) std::memcpy(dst, src, count * sizeof(float));
      return Ok{};
    case Dtype::kF16:
      widen_halves<f16_to_f32>(src, count, dst);
      return Ok{};
    case Dtype::kBF16:
      widen_halves<bf16_to_f32>(src, count, dst);
      return Ok{};
    default:
      return error(ErrorCode::kUnsupported, "tensor {}: dtype F32, F16 or BF16 expected, found {}",
                   quote(tensor.name), name_of(tensor.dtype));
  }
}

}  // namespace hf2q
