#pragma once
// Rows of F32 values to rows of blocks and back, for every TensorType.
//
// Byte identity: encoders work in binary32 with one rounding per operation, no fused multiply-add,
// sums ascending, so that the same row gives the same bytes on every machine, with any number of
// threads. Layouts: blocks.h, arithmetic: kernels.h. Source: the GGUF block formats and the
// reference encoder of llama.cpp as it is built for plain x86-64 (builds that fuse multiply-adds
// differ from it in a few blocks); bench/quantize_peer compares the two.
//
// Importance: one weight per column of the row (mean square of the activations that meet the
// column, see Imatrix), or nullptr. Q8_0, F16, BF16 and F32 ignore it.

#include <cstddef>
#include <span>

#include "base/tensor_type.h"

namespace hf2q {

struct RowCodec {
  TensorType type;
  // row [n], importance [n] or nullptr -> dst [row_bytes(type, n)], aligned to 2 bytes, F32 to 4.
  // False when a value is, or a stored value or scale comes out as, NaN or infinity; dst is then
  // not to be used.
  bool (*encode)(const float* row, size_t n, const float* importance, std::byte* dst);
  // src [row_bytes(type, n)], aligned as dst -> row [n], multiply and add rounded separately.
  void (*decode)(const std::byte* src, size_t n, float* row);
};

// CHECKs nothing about n: a multiple of the type's block_elements.
const RowCodec& row_codec(TensorType type);
std::span<const RowCodec> row_codecs();

}  // namespace hf2q
