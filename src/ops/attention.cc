#include "ops/attention.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "ops/attention_table.h"
#include "ops/kv_rows.h"
#include "ops/turboquant.h"

namespace hf2q {
namespace {

// Most that splits computed apart may take: beyond it they are computed one after another, with the
// same results.
constexpr size_t kMaxPartialFloats = size_t{16} << 20;
// Below this many pieces for each thread, splits are computed apart so that all threads have work.
constexpr size_t kPiecesPerThread = 4;
// Blocks of fewer queries read the cache too often.
constexpr size_t kFewQueries = 16;

struct Kernels {
  const AttentionKernel* k = nullptr;
  const AttentionKernel* v = nullptr;
  const SoftmaxKernels* softmax = nullptr;
};

const AttentionKernel* find(std::span<const AttentionKernel> table, KvFormat format) {
  const auto found = std::ranges::find(table, format, &AttentionKernel::format);
  return found == table.end() ? nullptr : &*found;
}

Kernels select(Isa isa, const PageLayout& layout) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) {
    const auto table = attention_kernels_avx512();
    return {find(table, layout.k_format), find(table, layout.v_format), &softmax_kernels_avx512()};
  }
  if (isa >= Isa::kAvx2) {
    const auto table = attention_kernels_avx2();
    return {find(table, layout.k_format), find(table, layout.v_format), &softmax_kernels_avx2()};
  }
#endif
  const auto table = attention_kernels_scalar();
  return {find(table, layout.k_format), find(table, layout.v_format), &softmax_kernels_scalar()};
}

// Query heads of one KV head that a block takes: the largest divisor of their number that fits.
uint32_t heads_per_block(uint32_t group) {
  uint32_t n = std::min<uint32_t>(group, kMaxQueries);
  while (group % n != 0) --n;
  return n;
}

// Floats of one thread: for each query of a block the scores of a split, two accumulators and the
// query itself.
size_t thread_floats(size_t head_dim) {
  return kMaxQueries * (kAttentionSplit + 3 * head_dim);
}

}  // namespace

AttentionScratch::AttentionScratch(size_t n_threads, uint32_t max_heads, uint32_t max_head_dim,
                                   uint32_t n_ctx) {
  per_thread_ = thread_floats(max_head_dim);
  partials_ = per_thread_ * n_threads;
  const size_t n_splits = (size_t{n_ctx} + kAttentionSplit - 1) / kAttentionSplit;
  const size_t rows = kPiecesPerThread * n_threads;
  const size_t apart = rows * max_heads * n_splits * (max_head_dim + 2);
  memory_.resize(partials_ + std::min(apart, kMaxPartialFloats));
}

// One call of attend().
class AttentionPass {
 public:
  AttentionPass(Exec& exec, const AttentionShape& shape, std::span<const KvRow> rows,
                const float* q, AttentionScratch& scratch, float* out)
      : exec_(exec),
        shape_(shape),
        rows_(rows),
        q_(q),
        scratch_(scratch),
        out_(out),
        kernels_(select(exec.isa(), shape.layout)),
        head_dim_(shape.layout.head_dim),
        group_(shape.n_heads / shape.layout.n_kv_heads) {
    CHECK(kernels_.k != nullptr && kernels_.v != nullptr);
    CHECK(shape.n_heads % shape.layout.n_kv_heads == 0 && head_dim_ % kHeadDimStep == 0);
    CHECK(head_dim_ <= kMaxHeadDim && kv_format_info(shape.layout.k_format).holds(head_dim_) &&
          kv_format_info(shape.layout.v_format).holds(head_dim_));
    CHECK(thread_floats(head_dim_) <= scratch.per_thread_);
  }

  void run();

 private:
  // Up to kMaxQueries query heads that read the same K and V: rows [first, first + n_rows) of one
  // sequence, heads [head, head + n_heads) of one KV head.
  struct Block {
    size_t first;
    size_t n_rows;
    uint32_t kv_head;
    uint32_t head;
    uint32_t n_heads;
  };
  // Query i of a block with the positions it sees in one split.
  struct Query {
    const float* q;
    uint32_t begin;
    uint32_t end;
    float* p;    // scores, then weights, of positions begin..end-1 of the split
    float* acc;  // [head_dim]
    float max;
    float sum;
  };
  struct Total {
    float max = -std::numeric_limits<float>::infinity();
    float sum = 0;
    float* acc = nullptr;
  };

