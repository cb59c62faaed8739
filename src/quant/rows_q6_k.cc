#include <cstring>

#include "quant/rows_k.h"

namespace hf2q {
namespace {

constexpr size_t kSubs = 16;  // sub-blocks of 16 elements
constexpr int kHalf = 32;     // codes -32..31

void pack_codes(const uint8_t* codes, BlockQ6K& block) {
  uint8_t high[kBlock256];
  for (int e = 0; e < kBlock256; ++e) high[e] = codes[e] >> 4;
  pack_two_bits(high, block.qh);
  for (int c = 0; c < 2; ++c) {
    for (int l = 0; l < 64; ++l) {
      block.ql[64 * c + l] =
          static_cast<uint8_t>((codes[128 * c + l] & 15) | codes[128 * c + 64 + l] << 4);
    }
  }
}

void unpack_codes(const BlockQ6K& block, uint8_t* codes) {
  unpack_two_bits(block.qh, codes);
  for (int c = 0; c < 2; ++c) {
    for (int l = 0; l < 64; ++l) {
      uint8_t& low_half = codes[128 * c + l];
      uint8_t& high_half = codes[128 * c + 64 + l];
      low_half = static_cast<uint8_t>(low_half << 4 | (block.ql[64 * c + l] & 15));
      high_half = static_cast<uint8_t>(high_half << 4 | block.ql[64 * c + l] >> 4);
    }
  }
}

// Sets d and the scales of the block, and the steps of its sub-blocks. False for a block of zeros.
bool set_scales(const float* scale, BlockQ6K& block, float* step) {
  const float peak = peak_of(scale, kSubs);
  std::fill_n(step, kSubs, 0.0F);
  if (std::abs(peak) < 1e-15F) return false;
  const float inverse = -128 / peak;
  block.d = f32_to_f16(1 / inverse);
  for (size_t j = 0; j < kSubs; ++j) {
    block.scales[j] = static_cast<int8_t>(std::min(127, nearest_int(inverse * scale[j])));
    step[j] = f16_to_f32(block.d) * static_cast<float>(block.scales[j]);
  }
  return true;
}

bool encode_batch(const QuantKernels& kernels, KBatch& batch, BlockQ6K* blocks) {
  const size_t subs = batch.count * kSubs;
  kernels.symmetric(batch.x, batch.importance, subs, 16, kHalf, batch.scale, batch.codes);
  bool live[KBatch::kBlocks];
  for (size_t b = 0; b < batch.count; ++b) {
    live[b] = set_scales(batch.scale + b * kSubs, blocks[b], batch.step + b * kSubs);
  }
  std::fill_n(batch.shift, subs, 0.0F);
  kernels.requantize(batch.x, subs, 16, batch.step, batch.shift, -kHalf, kHalf - 1, batch.codes);
  bool valid = true;
  for (size_t b = 0; b < batch.count; ++b) {
    if (live[b]) {
      pack_codes(batch.codes + b * kBlock256, blocks[b]);
    } else {
      std::memset(&blocks[b], 0, sizeof blocks[b]);
    }
    valid &= is_finite_f16(blocks[b].d);
  }
  return valid;
}

bool encode(const QuantKernels& kernels, const float* row, size_t n, const float* importance,
            std::byte* dst) {
  return encode_k_row<BlockQ6K>(
      kernels, row, n, importance, dst,
      [&](KBatch& batch, BlockQ6K* blocks) { return encode_batch(kernels, batch, blocks); });
}

void decode(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<BlockQ6K>(src);
  for (size_t b = 0; b < n / kBlock256; ++b) {
    uint8_t codes[kBlock256];
    unpack_codes(blocks[b], codes);
    const float d = f16_to_f32(blocks[b].d);
    for (size_t j = 0; j < kSubs; ++j, row += 16) {
      const float step = d * static_cast<float>(blocks[b].scales[j]);
      for (int l = 0; l < 16; ++l) row[l] = step * static_cast<float>(codes[16 * j + l] - kHalf);
    }
  }
}

constexpr RowFunctions kRows[] = {{TensorType::kQ6_K, encode, decode}};

}  // namespace

std::span<const RowFunctions> q6_k_rows() {
  return kRows;
}

}  // namespace hf2q
