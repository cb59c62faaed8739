#pragma once
// Attention of query rows over cached K and V in their stored form, and the writing of cache rows.
//
//   out[r][h] = sum over j in [begin_r, end_r) of softmax_j(q[r][h] . k[j][g]) v[j][g],
//   g = h / (n_heads / n_kv_heads); no further scale, no cap. No visible position: zeros.
//
// Batch invariance: the bits of out[r] depend on q[r], on the stored rows it reads and on its own
// begin and end, in this order, the same on every instruction set:
//   score(j)  16 lanes (d mod 16), acc = fma(q, k, acc) with d ascending, then a tree
//   positions are cut at multiples of kAttentionSplit; within a split, over its visible positions:
//     m = max score;  p(j) = exp(score(j) - m);  l = sum of p(j), 16 lanes (j mod 16), then a tree;
//     o[d] = fma(p(j), v[j][d], o[d]), j ascending
//   splits ascend into M, L, O (at first -inf, 0, 0):
//     M' = max(M, m);  a = exp(M - M');  b = exp(m - M');
//     L = L a + l b;  O[d] = fma(o[d], b, O[d] a);  M = M'
//   out = O (1 / L)
// Where K is rotated, q is rotated first (turboquant.h), so that q . k keeps its value; where V is,
// out is rotated back at last. k and v above are then the rotated rows, level times norm.
// Nothing depends on other rows, threads, or the size of a page.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/page_layout.h"
#include "ops/exec.h"

namespace hf2q {

constexpr uint32_t kAttentionSplit = 512;

struct AttentionShape {
  PageLayout layout;   // of the group whose K and V are read
  uint32_t layer = 0;  // within the group
  uint32_t n_heads = 0;
};

// Memory for attend(), made once for the largest batch.
class AttentionScratch {
 public:
  AttentionScratch(size_t n_threads, uint32_t max_heads, uint32_t max_head_dim, uint32_t n_ctx);
  size_t bytes() const { return memory_.size() * sizeof(float); }

 private:
  friend class AttentionPass;
  size_t per_thread_ = 0;  // floats
  size_t partials_ = 0;    // offset of the memory for splits that are computed apart
  std::vector<float> memory_;
};

// q, out [rows, n_heads, head_dim]. Rows of one sequence that follow one another share the reading
// of K and V. CHECKs the shape; begin <= end.
void attend(Exec& exec, const AttentionShape& shape, std::span<const KvRow> rows, const float* q,
            AttentionScratch& scratch, float* out);

// Encodes k, v [rows, n_kv_heads, head_dim] into the pages at each row's position. Values beyond a
// format's range saturate. The first row with a value that is NaN or infinite, or nothing; such a
// row's cache bytes are not to be used.
std::optional<size_t> store_kv(Exec& exec, const PageLayout& layout, uint32_t layer,
                               std::span<const KvRow> rows, const float* k, const float* v);

// Decodes one stored row, dst [head_dim]: for tests, traces and files.
void load_k(const PageLayout& layout, uint32_t layer, uint32_t head, const KvRow& row,
            uint32_t position, float* dst);
void load_v(const PageLayout& layout, uint32_t layer, uint32_t head, const KvRow& row,
            uint32_t position, float* dst);

}  // namespace hf2q