  size_t rows_in_block(size_t first, uint32_t n_heads) const;
  void run_blocks();
  void run_splits_apart(size_t n_splits);
  void run_block(const Block& block, size_t thread);
  void run_split(const Block& block, uint32_t split, float* memory, std::span<Query> queries);
  void load_queries(const Block& block, float* memory, std::span<Query> queries) const;
  void make_queries(const Block& block, uint32_t split, float* memory,
                    std::span<Query> queries) const;
  void score(const Block& block, std::span<Query> queries);
  void accumulate(const Block& block, std::span<Query> queries);
  void accumulate_range(const Block& block, std::span<Query> queries, uint32_t begin, uint32_t end);
  KvRun run_at(const Block& block, uint32_t position, uint32_t end, bool keys) const;
  void merge(Total& total, const float* acc, float max, float sum) const;
  void write(const Total& total, float* out) const;
  size_t n_queries(const Block& block) const { return block.n_rows * block.n_heads; }

  Exec& exec_;
  const AttentionShape& shape_;
  std::span<const KvRow> rows_;
  const float* q_;
  AttentionScratch& scratch_;
  float* out_;
  Kernels kernels_;
  size_t head_dim_;
  uint32_t group_;
};

// The rows of `first`'s sequence that follow it directly and still fit a block.
size_t AttentionPass::rows_in_block(size_t first, uint32_t n_heads) const {
  const size_t most = std::max<size_t>(1, kMaxQueries / n_heads);
  size_t n = 1;
  while (n < most && first + n < rows_.size() && rows_[first + n].pages == rows_[first].pages) ++n;
  return n;
}

KvRun AttentionPass::run_at(const Block& block, uint32_t position, uint32_t end, bool keys) const {
  const PageLayout& layout = shape_.layout;
  const uint32_t t = layout.page_positions;
  const uint32_t in_page = position % t;
  const std::byte* page = rows_[block.first].pages[position / t];
  const size_t row = size_t{block.kv_head} * t + in_page;
  const size_t codes = keys ? layout.k_codes(shape_.layer) : layout.v_codes(shape_.layer);
  const size_t norms = keys ? layout.k_norms(shape_.layer) : layout.v_norms(shape_.layer);
  const size_t row_bytes = keys ? layout.k_row_bytes() : layout.v_row_bytes();
  const size_t norm_bytes = keys ? layout.k_norm_bytes() : layout.v_norm_bytes();
  return {page + codes + row * row_bytes, page + norms + row * norm_bytes,
          std::min(t - in_page, end - position)};
}

// The queries of a block, for all of its splits; rotated as K is.
void AttentionPass::load_queries(const Block& block, float* memory,
                                 std::span<Query> queries) const {
  const bool rotated = kv_format_info(shape_.layout.k_format).rotated;
  float* copies = memory + kMaxQueries * (kAttentionSplit + 2 * head_dim_);
  for (size_t i = 0; i < queries.size(); ++i) {
    const size_t r = block.first + i / block.n_heads;
    const size_t h = block.head + i % block.n_heads;
    queries[i].q = q_ + (r * shape_.n_heads + h) * head_dim_;
    if (!rotated) continue;
    float* copy = copies + i * head_dim_;
    std::copy_n(queries[i].q, head_dim_, copy);
    turboquant_rotate(copy, head_dim_);
    queries[i].q = copy;
  }
}

void AttentionPass::make_queries(const Block& block, uint32_t split, float* memory,
                                 std::span<Query> queries) const {
  const uint32_t first = split * kAttentionSplit;
  for (size_t i = 0; i < queries.size(); ++i) {
    const size_t r = block.first + i / block.n_heads;
    Query& query = queries[i];
    query.begin = std::max(rows_[r].begin, first);
    query.end = std::max(query.begin, std::min(rows_[r].end, first + kAttentionSplit));
    query.p = memory + i * kAttentionSplit;
    query.acc = memory + kMaxQueries * kAttentionSplit + i * head_dim_;
    std::fill_n(query.acc, head_dim_, 0.0F);
  }
}

