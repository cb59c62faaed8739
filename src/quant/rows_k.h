#pragma once
// What the encoders of the K family share: a row goes in batches of a few blocks of 256, each cut
// into 8 or 16 sub-blocks with their own scale.

#include <algorithm>

#include "quant/blocks.h"
#include "quant/nearest.h"
#include "quant/rows.h"

namespace hf2q {

struct KBatch {
  // Blocks that are searched together: as many as the usual lanes, so that the searches for a
  // block's own scale fill them too.
  static constexpr size_t kBlocks = 8;
  static constexpr size_t kValues = kBlocks * kBlock256;
  static constexpr size_t kSubBlocks = kBlocks * 16;

  const float* x;
  const float* importance;  // nullptr without
  size_t count;             // blocks
  float w[kValues];
  uint8_t codes[kValues];
  // Of sub-blocks:
  float scale[kSubBlocks];
  float min[kSubBlocks];
  float weight[kSubBlocks];  // sum of w
  float step[kSubBlocks];    // scale and min as stored
  float shift[kSubBlocks];
};

// encode_batch(batch, blocks) for the row's batches; whether all of them are valid.
template <class Block, class EncodeBatch>
bool encode_k_row(const QuantKernels& kernels, const float* row, size_t n, const float* importance,
                  std::byte* dst, EncodeBatch encode_batch) {
  if (!kernels.all_finite(row, n)) return false;
  KBatch batch;
  bool valid = true;
  for (size_t i = 0; i < n; i += KBatch::kValues) {
    batch.x = row + i;
    batch.importance = importance != nullptr ? importance + i : nullptr;
    batch.count = std::min(KBatch::kBlocks, (n - i) / kBlock256);
    valid &= encode_batch(batch, blocks_of<Block>(dst) + i / kBlock256);
  }
  return valid;
}

// w = importance * sqrt(sigma + x * x), sigma = factor * (mean square of the block), and the sums
// of w over sub-blocks of `size`.
inline void weigh(const QuantKernels& kernels, float factor, size_t size, KBatch& batch) {
  float squares[KBatch::kBlocks];
  kernels.sums_of_squares(batch.x, batch.count, kBlock256, squares);
  for (size_t b = 0; b < batch.count; ++b) {
    const size_t i = b * kBlock256;
    kernels.weights(batch.x + i, batch.importance + i, factor * squares[b] / kBlock256, kBlock256,
                    batch.w + i);
  }
  kernels.sums(batch.w, batch.count * (kBlock256 / size), size, batch.weight);
}

// The 2-bit plane of blocks.h from and to one code per byte.
inline void pack_two_bits(const uint8_t* codes, uint8_t* qs) {
  for (int c = 0; c < 2; ++c, codes += 128, qs += 32) {
    for (int l = 0; l < 32; ++l) {
      qs[l] = static_cast<uint8_t>((codes[l] & 3) | (codes[l + 32] & 3) << 2 |
                                   (codes[l + 64] & 3) << 4 | (codes[l + 96] & 3) << 6);
    }
  }
}
inline void unpack_two_bits(const uint8_t* qs, uint8_t* codes) {
  for (int c = 0; c < 2; ++c, codes += 128, qs += 32) {
    for (int s = 0; s < 4; ++s) {
      for (int l = 0; l < 32; ++l) codes[32 * s + l] = (qs[l] >> (2 * s)) & 3;
    }
  }
}

}  // namespace hf2q
