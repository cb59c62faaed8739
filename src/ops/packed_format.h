#pragma once
// The packed layouts of packed_matrix.h as constants, for packing and for kernels. Compiled in
// files with instruction set flags: constants and constexpr arithmetic only.

#include <cstddef>
#include <cstdint>

#include "base/tensor_type.h"

namespace hf2q {

enum class SubScales : uint8_t {
  kNone,
  kScaleMin32,  // [16] u8 scale, [16] u8 min
  kScale16,     // [2][16] i8
  kScaleMin16,  // [2][16] u8: scale | min << 4
};

struct PackedFormat {
  size_t sub_blocks = 1;  // of 32 columns, in one block
  size_t low_bits = 0;
  size_t high_bits = 0;
  int offset = 0;  // weight = code - offset, before scales
  bool has_min = false;
  SubScales scales = SubScales::kNone;
  bool table = false;  // codes are indices into kIq4NlValues

  constexpr size_t header_bytes() const { return has_min ? 64 : 32; }
  constexpr size_t scale_bytes() const { return scales == SubScales::kNone ? 0 : 32; }
  constexpr size_t sub_block_bytes() const { return scale_bytes() + 64 * (low_bits + high_bits); }
  constexpr bool halves_scaled() const {  // a scale for 16 columns, not for 32 or more
    return scales == SubScales::kScale16 || scales == SubScales::kScaleMin16;
  }
  // What kernels take off codes as offset * (sum of activations); the table's entries are u8, 128
  // up.
  constexpr int code_offset() const { return table ? 128 : offset; }
  // Minimums as m or -dmin * min in F32, or as integers for 16 columns.
  constexpr bool float_min() const { return has_min && !halves_scaled(); }
  constexpr bool integer_min() const { return has_min && halves_scaled(); }
  constexpr size_t block_cols() const { return 32 * sub_blocks; }
  constexpr size_t block_bytes() const { return header_bytes() + sub_blocks * sub_block_bytes(); }
};

// Of a quantized type.
constexpr PackedFormat packed_format(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return {.low_bits = 4, .offset = 8};
    case TensorType::kQ4_1:
      return {.low_bits = 4, .has_min = true};
    case TensorType::kQ5_0:
      return {.low_bits = 4, .high_bits = 1, .offset = 16};
    case TensorType::kQ5_1:
      return {.low_bits = 4, .high_bits = 1, .has_min = true};
    case TensorType::kQ8_0:
      return {.low_bits = 8, .offset = 128};
    case TensorType::kIQ4_NL:
      return {.low_bits = 4, .table = true};
    case TensorType::kQ2_K:
      return {.sub_blocks = 8, .low_bits = 2, .has_min = true, .scales = SubScales::kScaleMin16};
    case TensorType::kQ3_K:
      return {.sub_blocks = 8,
              .low_bits = 2,
              .high_bits = 1,
              .offset = 4,
              .scales = SubScales::kScale16};
    case TensorType::kQ4_K:
      return {.sub_blocks = 8, .low_bits = 4, .has_min = true, .scales = SubScales::kScaleMin32};
    case TensorType::kQ5_K:
      return {.sub_blocks = 8,
              .low_bits = 4,
              .high_bits = 1,
              .has_min = true,
              .scales = SubScales::kScaleMin32};
    case TensorType::kQ6_K:
      return {.sub_blocks = 8,
              .low_bits = 4,
              .high_bits = 2,
              .offset = 32,
              .scales = SubScales::kScale16};
    default:
      return {};
  }
}

}  // namespace hf2q