// Scores of the positions that any query of the block sees; a query's own begin and end then pick
// its part. p[j - begin of the union] while scoring.
void AttentionPass::score(const Block& block, std::span<Query> queries) {
  uint32_t begin = std::numeric_limits<uint32_t>::max();
  uint32_t end = 0;
  for (const Query& query : queries) {
    if (query.begin == query.end) continue;
    begin = std::min(begin, query.begin);
    end = std::max(end, query.end);
  }
  std::array<const float*, kMaxQueries> q = {};
  std::array<float*, kMaxQueries> scores = {};
  for (size_t i = 0; i < queries.size(); ++i) q[i] = queries[i].q;
  for (uint32_t at = begin; at < end;) {
    const KvRun run = run_at(block, at, end, /*keys=*/true);
    for (size_t i = 0; i < queries.size(); ++i) scores[i] = queries[i].p + (at - begin);
    kernels_.k->score(q.data(), queries.size(), run, head_dim_, scores.data());
    at += static_cast<uint32_t>(run.n);
  }
  for (Query& query : queries) {
    if (query.begin == query.end) continue;
    query.p += query.begin - begin;
    kernels_.softmax->softmax(query.p, query.end - query.begin, query.begin, &query.max,
                              &query.sum);
  }
}

void AttentionPass::accumulate_range(const Block& block, std::span<Query> queries, uint32_t begin,
                                     uint32_t end) {
  std::array<const float*, kMaxQueries> p = {};
  std::array<float*, kMaxQueries> acc = {};
  for (size_t i = 0; i < queries.size(); ++i) acc[i] = queries[i].acc;
  for (uint32_t at = begin; at < end;) {
    const KvRun run = run_at(block, at, end, /*keys=*/false);
    for (size_t i = 0; i < queries.size(); ++i) p[i] = queries[i].p + (at - queries[i].begin);
    kernels_.v->accumulate(p.data(), queries.size(), run, head_dim_, acc.data());
    at += static_cast<uint32_t>(run.n);
  }
}

// What all queries see is read once for all; what lies before and behind it, for each query alone.
// Each query's positions ascend.
void AttentionPass::accumulate(const Block& block, std::span<Query> queries) {
  uint32_t begin = 0;
  uint32_t end = std::numeric_limits<uint32_t>::max();
  for (const Query& query : queries) {
    begin = std::max(begin, query.begin);
    end = std::min(end, query.end);
  }
  if (begin >= end) {
    for (Query& query : queries) accumulate_range(block, {&query, 1}, query.begin, query.end);
    return;
  }
  for (Query& query : queries) accumulate_range(block, {&query, 1}, query.begin, begin);
  accumulate_range(block, queries, begin, end);
  for (Query& query : queries) accumulate_range(block, {&query, 1}, end, query.end);
}

void AttentionPass::run_split(const Block& block, uint32_t split, float* memory,
                              std::span<Query> queries) {
  make_queries(block, split, memory, queries);
  score(block, queries);
  accumulate(block, queries);
}

void AttentionPass::merge(Total& total, const float* acc, float max, float sum) const {
  const float new_max = std::max(total.max, max);
  const float a = exp_of_difference(total.max, new_max);
  const float b = exp_of_difference(max, new_max);
  total.sum = total.sum * a + sum * b;
  kernels_.softmax->merge(total.acc, a, acc, b, head_dim_);
  total.max = new_max;
}

void AttentionPass::write(const Total& total, float* out) const {
  const float factor = total.sum > 0 ? 1.0F / total.sum : 0.0F;
  for (size_t d = 0; d < head_dim_; ++d) out[d] = total.acc[d] * factor;
  if (kv_format_info(shape_.layout.v_format).rotated) turboquant_unrotate(out, head_dim_);
}

void AttentionPass::run_block(const Block& block, size_t thread) {
  float* memory = scratch_.memory_.data() + thread * scratch_.per_thread_;
  std::array<Query, kMaxQueries> storage = {};
  std::array<Total, kMaxQueries> totals = {};
  const std::span<Query> queries = std::span(storage).first(n_queries(block));
  load_queries(block, memory, queries);
  float* total_memory = memory + kMaxQueries * (kAttentionSplit + head_dim_);
  for (size_t i = 0; i < queries.size(); ++i) {
    totals[i].acc = total_memory + i * head_dim_;
    std::fill_n(totals[i].acc, head_dim_, 0.0F);
  }
  uint32_t begin = std::numeric_limits<uint32_t>::max();
  uint32_t end = 0;
  for (size_t r = block.first; r < block.first + block.n_rows; ++r) {
    begin = std::min(begin, rows_[r].begin);
    end = std::max(end, rows_[r].end);
  }
  for (uint32_t split = begin / kAttentionSplit; split * kAttentionSplit < end; ++split) {
    run_split(block, split, memory, queries);
    for (size_t i = 0; i < queries.size(); ++i) {
      if (queries[i].begin == queries[i].end) continue;
      merge(totals[i], queries[i].acc, queries[i].max, queries[i].sum);
    }
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    const size_t r = block.first + i / block.n_heads;
    const size_t h = block.head + i % block.n_heads;
    write(totals[i], out_ + (r * shape_.n_heads + h) * head_dim_);
  }
}

