#pragma once
// The rows that a token attends to as they are stored, with what another program needs to read
// them.
//
// Tensors of layer L, G KV heads, n positions, d values; rows begin at `first` of the description:
//   cache.L.k_codes, cache.L.v_codes   f32 f16 bf16: [G, n, d] of that type; q8_0: I8 [G, n, d];
//                                      tq*: U8 [G, n, bytes of a row]
//   cache.L.k_norms, cache.L.v_norms   q8_0: F16 [G, n, d / 32]; tq*: F32 [G, n, blocks]
//
// The description is JSON:
//   {"attention_scale": 1.0,
//    "layers": [{"layer", "owner" (the layer whose rows these are), "type": "sliding" or "full",
//                "window" (0: none), "heads", "kv_heads", "head_dim", "token", "first", "length",
//                "k": FORMAT, "v": FORMAT}, ...]}
//   FORMAT: {"format", "bits_per_value" (norms included),
//            "norm_block" (values that share a norm; 0: no norms)}, and of tq*:
//            "code_bits", "values_per_code", "levels" [codes, values],
//            "signs" (of the rotation, in hexadecimal)
// A value is its code times its block's norm, of tq* the code's level instead of the code; codes
// are a bit stream, least significant bit first. A tq* row x is D H y, y what was decoded: H the
// Walsh-Hadamard matrix / sqrt(d), D the signs (bit j, least significant first: -1 at value j).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "safetensors/safetensors.h"

namespace hf2q {

struct StoredTensor {
  std::string name;
  Dtype dtype;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
};

struct CacheRows {
  std::vector<StoredTensor> tensors;
  std::string description;  // the JSON
};

// What the layers' queries at position `token`, which the sequence holds, read. kInvalidArgument: a
// layer that is not there, or named twice.
Result<CacheRows> cache_rows(const Engine& engine, const Sequence& sequence,
                             std::span<const uint32_t> layers, uint32_t token);

}  // namespace hf2q
