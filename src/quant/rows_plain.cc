#include <cstring>

#include "quant/rows.h"

namespace hf2q {
namespace {

bool encode_f32(const QuantKernels& kernels, const float* row, size_t n,
                const float* /*importance*/, std::byte* dst) {
  return kernels.to_f32(row, n, blocks_of<float>(dst));
}

void decode_f32(const std::byte* src, size_t n, float* row) {
  std::memcpy(row, src, n * sizeof *row);
}

bool encode_f16(const QuantKernels& kernels, const float* row, size_t n,
                const float* /*importance*/, std::byte* dst) {
  return kernels.to_f16(row, n, blocks_of<uint16_t>(dst));
}

void decode_f16(const std::byte* src, size_t n, float* row) {
  const auto* bits = blocks_of<uint16_t>(src);
  for (size_t i = 0; i < n; ++i) row[i] = f16_to_f32(bits[i]);
}

bool encode_bf16(const QuantKernels& kernels, const float* row, size_t n,
                 const float* /*importance*/, std::byte* dst) {
  return kernels.to_bf16(row, n, blocks_of<uint16_t>(dst));
}

void decode_bf16(const std::byte* src, size_t n, float* row) {
  const auto* bits = blocks_of<uint16_t>(src);
  for (size_t i = 0; i < n; ++i) row[i] = bf16_to_f32(bits[i]);
}

constexpr RowFunctions kRows[] = {
    {TensorType::kF32, encode_f32, decode_f32},
    {TensorType::kF16, encode_f16, decode_f16},
    {TensorType::kBF16, encode_bf16, decode_bf16},
};

}  // namespace

std::span<const RowFunctions> plain_rows() {
  return kRows;
}

}  // namespace hf2q
