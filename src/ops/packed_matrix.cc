#include "ops/packed_matrix.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "ops/packed_block.h"
#include "ops/packed_format.h"
#include "quant/blocks.h"

namespace hf2q {
namespace {

constexpr size_t kAlignment = 64;

// A block of one row with everything in bytes of its own.
struct PlainBlock {
  uint16_t d = 0;
  uint16_t dm = 0;
  uint8_t codes[256] = {};  // column order
  uint8_t scales[16] = {};  // of 16 columns each, or of 32 (the first eight)
  uint8_t mins[16] = {};
};

void read_nibbles(const uint8_t (&qs)[16], uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = qs[j] & 15;
    codes[j + 16] = qs[j] >> 4;
  }
}

// Bit e of qh becomes bit 4 of codes[e].
void add_fifth_bits(const uint8_t (&qh)[4], uint8_t* codes) {
  for (int e = 0; e < 32; ++e) codes[e] |= (qh[e / 8] >> (e % 8) & 1) << 4;
}

void read_k_nibbles(const uint8_t (&qs)[128], uint8_t* codes) {
  for (int e = 0; e < 256; ++e) codes[e] = qs[32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2)) & 15;
}

void read_two_bits(const uint8_t (&qs)[64], uint8_t* codes) {
  for (int e = 0; e < 256; ++e) codes[e] = qs[32 * (e / 128) + e % 32] >> (2 * (e / 32 % 4)) & 3;
}

void read_packed_scales(const uint8_t (&k)[12], PlainBlock& out) {
  for (int j = 0; j < 4; ++j) {
    out.scales[j] = k[j] & 63;
    out.mins[j] = k[j + 4] & 63;
    out.scales[j + 4] = static_cast<uint8_t>((k[j + 8] & 15) | (k[j] >> 6 << 4));
    out.mins[j + 4] = static_cast<uint8_t>((k[j + 8] >> 4) | (k[j + 4] >> 6 << 4));
  }
}

void read(const BlockQ4_0& block, PlainBlock& out) {
  out.d = block.d;
  read_nibbles(block.qs, out.codes);
}

void read(const BlockQ4_1& block, PlainBlock& out) {
  out.d = block.d;
  out.dm = block.m;
  read_nibbles(block.qs, out.codes);
}

void read(const BlockQ5_0& block, PlainBlock& out) {
  out.d = block.d;
  read_nibbles(block.qs, out.codes);
  add_fifth_bits(block.qh, out.codes);
}

void read(const BlockQ5_1& block, PlainBlock& out) {
  out.d = block.d;
  out.dm = block.m;
  read_nibbles(block.qs, out.codes);
  add_fifth_bits(block.qh, out.codes);
}

void read(const BlockQ8_0& block, PlainBlock& out) {
  out.d = block.d;
  for (int e = 0; e < 32; ++e) out.codes[e] = static_cast<uint8_t>(block.qs[e] + 128);
}

void read(const BlockIq4Nl& block, PlainBlock& out) {
  out.d = block.d;
  read_nibbles(block.qs, out.codes);
}

void read(const BlockQ2K& block, PlainBlock& out) {
  out.d = block.d;
  out.dm = block.dmin;
  read_two_bits(block.qs, out.codes);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = block.scales[j] & 15;
    out.mins[j] = block.scales[j] >> 4;
  }
}

void read(const BlockQ3K& block, PlainBlock& out) {
  out.d = block.d;
  read_two_bits(block.qs, out.codes);
  for (int e = 0; e < 256; ++e) out.codes[e] |= (block.hmask[e % 32] >> (e / 32) & 1) << 2;
  for (int j = 0; j < 16; ++j) {
    const int low = block.scales[j % 8] >> (j < 8 ? 0 : 4) & 15;
    const int high = block.scales[8 + j % 4] >> (2 * (j / 4)) & 3;
    out.scales[j] = static_cast<uint8_t>((low | high << 4) - 32);
  }
}

void read(const BlockQ4K& block, PlainBlock& out) {
  out.d = block.d;
  out.dm = block.dmin;
  read_k_nibbles(block.qs, out.codes);
  read_packed_scales(block.packed_scales, out);
}

