// The reference: every other kernel gives these bits.
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "ops/matmul_kernels.h"
#include "ops/packed_block.h"

namespace hf2q {
namespace {

template <TensorType kType>
float float_weight(const std::byte* tile, size_t index) {
  if constexpr (kType == TensorType::kF32) {
    float value = 0;
    std::memcpy(&value, tile + index * sizeof value, sizeof value);
    return value;
  } else {
    uint16_t bits = 0;
    std::memcpy(&bits, tile + index * sizeof bits, sizeof bits);
    return kType == TensorType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
}

template <TensorType kType>
float float_dot(const MatmulTile& t, size_t row, const float* x) {
  float acc = 0;
  for (size_t k = 0; k < t.cols; ++k) {
    acc = std::fma(float_weight<kType>(t.tile, kTileRows * k + row), x[k], acc);
  }
  return acc;
}

int block_isum(const PackedBlock& w, size_t sub, size_t row, const ActivationBlock& x) {
  int isum = 0;
  for (size_t h = 0; h < 2; ++h) {
    int sum = 0;
    for (size_t k = 16 * h; k < 16 * h + 16; ++k) sum += w.weight(sub, row, k) * x.q[k];
    isum += w.scale(sub, row, h) * sum;
  }
  return isum;
}

float add_min_term(const PackedBlock& w, size_t sub, size_t row, const ActivationBlock& x,
                   float acc) {
  switch (w.format.scales) {
    case SubScales::kNone:
      return std::fma(w.dm(row), x.sum, acc);
    case SubScales::kScaleMin32:
      return std::fma(-w.dm(row) * static_cast<float>(w.min(sub, row, 0)), x.sum, acc);
    default: {
      const int sum = w.min(sub, row, 0) * x.half_sums[0] + w.min(sub, row, 1) * x.half_sums[1];
      return std::fma(static_cast<float>(sum), -w.dm(row) * x.scale, acc);
    }
  }
}

template <TensorType kType>
float quantized_dot(const MatmulTile& t, size_t row, const ActivationBlock* x) {
  static constexpr PackedFormat kFormat = packed_format(kType);
  const auto* bytes = reinterpret_cast<const uint8_t*>(t.tile);
  float acc = 0;
  for (size_t c = 0; c < t.cols; c += kFormat.block_cols(), bytes += kFormat.block_bytes()) {
    const PackedBlock w{kFormat, bytes};
    for (size_t sub = 0; sub < kFormat.sub_blocks; ++sub, ++x) {
      const auto isum = static_cast<float>(block_isum(w, sub, row, *x));
      acc = std::fma(isum, w.d(row) * x->scale, acc);
      if (kFormat.has_min) acc = add_min_term(w, sub, row, *x, acc);
    }
  }
  return acc;
}

}  // namespace

template <TensorType kType>
void matmul_scalar(const MatmulTile& t) {
  for (size_t i = 0; i < t.n; ++i) {
    for (size_t row = 0; row < kTileRows; ++row) {
      float& y = t.y[kTileRows * i + row];
      if constexpr (packed_format(kType).low_bits == 0) {
        y = float_dot<kType>(t, row, static_cast<const float*>(t.x[i]));
      } else {
        y = quantized_dot<kType>(t, row, static_cast<const ActivationBlock*>(t.x[i]));
      }
    }
  }
}

#define HF2Q_INSTANTIATE(type) template void matmul_scalar<TensorType::type>(const MatmulTile&);
HF2Q_FOR_EACH_TENSOR_TYPE(HF2Q_INSTANTIATE)

}  // namespace hf2q
