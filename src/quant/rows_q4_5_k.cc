#include <type_traits>

#include "quant/rows_k.h"

namespace hf2q {
namespace {

constexpr size_t kSubs = 8;  // sub-blocks of 32 elements
constexpr int kTopScale = 63;

template <class Block>
constexpr bool kIsQ5 = std::is_same_v<Block, BlockQ5K>;
template <class Block>
constexpr int kTop = kIsQ5<Block> ? 31 : 15;

// In eight bits: a code above 63, which only weighted Q4_K can have, spills into its neighbours.
void pack_scales(const uint8_t* sc, const uint8_t* mn, uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(sc[j] | (sc[j + 4] >> 4) << 6);
    packed[j + 4] = static_cast<uint8_t>(mn[j] | (mn[j + 4] >> 4) << 6);
    packed[j + 8] = static_cast<uint8_t>((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
  }
}

// step[j] = d * sc[j], shift[j] = dmin * mn[j], as a reader of the block sees them.
template <class Block>
void read_scales(const Block& block, float* step, float* shift) {
  const uint8_t* k = block.packed_scales;
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int j = 0; j < 4; ++j) {
    step[j] = d * static_cast<float>(k[j] & 63);
    shift[j] = dmin * static_cast<float>(k[j + 4] & 63);
    step[j + 4] = d * static_cast<float>((k[j + 8] & 15) | (k[j] >> 6) << 4);
    shift[j + 4] = dmin * static_cast<float>((k[j + 8] >> 4) | (k[j + 4] >> 6) << 4);
  }
}

template <class Block>
void pack_codes(const uint8_t* codes, Block& block) {
  for (int c = 0; c < 4; ++c) {
    for (int l = 0; l < 32; ++l) {
      block.qs[32 * c + l] =
          static_cast<uint8_t>((codes[64 * c + l] & 15) | codes[64 * c + 32 + l] << 4);
    }
  }
  if constexpr (kIsQ5<Block>) {
    for (int l = 0; l < 32; ++l) {
      int bits = 0;
      for (int k = 0; k < 8; ++k) bits |= (codes[32 * k + l] >> 4) << k;
      block.qh[l] = static_cast<uint8_t>(bits);
    }
  }
}

template <class Block>
void unpack_codes(const Block& block, uint8_t* codes) {
  for (int c = 0; c < 4; ++c) {
    for (int l = 0; l < 32; ++l) {
      codes[64 * c + l] = block.qs[32 * c + l] & 15;
      codes[64 * c + 32 + l] = block.qs[32 * c + l] >> 4;
    }
  }
  if constexpr (kIsQ5<Block>) {
    for (int k = 0; k < 8; ++k) {
      for (int l = 0; l < 32; ++l) codes[32 * k + l] |= ((block.qh[l] >> k) & 1) << 4;
    }
  }
}

// The step of 6-bit codes for non-negative values, and the codes.
float linear_codes(const float* values, uint8_t* codes) {
  float max = 0;
  for (size_t j = 0; j < kSubs; ++j) max = std::max(max, values[j]);
  const float inverse = max > 0 ? kTopScale / max : 0;
  for (size_t j = 0; j < kSubs; ++j) {
    const auto code = static_cast<uint8_t>(nearest_int(inverse * values[j]));
    codes[j] = std::min<uint8_t>(kTopScale, code);
  }
  return max / kTopScale;
}

struct Scales {
  float d[KBatch::kBlocks];
  float dmin[KBatch::kBlocks];
  uint8_t scale[KBatch::kBlocks * kSubs];
  uint8_t min[KBatch::kBlocks * kSubs];
};

template <class Block>
void search_plain(const QuantKernels& kernels, KBatch& batch, Scales& scales) {
  constexpr AffineSearch search = kIsQ5<Block> ? AffineSearch{31, -0.5F, 0.1F, 15, false}
                                               : AffineSearch{15, -1, 0.1F, 20, false};
  const size_t subs = batch.count * kSubs;
  float squares[KBatch::kSubBlocks];
  kernels.sums_of_squares(batch.x, subs, 32, squares);
  for (size_t s = 0; s < subs; ++s) {
    const float deviation = std::sqrt(squares[s] / 32);
    for (size_t i = 32 * s; i < 32 * (s + 1); ++i) batch.w[i] = deviation + std::abs(batch.x[i]);
  }
  kernels.affine(batch.x, batch.w, subs, 32, search, batch.scale, batch.min, batch.codes);
  for (size_t b = 0; b < batch.count; ++b) {
    scales.d[b] = linear_codes(batch.scale + b * kSubs, scales.scale + b * kSubs);
    scales.dmin[b] = linear_codes(batch.min + b * kSubs, scales.min + b * kSubs);
  }
}

template <class Block>
void search_weighted(const QuantKernels& kernels, KBatch& batch, Scales& scales) {
  weigh(kernels, 2, 32, batch);
  kernels.affine(batch.x, batch.w, batch.count * kSubs, 32, {kTop<Block>, -0.9F, 0.05F, 36, false},
                 batch.scale, batch.min, batch.codes);
  kernels.positive(batch.scale, batch.weight, batch.count, kSubs, kTopScale, scales.d,
                   scales.scale);
  kernels.positive(batch.min, batch.weight, batch.count, kSubs, kTopScale, scales.dmin, scales.min);
  if constexpr (kIsQ5<Block>) {
    for (size_t s = 0; s < batch.count * kSubs; ++s) {
      scales.scale[s] = std::min<uint8_t>(kTopScale, scales.scale[s]);
      scales.min[s] = std::min<uint8_t>(kTopScale, scales.min[s]);
    }
  }
}

template <class Block>
bool encode_batch(const QuantKernels& kernels, KBatch& batch, Block* blocks) {
  Scales scales;
  if (batch.importance != nullptr) {
    search_weighted<Block>(kernels, batch, scales);
  } else {
    search_plain<Block>(kernels, batch, scales);
  }
  bool valid = true;
  for (size_t b = 0; b < batch.count; ++b) {
    Block& block = blocks[b];
    block.d = f32_to_f16(scales.d[b]);
    block.dmin = f32_to_f16(scales.dmin[b]);
    valid &= is_finite_f16(block.d) && is_finite_f16(block.dmin);
    pack_scales(scales.scale + b * kSubs, scales.min + b * kSubs, block.packed_scales);
    read_scales(block, batch.step + b * kSubs, batch.shift + b * kSubs);
  }
  kernels.requantize(batch.x, batch.count * kSubs, 32, batch.step, batch.shift, 0, kTop<Block>,
                     batch.codes);
  for (size_t b = 0; b < batch.count; ++b) pack_codes(batch.codes + b * kBlock256, blocks[b]);
  return valid;
}

template <class Block>
bool encode(const QuantKernels& kernels, const float* row, size_t n, const float* importance,
            std::byte* dst) {
  return encode_k_row<Block>(kernels, row, n, importance, dst, [&](KBatch& batch, Block* blocks) {
    return encode_batch(kernels, batch, blocks);
  });
}

template <class Block>
void decode(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<Block>(src);
  for (size_t b = 0; b < n / kBlock256; ++b) {
    uint8_t codes[kBlock256];
    unpack_codes(blocks[b], codes);
    float step[kSubs];
    float shift[kSubs];
    read_scales(blocks[b], step, shift);
    for (size_t j = 0; j < kSubs; ++j, row += 32) {
      for (int l = 0; l < 32; ++l) {
        row[l] = step[j] * static_cast<float>(codes[32 * j + l]) - shift[j];
      }
    }
  }
}

constexpr RowFunctions kRows[] = {
    {TensorType::kQ4_K, encode<BlockQ4K>, decode<BlockQ4K>},
    {TensorType::kQ5_K, encode<BlockQ5K>, decode<BlockQ5K>},
};

}  // namespace

std::span<const RowFunctions> q4_5_k_rows() {
  return kRows;
}

}  // namespace hf2q