void read(const BlockQ5K& block, PlainBlock& out) {
  out.d = block.d;
  out.dm = block.dmin;
  read_k_nibbles(block.qs, out.codes);
  for (int e = 0; e < 256; ++e) out.codes[e] |= (block.qh[e % 32] >> (e / 32) & 1) << 4;
  read_packed_scales(block.packed_scales, out);
}

void read(const BlockQ6K& block, PlainBlock& out) {
  out.d = block.d;
  for (int e = 0; e < 256; ++e) {
    const int c = e / 128;
    const int s = e % 128 / 32;
    const int l = e % 32;
    const int low = block.ql[64 * c + 32 * (s % 2) + l] >> (4 * (s / 2)) & 15;
    const int high = block.qh[32 * c + l] >> (2 * s) & 3;
    out.codes[e] = static_cast<uint8_t>(low | high << 4);
  }
  std::memcpy(out.scales, block.scales, sizeof block.scales);
}

// Calls f with a block struct for a quantized type, or with a number of the size of a float type.
template <class F>
void with_block(TensorType type, const F& f) {
  switch (type) {
    case TensorType::kF32:
      return f(uint32_t{});
    case TensorType::kF16:
    case TensorType::kBF16:
      return f(uint16_t{});
    case TensorType::kQ4_0:
      return f(BlockQ4_0{});
    case TensorType::kQ4_1:
      return f(BlockQ4_1{});
    case TensorType::kQ5_0:
      return f(BlockQ5_0{});
    case TensorType::kQ5_1:
      return f(BlockQ5_1{});
    case TensorType::kQ8_0:
      return f(BlockQ8_0{});
    case TensorType::kIQ4_NL:
      return f(BlockIq4Nl{});
    case TensorType::kQ2_K:
      return f(BlockQ2K{});
    case TensorType::kQ3_K:
      return f(BlockQ3K{});
    case TensorType::kQ4_K:
      return f(BlockQ4K{});
    case TensorType::kQ5_K:
      return f(BlockQ5K{});
    case TensorType::kQ6_K:
      return f(BlockQ6K{});
  }
  CHECK(false);
}

// Writes bits [shift, shift + bits) of 32 codes of a row as its part of a plane.
void write_plane(const uint8_t* codes, size_t shift, size_t bits, size_t row, uint8_t* plane) {
  const uint32_t mask = 0x01010101U * ((1U << bits) - 1);
  for (size_t v = 0; v < bits; ++v) {
    uint32_t word = 0;  // byte v of the four bit strings of this row
    for (size_t g = v * 8 / bits; g < (v + 1) * 8 / bits; ++g) {
      uint32_t four = 0;
      std::memcpy(&four, codes + 4 * g, sizeof four);
      word |= (four >> shift & mask) << (g * bits % 8);
    }
    std::memcpy(plane + 64 * v + 4 * row, &word, sizeof word);
  }
}

void write_scales(SubScales kind, const PlainBlock& block, size_t sub, size_t row, uint8_t* dst) {
  switch (kind) {
    case SubScales::kNone:
      return;
    case SubScales::kScaleMin32:
      dst[row] = block.scales[sub];
      dst[kTileRows + row] = block.mins[sub];
      return;
    case SubScales::kScale16:
      dst[row] = block.scales[2 * sub];
      dst[kTileRows + row] = block.scales[2 * sub + 1];
      return;
    case SubScales::kScaleMin16:
      for (size_t h = 0; h < 2; ++h) {
        const size_t j = 2 * sub + h;
        dst[kTileRows * h + row] = static_cast<uint8_t>(block.scales[j] | block.mins[j] << 4);
      }
      return;
  }
}

void write_block(const PackedFormat& format, const PlainBlock& block, size_t row, uint8_t* dst) {
  std::memcpy(dst + 2 * row, &block.d, sizeof block.d);
  if (format.has_min) std::memcpy(dst + 2 * (kTileRows + row), &block.dm, sizeof block.dm);
  dst += format.header_bytes();
  for (size_t sub = 0; sub < format.sub_blocks; ++sub) {
    const uint8_t* codes = block.codes + 32 * sub;
    write_scales(format.scales, block, sub, row, dst);
    uint8_t* low = dst + format.scale_bytes();
    write_plane(codes, 0, format.low_bits, row, low);
    write_plane(codes, format.low_bits, format.high_bits, row, low + 64 * format.low_bits);
    dst += format.sub_block_bytes();
  }
}

