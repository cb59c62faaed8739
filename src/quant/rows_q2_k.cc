#include "quant/rows_k.h"

namespace hf2q {
namespace {

constexpr size_t kSubs = 16;  // sub-blocks of 16 elements
constexpr int kTopScale = 15;

// The step of 4-bit codes for non-negative values whose largest is max, and the codes.
float linear_codes(const float* values, uint8_t* codes) {
  float max = 0;
  for (size_t j = 0; j < kSubs; ++j) max = std::max(max, values[j]);
  std::fill_n(codes, kSubs, uint8_t{0});
  if (!(max > 0)) return 0;
  const float inverse = kTopScale / max;
  for (size_t j = 0; j < kSubs; ++j) {
    codes[j] = static_cast<uint8_t>(nearest_int(inverse * values[j]));
  }
  return max / kTopScale;
}

struct Scales {
  float d[KBatch::kBlocks];
  float dmin[KBatch::kBlocks];
  uint8_t scale[KBatch::kSubBlocks];
  uint8_t min[KBatch::kSubBlocks];
};

void search_plain(const QuantKernels& kernels, KBatch& batch, Scales& scales) {
  for (size_t i = 0; i < batch.count * kBlock256; ++i) batch.w[i] = std::abs(batch.x[i]);
  kernels.affine(batch.x, batch.w, batch.count * kSubs, 16, {3, -0.5F, 0.1F, 15, true}, batch.scale,
                 batch.min, batch.codes);
  for (size_t b = 0; b < batch.count; ++b) {
    scales.d[b] = linear_codes(batch.scale + b * kSubs, scales.scale + b * kSubs);
    scales.dmin[b] = linear_codes(batch.min + b * kSubs, scales.min + b * kSubs);
  }
}

void search_weighted(const QuantKernels& kernels, KBatch& batch, Scales& scales) {
  weigh(kernels, 1, 16, batch);
  kernels.affine(batch.x, batch.w, batch.count * kSubs, 16, {3, -0.9F, 0.05F, 36, false},
                 batch.scale, batch.min, batch.codes);
  kernels.positive(batch.scale, batch.weight, batch.count, kSubs, kTopScale, scales.d,
                   scales.scale);
  kernels.positive(batch.min, batch.weight, batch.count, kSubs, kTopScale, scales.dmin, scales.min);
}

bool encode_batch(const QuantKernels& kernels, KBatch& batch, BlockQ2K* blocks) {
  Scales scales;
  if (batch.importance != nullptr) {
    search_weighted(kernels, batch, scales);
  } else {
    search_plain(kernels, batch, scales);
  }
  bool valid = true;
  for (size_t b = 0; b < batch.count; ++b) {
    BlockQ2K& block = blocks[b];
    block.d = f32_to_f16(scales.d[b]);
    block.dmin = f32_to_f16(scales.dmin[b]);
    valid &= is_finite_f16(block.d) && is_finite_f16(block.dmin);
    const float d = f16_to_f32(block.d);
    const float dmin = f16_to_f32(block.dmin);
    for (size_t j = 0; j < kSubs; ++j) {
      const size_t s = b * kSubs + j;
      block.scales[j] = static_cast<uint8_t>(scales.scale[s] | scales.min[s] << 4);
      batch.step[s] = d * static_cast<float>(block.scales[j] & 15);
      batch.shift[s] = dmin * static_cast<float>(block.scales[j] >> 4);
    }
  }
  kernels.requantize(batch.x, batch.count * kSubs, 16, batch.step, batch.shift, 0, 3, batch.codes);
  for (size_t b = 0; b < batch.count; ++b) {
    pack_two_bits(batch.codes + b * kBlock256, blocks[b].qs);
  }
  return valid;
}

bool encode(const QuantKernels& kernels, const float* row, size_t n, const float* importance,
            std::byte* dst) {
  return encode_k_row<BlockQ2K>(
      kernels, row, n, importance, dst,
      [&](KBatch& batch, BlockQ2K* blocks) { return encode_batch(kernels, batch, blocks); });
}

void decode(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<BlockQ2K>(src);
  for (size_t b = 0; b < n / kBlock256; ++b) {
    uint8_t codes[kBlock256];
    unpack_two_bits(blocks[b].qs, codes);
    const float d = f16_to_f32(blocks[b].d);
    const float dmin = f16_to_f32(blocks[b].dmin);
    for (size_t j = 0; j < kSubs; ++j, row += 16) {
      const float step = d * static_cast<float>(blocks[b].scales[j] & 15);
      const float shift = dmin * static_cast<float>(blocks[b].scales[j] >> 4);
      for (int l = 0; l < 16; ++l) row[l] = step * static_cast<float>(codes[16 * j + l]) - shift;
    }
  }
}

constexpr RowFunctions kRows[] = {{TensorType::kQ2_K, encode, decode}};

}  // namespace

std::span<const RowFunctions> q2_k_rows() {
  return kRows;
}

}  // namespace hf2q
