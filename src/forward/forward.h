#pragma once
// The forward pass: a Batch through all layers, K and V written to and read from the cache.
//
//   x = embedding(token) * sqrt(hidden), or a soft row as it is
//   each layer: x += post_norm(attention(norm(x)));  x += post_norm(feed_forward(norm(x)));
//               x += per-layer input;  x *= output scale
//   logits = cap * tanh(head(norm(x)) / cap)
// Source: the Gemma 4 text decoder. Every row's bits depend on that row, its sequence's cache and
// the weights alone (ops/matmul.h, ops/attention.h, ops/elementwise.h).

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "forward/batch.h"
#include "forward/workspace.h"
#include "kv/plan.h"
#include "model/weights.h"
#include "ops/exec.h"

namespace hf2q {

// Where the layers' K and V lie. Pages for all positions of the batch are there (reserved) and may
// be written.
struct CacheView {
  std::span<const KvGroup> groups;
  std::span<const KvPlace> places;           // [layer]; a layer that shares KV has its donor's
  std::span<std::byte* const* const> pages;  // [sequence, group]: page tables (KvRow::pages)
  // A second cache of the same layers, or none: it is written as well, and attention reads it.
  // Same groups in another format, same sequences.
  std::span<const KvGroup> exact_groups = {};
  std::span<std::byte* const* const> exact_pages = {};
};

// A named value inside the pass, for traces, importance matrices and profiles.
struct Point {
  std::string_view name;           // "attn_out", "matmul_input", ...
  int layer = -1;                  // -1: outside of the layers
  std::string_view weight;         // of a matmul_input: which weight meets it ("ffn_down")
  std::span<const uint32_t> rows;  // which batch rows; empty: all, in order
  int expert = -1;
  const float* data = nullptr;  // [n, cols]
  size_t n = 0;
  size_t cols = 0;
  const uint32_t* ids = nullptr;  // of router_weights: the experts, [n, cols], best first
};
using Observer = std::function<void(const Point&)>;

// A value that is NaN or infinite came up for K or V: the row's sequence cannot go on.
struct BadRow {
  size_t row = 0;
  uint32_t layer = 0;
};

// CHECKs that the batch fits the workspace, tokens, soft rows, additions and rotary axes are in
// range, and neighbouring rows of a sequence follow one another. The first bad row, if any; results
// of other sequences are good all the same.
std::optional<BadRow> forward(Exec& exec, const Weights& weights, const Batch& batch,
                              const CacheView& cache, Workspace& work,
                              const Observer* observer = nullptr);

}  // namespace hf2q