// One row of n_blocks blocks into its places in a tile.
template <class Block>
void pack_row(TensorType type, const std::byte* src, size_t n_blocks, size_t row, uint8_t* tile) {
  const PackedFormat format = packed_format(type);
  for (size_t b = 0; b < n_blocks; ++b) {
    Block block;
    std::memcpy(&block, src + b * sizeof block, sizeof block);
    if constexpr (std::is_integral_v<Block>) {
      std::memcpy(tile + (kTileRows * b + row) * sizeof block, &block, sizeof block);
    } else {
      PlainBlock plain;
      read(block, plain);
      write_block(format, plain, row, tile + b * format.block_bytes());
    }
  }
}

void unpack_floats(const PackedMatrix& w, const uint8_t* tile, size_t row, float* dst) {
  for (size_t c = 0; c < w.cols; ++c) {
    const size_t index = kTileRows * c + row;
    if (w.type == TensorType::kF32) {
      std::memcpy(dst + c, tile + index * sizeof(float), sizeof(float));
      continue;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, tile + index * sizeof bits, sizeof bits);
    dst[c] = w.type == TensorType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
}

// A block of one row: y = (d * scale) * weight [+ m, or - dmin * min], each step rounded.
void unpack_block(const PackedBlock& block, size_t row, float* dst) {
  const bool k_type = block.format.scales != SubScales::kNone;
  const float d = block.d(row);
  const float dm = block.format.has_min ? block.dm(row) : 0;
  for (size_t e = 0; e < block.format.block_cols(); ++e) {
    const size_t sub = e / 32;
    const size_t h = e / 16 % 2;
    const float scale = d * static_cast<float>(block.scale(sub, row, h));
    const float y = scale * static_cast<float>(block.weight(sub, row, e % 32));
    dst[e] = !block.format.has_min ? y
             : k_type              ? y - dm * static_cast<float>(block.min(sub, row, h))
                                   : y + dm;
  }
}

}  // namespace

size_t tile_bytes(TensorType type, size_t cols) {
  if (!is_quantized(type)) return kTileRows * row_bytes(type, cols);
  const PackedFormat format = packed_format(type);
  CHECK(cols % format.block_cols() == 0);
  return cols / format.block_cols() * format.block_bytes();
}

size_t packed_bytes(TensorType type, size_t rows, size_t cols) {
  const size_t n_tiles = (rows + kTileRows - 1) / kTileRows;
  return (n_tiles * tile_bytes(type, cols) + kAlignment - 1) / kAlignment * kAlignment;
}

PackedMatrix stacked_matrix(const PackedMatrix& first, size_t index) {
  PackedMatrix matrix = first;
  matrix.data += index * packed_bytes(first.type, first.rows, first.cols);
  return matrix;
}

void pack_rows(TensorType type, const std::byte* src, size_t first_row, size_t n_rows, size_t cols,
               std::byte* dst) {
  CHECK(first_row % kTileRows == 0);
  const size_t bytes = tile_bytes(type, cols);
  auto* tile = reinterpret_cast<uint8_t*>(dst) + first_row / kTileRows * bytes;
  with_block(type, [&]<class Block>(Block) {
    const size_t n_blocks = row_bytes(type, cols) / sizeof(Block);
    for (size_t first = 0; first < n_rows; first += kTileRows, tile += bytes) {
      const size_t n = std::min(kTileRows, n_rows - first);
      if (n < kTileRows) std::memset(tile, 0, bytes);
      for (size_t row = 0; row < n; ++row, src += n_blocks * sizeof(Block)) {
        pack_row<Block>(type, src, n_blocks, row, tile);
      }
    }
  });
}

void unpack_row(const PackedMatrix& w, size_t row, float* dst) {
  CHECK(row < w.rows);
  const auto* tile =
      reinterpret_cast<const uint8_t*>(w.data) + row / kTileRows * tile_bytes(w.type, w.cols);
  if (!is_quantized(w.type)) return unpack_floats(w, tile, row % kTileRows, dst);
  const PackedFormat format = packed_format(w.type);
  for (size_t c = 0; c < w.cols; c += format.block_cols(), tile += format.block_bytes()) {
    unpack_block({format, tile}, row % kTileRows, dst + c);
  }
}

}  // namespace hf2q
