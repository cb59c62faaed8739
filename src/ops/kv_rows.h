#pragma once
// Rows of F32 to cache rows and back, one function pair for each format; parts of attention.h.

#include <cstddef>

#include "kv/page_layout.h"
#include "ops/exp.h"

namespace hf2q {

struct KvRowCodec {
  KvFormat format;
  // False when a value is NaN or infinite; codes and norms are then not to be used.
  bool (*encode)(const float* row, size_t head_dim, std::byte* codes, std::byte* norms);
  // What attention computes with: of rotated formats the rotated row.
  void (*decode_rotated)(const std::byte* codes, const std::byte* norms, size_t head_dim,
                         float* row);
};

const KvRowCodec& kv_row_codec(KvFormat format);

// e^(x - max), 0 for x = -inf.
inline float exp_of_difference(float x, float max) {
  return x == max ? 1.0F : exp_f32(x - max);
}

}  // namespace hf2q
