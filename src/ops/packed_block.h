#pragma once
// One value at a time out of a packed tile: what unpack_row and the scalar kernels are made of.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "ops/packed_format.h"
#include "ops/packed_matrix.h"
#include "quant/blocks.h"

namespace hf2q {

// A block of a tile, of a quantized type.
struct PackedBlock {
  const PackedFormat& format;
  const uint8_t* bytes;

  const uint8_t* sub_block(size_t sub) const {
    return bytes + format.header_bytes() + sub * format.sub_block_bytes();
  }
  float half(size_t index) const {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + 2 * index, sizeof bits);
    return f16_to_f32(bits);
  }
  float d(size_t row) const { return half(row); }
  float dm(size_t row) const { return half(kTileRows + row); }

  // Scale and min of the half h of 32 columns; 1 and 1 without scales.
  int scale(size_t sub, size_t row, size_t h) const {
    const uint8_t* scales = sub_block(sub);
    switch (format.scales) {
      case SubScales::kNone:
        return 1;
      case SubScales::kScaleMin32:
        return scales[row];
      case SubScales::kScale16:
        return static_cast<int8_t>(scales[kTileRows * h + row]);
      case SubScales::kScaleMin16:
        return scales[kTileRows * h + row] & 15;
    }
    return 1;
  }
  int min(size_t sub, size_t row, size_t h) const {
    const uint8_t* scales = sub_block(sub);
    switch (format.scales) {
      case SubScales::kScaleMin32:
        return scales[kTileRows + row];
      case SubScales::kScaleMin16:
        return scales[kTileRows * h + row] >> 4;
      default:
        return 1;
    }
  }

  // The integer weight of column k = 0..31, before scales: at most 8 bits and a sign.
  int weight(size_t sub, size_t row, size_t k) const {
    const uint8_t* low = sub_block(sub) + format.scale_bytes();
    const uint8_t* high = low + 64 * format.low_bits;
    const unsigned code = plane_code(low, format.low_bits, row, k) |
                          plane_code(high, format.high_bits, row, k) << format.low_bits;
    return format.table ? kIq4NlValues[code] : static_cast<int>(code) - format.offset;
  }

 private:
  static unsigned plane_code(const uint8_t* plane, size_t bits, size_t row, size_t k) {
    if (bits == 0) return 0;
    const size_t first_bit = k / 4 * bits;
    const unsigned byte = plane[first_bit / 8 * 64 + 4 * row + k % 4];
    return byte >> (first_bit % 8) & ((1U << bits) - 1);
  }
};

}  // namespace hf2q
