#include <algorithm>
#include <cstring>
#include <type_traits>

#include "quant/blocks.h"
#include "quant/rows.h"

namespace hf2q {
namespace {

// Blocks that are encoded together: enough to fill the lanes, few enough to stay in the L1 cache.
constexpr size_t kBatch = 64;
constexpr size_t kBatchValues = kBatch * kBlock32;

// ---- packing ----

void pack_nibbles(const uint8_t* codes, uint8_t* qs) {
  for (int j = 0; j < 16; ++j) {
    qs[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] << 4));
  }
}

// Bit e of qh is bit 4 of codes[e].
void pack_fifth_bits(const uint8_t* codes, uint8_t* qh) {
  for (size_t j = 0; j < 4; ++j) {
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * j, sizeof eight);
    // The factor moves bit 0 of byte i to bit i of the top byte.
    qh[j] = static_cast<uint8_t>(((eight >> 4 & 0x0101010101010101) * 0x0102040810204080) >> 56);
  }
}

// The inverse: sets bit 4 of codes[e], which is 0, from bit e of qh.
void unpack_fifth_bits(const uint8_t* qh, uint8_t* codes) {
  for (size_t j = 0; j < 4; ++j) {
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * j, sizeof eight);
    // Byte i keeps bit i of qh[j]; adding 0x7F carries it, wherever it is, to bit 7.
    const uint64_t picked = uint64_t{qh[j]} * 0x0101010101010101 & 0x8040201008040201;
    eight |= (picked + 0x7F7F7F7F7F7F7F7F) >> 3 & 0x1010101010101010;
    std::memcpy(codes + 8 * j, &eight, sizeof eight);
  }
}

template <class Block>
constexpr bool kHasFifthBits = std::is_same_v<Block, BlockQ5_0> || std::is_same_v<Block, BlockQ5_1>;

template <class Block>
void pack_codes(const uint8_t* codes, Block& block) {
  pack_nibbles(codes, block.qs);
  if constexpr (kHasFifthBits<Block>) pack_fifth_bits(codes, block.qh);
}

template <class Block>
void unpack_codes(const Block& block, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = block.qs[j] & 15;
    codes[j + 16] = block.qs[j] >> 4;
  }
  if constexpr (kHasFifthBits<Block>) unpack_fifth_bits(block.qh, codes);
}

// ---- searches of a batch of blocks ----

struct Batch {
  const float* x;  // [count * 32]
  const float* w;  // [count * 32], or nullptr without importance
  size_t count;
  float scale[kBatch];
  float min[kBatch];  // the value of code 0
  uint8_t codes[kBatchValues];
};

// Calls search(batch) for the row's batches with their weights, then store(block, batch, index in
// the batch), which says whether the block is valid.
template <class Block, class Search, class Store>
bool encode_batches(const QuantKernels& kernels, const float* row, size_t n,
                    const float* importance, float sigma, std::byte* dst, Search search,
                    Store store) {
  if (!kernels.all_finite(row, n)) return false;
  auto* blocks = blocks_of<Block>(dst);
  float w[kBatchValues];
  Batch batch;
  bool valid = true;
  for (size_t begin = 0; begin < n; begin += kBatchValues) {
    const size_t values = std::min(n - begin, kBatchValues);
    batch.x = row + begin;
    batch.w = nullptr;
    batch.count = values / kBlock32;
    if (importance != nullptr) {
      kernels.weights(batch.x, importance + begin, sigma, values, w);
      batch.w = w;
    }
    search(batch);
    for (size_t b = 0; b < batch.count; ++b) valid &= store(*blocks++, batch, b);
  }
  return valid;
}

// The mean square of the whole row, the sigma of Q4_0, Q4_1, Q5_0 and Q5_1.
float mean_square(const float* row, size_t n) {
  float sum = 0;
  for (size_t i = 0; i < n; ++i) sum += row[i] * row[i];
  return sum / static_cast<float>(n);
}

