#pragma once
// For tests: rows of blocks in file layout with arbitrary codes and tame scales.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/tensor_type.h"
#include "ops/packed_matrix.h"

namespace hf2q {

constexpr TensorType kAllTypes[] = {
    TensorType::kF32,  TensorType::kF16,  TensorType::kBF16, TensorType::kQ4_0,  TensorType::kQ4_1,
    TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0, TensorType::kQ2_K,  TensorType::kQ3_K,
    TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kIQ4_NL};

inline std::string type_name(const testing::TestParamInfo<TensorType>& info) {
  return std::string(name_of(info.param));
}

// Where the F16 scale and minimum of a block lie in the file (base of the block, in bytes).
inline std::vector<size_t> half_offsets(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {0, 2};
    case TensorType::kQ2_K:
      return {80, 82};
    case TensorType::kQ3_K:
      return {108};
    case TensorType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// How the bytes that hold codes and sub-block scales are filled.
enum class Fill { kRandom, kOnes, kZeros };

inline std::vector<std::byte> random_floats(TensorType type, size_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<std::byte> bytes(row_bytes(type, n));
  for (size_t i = 0; i < n; ++i) {
    const float value = normal(rng);
    const uint16_t half = type == TensorType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    if (type == TensorType::kF32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  return bytes;
}

// [rows, row_bytes(type, cols)]. Scales are of both signs and about 2^-6.
inline std::vector<std::byte> random_rows(TensorType type, size_t rows, size_t cols, uint32_t seed,
                                          Fill fill = Fill::kRandom) {
  std::mt19937 rng(seed);
  if (!is_quantized(type)) return random_floats(type, rows * cols, rng);
  std::vector<std::byte> bytes(rows * row_bytes(type, cols));
  for (std::byte& b : bytes) {
    const auto random = static_cast<std::byte>(rng() & 255);
    b = fill == Fill::kRandom ? random : fill == Fill::kOnes ? std::byte{255} : std::byte{0};
  }
  std::uniform_real_distribution<float> scale(-0x1p-6F, 0x1p-6F);
  const size_t block_bytes = tensor_type_info(type).block_bytes;
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    for (size_t offset : half_offsets(type)) {
      const uint16_t half = f32_to_f16(scale(rng));
      std::memcpy(bytes.data() + block + offset, &half, sizeof half);
    }
  }
  return bytes;
}

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};

// A packed matrix and its bytes.
struct OwnedMatrix {
  PackedMatrix view;
  std::unique_ptr<std::byte[], AlignedDelete> bytes;
};

inline OwnedMatrix pack(TensorType type, size_t rows, size_t cols,
                        std::span<const std::byte> file_rows) {
  OwnedMatrix matrix;
  matrix.bytes.reset(new (std::align_val_t{64}) std::byte[packed_bytes(type, rows, cols)]);
  pack_rows(type, file_rows.data(), 0, rows, cols, matrix.bytes.get());
  matrix.view = {type, rows, cols, matrix.bytes.get()};
  return matrix;
}

inline std::vector<float> random_x(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& value : x) value = normal(rng);
  return x;
}

}  // namespace hf2q
