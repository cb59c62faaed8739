#pragma once
// From the layers of a model to the groups of its cache: who owns rows, who reads whose, and how
// many bytes that is, before anything is allocated.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/page_layout.h"

namespace hf2q {

// What the cache needs to know about a layer.
struct KvLayerSpec {
  uint32_t window = 0;  // tokens that a query sees, itself included; 0: all
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  bool owns = true;  // false: it reads the rows of the last owning layer of its kind before it
};

// Layers that own rows and agree in window, KV heads and head size.
struct KvGroup {
  uint32_t window = 0;
  PageLayout layout;
};

// Where the rows are that a layer reads (and, if it owns them, writes).
struct KvPlace {
  uint32_t group = 0;
  uint32_t layer = 0;  // index inside the group's pages
};

struct KvFormats {
  KvFormat k = KvFormat::kF16;
  KvFormat v = KvFormat::kTq8;
  KvFormat k_window = KvFormat::kF16;  // of layers with a window
  KvFormat v_window = KvFormat::kTq8;
};

struct KvPlan {
  std::vector<KvGroup> groups;  // in the order of their first layers
  std::vector<KvPlace> places;  // [n_layers]
};

// Fails with kInvalidArgument, naming layer, field and value: a size of 0, a page of a length that
// is no power of two, a head size that a format cannot hold, a page beyond 2^40 bytes, a layer
// without a donor.
Result<KvPlan> plan_kv(std::span<const KvLayerSpec> layers, const KvFormats& formats,
                       uint32_t page_positions = 32);

// What a window keeps: after a commit, rows of positions below
//   length - (window - 1) - max_rollback
// can be reached by no query, not even after taking back max_rollback tokens. 0 without a window.
inline uint64_t first_needed(uint32_t window, uint64_t length, uint64_t max_rollback) {
  const uint64_t kept = uint64_t{window} - 1 + max_rollback;
  return window == 0 || length <= kept ? 0 : length - kept;
}

// Pages of a group that a sequence of `length` tokens holds at rest, and during a pass that adds
// `n_new` to it.
uint64_t pages_at_rest(const KvGroup& group, uint64_t length, uint64_t max_rollback);
uint64_t pages_in_pass(const KvGroup& group, uint64_t length, uint64_t n_new,
                       uint64_t max_rollback);

// Sum over the groups of pages_at_rest * page_bytes.
uint64_t bytes_at_rest(std::span<const KvGroup> groups, uint64_t length, uint64_t max_rollback);

}  // namespace hf2q