// Q4_0 (kHalf = 8), Q5_0 (16). Plain: d = peak / -kHalf, codes by its unrounded inverse.
template <class Block, int kHalf>
bool encode_symmetric(const QuantKernels& kernels, const float* row, size_t n,
                      const float* importance, std::byte* dst) {
  const auto search = [&](Batch& batch) {
    if (batch.w != nullptr) {
      return kernels.symmetric(batch.x, batch.w, batch.count, kBlock32, kHalf, batch.scale,
                               batch.codes);
    }
    const float no_shift[kBatch] = {};
    float inverse[kBatch];
    kernels.peaks(batch.x, batch.count, batch.scale);
    for (size_t b = 0; b < batch.count; ++b) {
      batch.scale[b] /= -kHalf;
      inverse[b] = inverse_of(batch.scale[b]);
    }
    kernels.truncate(batch.x, batch.count, no_shift, inverse, kHalf + 0.5F, 2 * kHalf - 1,
                     batch.codes);
  };
  const auto store = [](Block& block, const Batch& batch, size_t b) {
    block.d = f32_to_f16(batch.scale[b]);
    pack_codes(batch.codes + b * kBlock32, block);
    return is_finite_f16(block.d);
  };
  const float sigma = importance != nullptr ? mean_square(row, n) : 0;
  return encode_batches<Block>(kernels, row, n, importance, sigma, dst, search, store);
}

// Q4_1 (kTop = 15), Q5_1 (31). Plain: d = (hi - lo) / kTop, codes by its unrounded inverse.
template <class Block, int kTop>
bool encode_affine(const QuantKernels& kernels, const float* row, size_t n, const float* importance,
                   std::byte* dst) {
  const auto search = [&](Batch& batch) {
    if (batch.w != nullptr) {
      kernels.affine(batch.x, batch.w, batch.count, kBlock32, {kTop, -0.9F, 0.05F, 36, false},
                     batch.scale, batch.min, batch.codes);
      for (size_t b = 0; b < batch.count; ++b) batch.min[b] = -batch.min[b];
      return;
    }
    float inverse[kBatch];
    kernels.ranges(batch.x, batch.count, batch.min, batch.scale);
    for (size_t b = 0; b < batch.count; ++b) {
      batch.scale[b] = (batch.scale[b] - batch.min[b]) / kTop;
      inverse[b] = inverse_of(batch.scale[b]);
    }
    kernels.truncate(batch.x, batch.count, batch.min, inverse, 0.5F, kTop, batch.codes);
  };
  const auto store = [](Block& block, const Batch& batch, size_t b) {
    block.d = f32_to_f16(batch.scale[b]);
    block.m = f32_to_f16(batch.min[b]);
    pack_codes(batch.codes + b * kBlock32, block);
    return is_finite_f16(block.d) && is_finite_f16(block.m);
  };
  const float sigma = importance != nullptr ? mean_square(row, n) : 0;
  return encode_batches<Block>(kernels, row, n, importance, sigma, dst, search, store);
}

bool encode_q8_0(const QuantKernels& kernels, const float* row, size_t n,
                 const float* /*importance*/, std::byte* dst) {
  const auto search = [&](Batch& batch) {
    float inverse[kBatch];
    kernels.peaks(batch.x, batch.count, batch.scale);
    for (size_t b = 0; b < batch.count; ++b) {
      batch.scale[b] = std::abs(batch.scale[b]) / 127;
      inverse[b] = inverse_of(batch.scale[b]);
    }
    kernels.round(batch.x, batch.count, inverse, reinterpret_cast<int8_t*>(batch.codes));
  };
  const auto store = [](BlockQ8_0& block, const Batch& batch, size_t b) {
    block.d = f32_to_f16(batch.scale[b]);
    std::memcpy(block.qs, batch.codes + b * kBlock32, sizeof block.qs);
    return is_finite_f16(block.d);
  };
  return encode_batches<BlockQ8_0>(kernels, row, n, nullptr, 0, dst, search, store);
}

