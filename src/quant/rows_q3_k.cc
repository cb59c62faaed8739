#include "quant/rows_k.h"

namespace hf2q {
namespace {

constexpr size_t kSubs = 16;  // sub-blocks of 16 elements
constexpr int kHalf = 4;      // codes -4..3
constexpr int kHalfScale = 32;

void pack_scales(const uint8_t* scales, uint8_t* packed) {
  for (int j = 0; j < 8; ++j) {
    packed[j] = static_cast<uint8_t>((scales[j] & 15) | (scales[j + 8] & 15) << 4);
  }
  for (int j = 0; j < 4; ++j) {
    packed[8 + j] = static_cast<uint8_t>(scales[j] >> 4 | (scales[j + 4] >> 4) << 2 |
                                         (scales[j + 8] >> 4) << 4 | (scales[j + 12] >> 4) << 6);
  }
}

// The scale of sub-block j, -32..31.
int scale_of(const uint8_t* packed, size_t j) {
  const int low = (packed[j % 8] >> (j < 8 ? 0 : 4)) & 15;
  const int high = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
  return (low | high << 4) - kHalfScale;
}

// The step of 6-bit codes for a block's scales, and the codes.
float linear_codes(const float* scales, uint8_t* codes) {
  const float peak = peak_of(scales, kSubs);
  std::fill_n(codes, kSubs, uint8_t{0});
  if (peak == 0) return 0;
  const float inverse = -kHalfScale / peak;
  for (size_t j = 0; j < kSubs; ++j) {
    const int code = nearest_int(inverse * scales[j]);
    codes[j] = static_cast<uint8_t>(std::clamp(code, -kHalfScale, kHalfScale - 1) + kHalfScale);
  }
  return 1 / inverse;
}

void pack_codes(const uint8_t* codes, BlockQ3K& block) {
  pack_two_bits(codes, block.qs);
  for (int l = 0; l < 32; ++l) {
    int bits = 0;
    for (int k = 0; k < 8; ++k) bits |= (codes[32 * k + l] >> 2) << k;
    block.hmask[l] = static_cast<uint8_t>(bits);
  }
}

bool encode_batch(const QuantKernels& kernels, KBatch& batch, BlockQ3K* blocks) {
  float d[KBatch::kBlocks];
  uint8_t scale_codes[KBatch::kSubBlocks];
  const size_t subs = batch.count * kSubs;
  if (batch.importance != nullptr) {
    weigh(kernels, 2, 16, batch);
    kernels.symmetric(batch.x, batch.w, subs, 16, kHalf, batch.scale, batch.codes);
    kernels.symmetric(batch.scale, batch.weight, batch.count, kSubs, kHalfScale, d, scale_codes);
  } else {
    kernels.symmetric_refined(batch.x, subs, 16, kHalf, batch.scale, batch.codes);
    for (size_t b = 0; b < batch.count; ++b) {
      d[b] = linear_codes(batch.scale + b * kSubs, scale_codes + b * kSubs);
    }
  }
  bool valid = true;
  for (size_t b = 0; b < batch.count; ++b) {
    blocks[b].d = f32_to_f16(d[b]);
    valid &= is_finite_f16(blocks[b].d);
    pack_scales(scale_codes + b * kSubs, blocks[b].scales);
    for (size_t j = 0; j < kSubs; ++j) {
      const int scale = scale_codes[b * kSubs + j] - kHalfScale;
      batch.step[b * kSubs + j] = f16_to_f32(blocks[b].d) * static_cast<float>(scale);
    }
  }
  std::fill_n(batch.shift, subs, 0.0F);
  kernels.requantize(batch.x, subs, 16, batch.step, batch.shift, -kHalf, kHalf - 1, batch.codes);
  for (size_t b = 0; b < batch.count; ++b) pack_codes(batch.codes + b * kBlock256, blocks[b]);
  return valid;
}

bool encode(const QuantKernels& kernels, const float* row, size_t n, const float* importance,
            std::byte* dst) {
  return encode_k_row<BlockQ3K>(
      kernels, row, n, importance, dst,
      [&](KBatch& batch, BlockQ3K* blocks) { return encode_batch(kernels, batch, blocks); });
}

void decode(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<BlockQ3K>(src);
  for (size_t b = 0; b < n / kBlock256; ++b) {
    uint8_t codes[kBlock256];
    unpack_two_bits(blocks[b].qs, codes);
    for (int k = 0; k < 8; ++k) {
      for (int l = 0; l < 32; ++l) codes[32 * k + l] |= ((blocks[b].hmask[l] >> k) & 1) << 2;
    }
    const float d = f16_to_f32(blocks[b].d);
    for (size_t j = 0; j < kSubs; ++j, row += 16) {
      const float step = d * static_cast<float>(scale_of(blocks[b].scales, j));
      for (int l = 0; l < 16; ++l) row[l] = step * static_cast<float>(codes[16 * j + l] - kHalf);
    }
  }
}

constexpr RowFunctions kRows[] = {{TensorType::kQ3_K, encode, decode}};

}  // namespace

std::span<const RowFunctions> q3_k_rows() {
  return kRows;
}

}  // namespace hf2q
