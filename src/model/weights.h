#pragma once
// The weights of a Gemma 4 text decoder in the form that ops read.
//
// Every name and shape is checked here, once; after load_weights no op can meet a wrong one.
// Matrices are repacked (ops/packed_matrix.h) into one block of memory in huge pages, at most 1.05
// times the bytes of the file, and the file's pages are given back as they are read. Tables of
// which a pass reads single rows keep the layout of the file.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/huge_memory.h"
#include "base/result.h"
#include "gguf/reader.h"
#include "model/config.h"
#include "ops/exec.h"
#include "ops/packed_matrix.h"

namespace hf2q {

// A table of rows in file layout, read one row at a time.
struct RowTable {
  TensorType type = TensorType::kF32;
  size_t rows = 0;
  size_t cols = 0;
  const std::byte* data = nullptr;
};
void read_row(const RowTable& table, size_t row, float* dst);  // dst [cols]

struct MoeWeights {
  std::span<const float> router_scale;      // [hidden]
  std::span<const float> expert_scale;      // [n_experts]
  std::span<const float> pre_norm;          // [hidden], of the experts' input
  std::span<const float> dense_post_norm;   // [hidden], of the dense branch
  std::span<const float> expert_post_norm;  // [hidden], of the experts' sum
  PackedMatrix router;                      // [n_experts, hidden]
  PackedMatrix gate_up;  // the first of n_experts stacked [2 expert_ffn, hidden], gate rows first
  PackedMatrix down;     // the first of n_experts stacked [hidden, expert_ffn]
};

struct LayerWeights {
  std::span<const float> attn_norm;  // [hidden]
  std::span<const float> q_norm;     // [head_dim]
  std::span<const float> k_norm;     // [head_dim]; empty on layers without K and V of their own
  std::span<const float> post_attn_norm;  // [hidden]
  std::span<const float> ffn_norm;        // [hidden]
  std::span<const float> post_ffn_norm;   // [hidden]
  std::span<const float> output_scale;    // [1] or [hidden]; empty counts as 1
  PackedMatrix q;                         // [n_heads head_dim, hidden]
  PackedMatrix k;                         // [n_kv_heads head_dim, hidden], on owners
  PackedMatrix v;                         // the same; no rows: V is the raw K projection
  PackedMatrix o;                         // [hidden, n_heads head_dim]
  PackedMatrix gate;                      // [ffn_dim, hidden]
  PackedMatrix up;                        // [ffn_dim, hidden]
  PackedMatrix down;                      // [hidden, ffn_dim]
  MoeWeights moe;                         // where config.n_experts > 0
  PackedMatrix ple_gate;                  // [ple_dim, hidden], where config.ple_dim > 0
  PackedMatrix ple_proj;                  // [hidden, ple_dim]
  std::span<const float> ple_post_norm;   // [hidden]
};

class Weights {
 public:
  Config config;
  PackedMatrix head;                     // [vocab, hidden]; when tied also the embedding
  RowTable embedding;                    // [vocab, hidden]; no rows when tied
  std::span<const float> output_norm;    // [hidden]
  std::span<const float> rope_factors;   // [head_dim_full / 2]; empty without full layers
  RowTable ple_embedding;                // [vocab, n_layers ple_dim]
  PackedMatrix ple_model_proj;           // [n_layers ple_dim, hidden]
  std::span<const float> ple_proj_norm;  // [ple_dim]
  std::vector<LayerWeights> layers;
  uint64_t resident_bytes = 0;  // of the memory that was allocated for weights

  // The embedding of a token, unscaled, dst [hidden].
  void read_embedding(int32_t token, float* dst) const;

 private:
  friend class WeightLoader;
  HugeMemory memory_;
};

struct LoadOptions {
  bool mmap = false;  // row tables stay in the mapped file, which must outlive the weights
  std::function<void(uint64_t bytes_done, uint64_t bytes_total)> on_progress;
};

// Bytes that load_weights would allocate. Errors as load_weights.
Result<uint64_t> plan_weights(const GgufFile& file, const LoadOptions& options);

// kNotFound or kCorrupt naming the tensor, the expected and the found shape or rope factor;
// kUnsupported for a type without a kernel; kOutOfMemory with the bytes needed.
Result<Weights> load_weights(const GgufFile& file, const LoadOptions& options, Exec& exec);

}  // namespace hf2q