// Weights importance * sqrt(sigma + x * x) with the mean square of half a block as each block's
// sigma.
void weigh_iq4_nl(const QuantKernels& kernels, const float* x, const float* importance,
                  size_t count, float* w) {
  float squares[kBatch];
  kernels.sums_of_squares(x, count, kBlock32, squares);
  for (size_t b = 0; b < count; ++b) {
    const size_t i = b * kBlock32;
    kernels.weights(x + i, importance + i, squares[b] * 0.0625F, kBlock32, w + i);
  }
}

bool encode_iq4_nl(const QuantKernels& kernels, const float* row, size_t n, const float* importance,
                   std::byte* dst) {
  float w[kBatchValues];
  const auto search = [&](Batch& batch) {
    if (importance != nullptr) {
      weigh_iq4_nl(kernels, batch.x, importance + (batch.x - row), batch.count, w);
      batch.w = w;
    }
    kernels.nonlinear(batch.x, batch.w, batch.count, batch.scale, batch.codes);
  };
  const auto store = [](BlockIq4Nl& block, const Batch& batch, size_t b) {
    block.d = f32_to_f16(batch.scale[b]);
    pack_codes(batch.codes + b * kBlock32, block);
    return is_finite_f16(block.d);
  };
  return encode_batches<BlockIq4Nl>(kernels, row, n, nullptr, 0, dst, search, store);
}

// ---- decoders ----

template <class Block, int kHalf>
void decode_symmetric(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<Block>(src);
  for (size_t b = 0; b < n / kBlock32; ++b, row += kBlock32) {
    uint8_t codes[kBlock32];
    unpack_codes(blocks[b], codes);
    const float d = f16_to_f32(blocks[b].d);
    for (int e = 0; e < kBlock32; ++e) row[e] = static_cast<float>(codes[e] - kHalf) * d;
  }
}

template <class Block>
void decode_affine(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<Block>(src);
  for (size_t b = 0; b < n / kBlock32; ++b, row += kBlock32) {
    uint8_t codes[kBlock32];
    unpack_codes(blocks[b], codes);
    const float d = f16_to_f32(blocks[b].d);
    const float m = f16_to_f32(blocks[b].m);
    for (int e = 0; e < kBlock32; ++e) row[e] = static_cast<float>(codes[e]) * d + m;
  }
}

void decode_q8_0(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<BlockQ8_0>(src);
  for (size_t b = 0; b < n / kBlock32; ++b, row += kBlock32) {
    const float d = f16_to_f32(blocks[b].d);
    for (int e = 0; e < kBlock32; ++e) row[e] = static_cast<float>(blocks[b].qs[e]) * d;
  }
}

void decode_iq4_nl(const std::byte* src, size_t n, float* row) {
  const auto* blocks = blocks_of<BlockIq4Nl>(src);
  for (size_t b = 0; b < n / kBlock32; ++b, row += kBlock32) {
    const float d = f16_to_f32(blocks[b].d);
    float values[16];
    for (int q = 0; q < 16; ++q) values[q] = d * static_cast<float>(kIq4NlValues[q]);
    for (int j = 0; j < 16; ++j) {
      row[j] = values[blocks[b].qs[j] & 15];
      row[j + 16] = values[blocks[b].qs[j] >> 4];
    }
  }
}

constexpr RowFunctions kRows[] = {
    {TensorType::kQ4_0, encode_symmetric<BlockQ4_0, 8>, decode_symmetric<BlockQ4_0, 8>},
    {TensorType::kQ4_1, encode_affine<BlockQ4_1, 15>, decode_affine<BlockQ4_1>},
    {TensorType::kQ5_0, encode_symmetric<BlockQ5_0, 16>, decode_symmetric<BlockQ5_0, 16>},
    {TensorType::kQ5_1, encode_affine<BlockQ5_1, 31>, decode_affine<BlockQ5_1>},
    {TensorType::kQ8_0, encode_q8_0, decode_q8_0},
    {TensorType::kIQ4_NL, encode_iq4_nl, decode_iq4_nl},
};

}  // namespace

std::span<const RowFunctions> rows_of_32() {
  return kRows;
}

}  // namespace hf2q
