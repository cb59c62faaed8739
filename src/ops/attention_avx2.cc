// AVX2 and FMA: a row is converted once and used by up to four queries; where that takes more than
// an instruction or two, by all queries.

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "ops/attention_rows_avx2.h"
#include "ops/attention_softmax.h"
#include "ops/attention_table.h"

namespace hf2q {
namespace {

struct F32Row {
  static constexpr KvFormat kFormat = KvFormat::kF32;
  static constexpr size_t kBytes = 4;
  static __m256 load(const std::byte* row, size_t i) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(row + 4 * i));
  }
};

struct F16Row {
  static constexpr KvFormat kFormat = KvFormat::kF16;
  static constexpr size_t kBytes = 2;
  static __m256 load(const std::byte* row, size_t i) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i)));
  }
};

struct Bf16Row {
  static constexpr KvFormat kFormat = KvFormat::kBF16;
  static constexpr size_t kBytes = 2;
  static __m256 load(const std::byte* row, size_t i) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
};

// The sum of 16 lanes: l + (l + 8), then 4, 2, 1.
float tree_sum(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <class Row, size_t kQueries>
void score_rows(const float* const* q, const KvRun& run, size_t head_dim, float* const* scores) {
  for (size_t j = 0; j < run.n; ++j) {
    const std::byte* row = run.codes + j * head_dim * Row::kBytes;
    __m256 low[kQueries];
    __m256 high[kQueries];
    for (size_t i = 0; i < kQueries; ++i) low[i] = high[i] = _mm256_setzero_ps();
    for (size_t d = 0; d < head_dim; d += kLanes) {
      const __m256 k_low = Row::load(row, d);
      const __m256 k_high = Row::load(row, d + 8);
      for (size_t i = 0; i < kQueries; ++i) {
        low[i] = _mm256_fmadd_ps(_mm256_loadu_ps(q[i] + d), k_low, low[i]);
        high[i] = _mm256_fmadd_ps(_mm256_loadu_ps(q[i] + d + 8), k_high, high[i]);
      }
    }
    for (size_t i = 0; i < kQueries; ++i) scores[i][j] = tree_sum(low[i], high[i]);
  }
}

// kVectors vectors of 8 values of each query's accumulator stay in registers over the whole run.
template <class Row, size_t kQueries, size_t kVectors>
void accumulate_strip(const float* const* p, const KvRun& run, size_t head_dim, size_t d,
                      float* const* acc) {
  __m256 sums[kQueries][kVectors];
  for (size_t i = 0; i < kQueries; ++i) {
    for (size_t v = 0; v < kVectors; ++v) sums[i][v] = _mm256_loadu_ps(acc[i] + d + 8 * v);
  }
  for (size_t j = 0; j < run.n; ++j) {
    const std::byte* row = run.codes + j * head_dim * Row::kBytes;
    __m256 value[kVectors];
    for (size_t v = 0; v < kVectors; ++v) value[v] = Row::load(row, d + 8 * v);
    for (size_t i = 0; i < kQueries; ++i) {
      const __m256 weight = _mm256_broadcast_ss(p[i] + j);
      for (size_t v = 0; v < kVectors; ++v) {
        sums[i][v] = _mm256_fmadd_ps(weight, value[v], sums[i][v]);
      }
    }
  }
  for (size_t i = 0; i < kQueries; ++i) {
    for (size_t v = 0; v < kVectors; ++v) _mm256_storeu_ps(acc[i] + d + 8 * v, sums[i][v]);
  }
}

template <class Row, size_t kQueries>
void accumulate_rows(const float* const* p, const KvRun& run, size_t head_dim, float* const* acc) {
  constexpr size_t kVectors = kQueries == 1 ? 8 : (kQueries == 2 ? 4 : 2);
  static_assert(kQueries * kVectors <= 8);
  size_t d = 0;
  for (; d + 8 * kVectors <= head_dim; d += 8 * kVectors) {
    accumulate_strip<Row, kQueries, kVectors>(p, run, head_dim, d, acc);
  }
  for (; d < head_dim; d += 8) accumulate_strip<Row, kQueries, 1>(p, run, head_dim, d, acc);
}

template <class Row>
void score(const float* const* q, size_t n_queries, const KvRun& run, size_t head_dim,
           float* const* scores) {
  size_t i = 0;
  for (; i + 4 <= n_queries; i += 4) score_rows<Row, 4>(q + i, run, head_dim, scores + i);
  for (; i + 2 <= n_queries; i += 2) score_rows<Row, 2>(q + i, run, head_dim, scores + i);
  if (i < n_queries) score_rows<Row, 1>(q + i, run, head_dim, scores + i);
}

template <class Row>
void accumulate(const float* const* p, size_t n_queries, const KvRun& run, size_t head_dim,
                float* const* acc) {
  size_t i = 0;
  for (; i + 4 <= n_queries; i += 4) accumulate_rows<Row, 4>(p + i, run, head_dim, acc + i);
  for (; i + 2 <= n_queries; i += 2) accumulate_rows<Row, 2>(p + i, run, head_dim, acc + i);
  if (i < n_queries) accumulate_rows<Row, 1>(p + i, run, head_dim, acc + i);
}

// Other formats: a tile of rows is decoded, then used by all queries.
constexpr size_t kTileRows = 8;

template <class Codec, class Use>
void for_tiles(const KvRun& run, size_t head_dim, const Use& use) {
  constexpr KvFormatInfo kInfo = kv_format_info(Codec::kFormat);
  alignas(32) float tile[kTileRows * kMaxHeadDim];
  static const Codec codec;  // its tables, made once
  for (size_t begin = 0; begin < run.n; begin += kTileRows) {
    const size_t n = std::min(kTileRows, run.n - begin);
    for (size_t j = 0; j < n; ++j) {
      codec.decode(run.codes + (begin + j) * kInfo.row_bytes(head_dim),
                   run.norms + (begin + j) * kInfo.norm_bytes(head_dim), head_dim,
                   tile + j * head_dim);
    }
    use(begin, KvRun{reinterpret_cast<const std::byte*>(tile), nullptr, n});
  }
}

template <class Codec>
void score_tiles(const float* const* q, size_t n_queries, const KvRun& run, size_t head_dim,
                 float* const* scores) {
  for_tiles<Codec>(run, head_dim, [&](size_t begin, const KvRun& tile) {
    std::array<float*, kMaxQueries> to = {};
    for (size_t i = 0; i < n_queries; ++i) to[i] = scores[i] + begin;
    score<F32Row>(q, n_queries, tile, head_dim, to.data());
  });
}

template <class Codec>
void accumulate_tiles(const float* const* p, size_t n_queries, const KvRun& run, size_t head_dim,
                      float* const* acc) {
  for_tiles<Codec>(run, head_dim, [&](size_t begin, const KvRun& tile) {
    std::array<const float*, kMaxQueries> from = {};
    for (size_t i = 0; i < n_queries; ++i) from[i] = p[i] + begin;
    accumulate<F32Row>(from.data(), n_queries, tile, head_dim, acc);
  });
}

template <class Row>
constexpr AttentionKernel kernel_for() {
  return {Row::kFormat, Isa::kAvx2, score<Row>, accumulate<Row>};
}

template <class Codec>
constexpr AttentionKernel tiled_kernel_for() {
  return {Codec::kFormat, Isa::kAvx2, score_tiles<Codec>, accumulate_tiles<Codec>};
}

constexpr AttentionKernel kKernels[] = {
    kernel_for<F32Row>(),
    kernel_for<F16Row>(),
    kernel_for<Bf16Row>(),
    tiled_kernel_for<Q8Row>(),
    tiled_kernel_for<Tq8Row>(),
    tiled_kernel_for<CodeRow<KvFormat::kTq6, 6>>(),
    tiled_kernel_for<CodeRow<KvFormat::kTq5, 5>>(),
    tiled_kernel_for<CodeRow<KvFormat::kTq4, 4>>(),
    tiled_kernel_for<CodeRow<KvFormat::kTq3, 3>>(),
    tiled_kernel_for<CodeRow<KvFormat::kTq2, 2>>(),
    tiled_kernel_for<PairRow<KvFormat::kTq3Half, 7>>(),
    tiled_kernel_for<PairRow<KvFormat::kTq2Half, 5>>(),
};
constexpr SoftmaxKernels kSoftmax = {softmax, merge};

}  // namespace

std::span<const AttentionKernel> attention_kernels_avx2() {
  return kKernels;
}
const SoftmaxKernels& softmax_kernels_avx2() {
  return kSoftmax;
}

}  // namespace hf2q