// Many rows: a piece of work is a block with all its splits. Large blocks read the cache seldom;
// small ones leave no thread without work.
void AttentionPass::run_blocks() {
  const uint32_t n_heads = heads_per_block(group_);
  const size_t per_row = shape_.n_heads / n_heads;
  const size_t even = rows_.size() * per_row / (kPiecesPerThread * exec_.n_threads());
  const size_t least = std::max<size_t>(1, kFewQueries / n_heads);
  const size_t most = std::clamp(even, least, std::max(least, kMaxQueries / n_heads));
  const size_t n_row_blocks = (rows_.size() + most - 1) / most;
  exec_.parallel_for(n_row_blocks * per_row, 1, [&](size_t first, size_t last, size_t thread) {
    for (size_t item = first; item < last; ++item) {
      const size_t begin = item / per_row * most;
      const size_t end = std::min(begin + most, rows_.size());
      const auto head = static_cast<uint32_t>(item % per_row * n_heads);
      for (size_t r = begin; r < end;) {
        const size_t n = std::min(rows_in_block(r, n_heads), end - r);
        run_block({r, n, head / group_, head, n_heads}, thread);
        r += n;
      }
    }
  });
}

// Few rows over a long cache: a piece of work is one split of one row and KV head; the parts are
// merged afterwards.
void AttentionPass::run_splits_apart(size_t n_splits) {
  const uint32_t n_heads = heads_per_block(group_);
  const size_t per_row = shape_.n_heads / n_heads;
  const size_t part = head_dim_ + 2;
  float* parts = scratch_.memory_.data() + scratch_.partials_;
  exec_.parallel_for(
      rows_.size() * per_row * n_splits, 1, [&](size_t first, size_t last, size_t thread) {
        float* memory = scratch_.memory_.data() + thread * scratch_.per_thread_;
        std::array<Query, kMaxQueries> storage = {};
        for (size_t item = first; item < last; ++item) {
          const size_t r = item / (per_row * n_splits);
          const auto split = static_cast<uint32_t>(item % n_splits);
          const auto head = static_cast<uint32_t>(item / n_splits % per_row * n_heads);
          const std::span<Query> queries = std::span(storage).first(n_heads);
          const bool seen =
              split >= rows_[r].begin / kAttentionSplit && split * kAttentionSplit < rows_[r].end;
          if (!seen) continue;
          const Block block = {r, 1, head / group_, head, n_heads};
          load_queries(block, memory, queries);
          run_split(block, split, memory, queries);
          for (size_t i = 0; i < n_heads; ++i) {
            float* target = parts + ((r * shape_.n_heads + head + i) * n_splits + split) * part;
            target[0] = queries[i].max;
            target[1] = queries[i].sum;
            std::copy_n(queries[i].acc, head_dim_, target + 2);
          }
        }
      });
  exec_.parallel_for(
      rows_.size() * shape_.n_heads, 1, [&](size_t first, size_t last, size_t thread) {
        for (size_t item = first; item < last; ++item) {
          const KvRow& row = rows_[item / shape_.n_heads];
          Total total;
          total.acc = scratch_.memory_.data() + thread * scratch_.per_thread_;
          std::fill_n(total.acc, head_dim_, 0.0F);
          for (size_t s = row.begin / kAttentionSplit; s * kAttentionSplit < row.end; ++s) {
            const float* source = parts + (item * n_splits + s) * part;
            merge(total, source + 2, source[0], source[1]);
          }
          write(total, out_ + item * head_dim_);
        }
      });
}

void AttentionPass::run() {
  uint32_t end = 0;
  for (const KvRow& row : rows_) {
    CHECK(row.begin <= row.end);
    end = std::max(end, row.end);
  }
  const size_t n_splits = (size_t{end} + kAttentionSplit - 1) / kAttentionSplit;
  const size_t floats = rows_.size() * shape_.n_heads * n_splits * (head_dim_ + 2);
  const bool few = rows_.size() * shape_.layout.n_kv_heads < kPiecesPerThread * exec_.n_threads();
  if (few && n_splits > 1 && scratch_.partials_ + floats <= scratch_.memory_.size()) {
    run_splits_apart(n_splits);
  } else {
    run_blocks();
  }
}

void attend(Exec& exec, const AttentionShape& shape, std::span<const KvRow> rows, const float* q,
            AttentionScratch& scratch, float* out) {
  AttentionPass(exec, shape, rows, q, scratch, out).run();
}

}  // namespace hf2q
