#pragma once
// Scores and sums over rows in vector registers: one text for the instruction sets. A file of one
// set defines, in an anonymous namespace,
//   struct Isa   Lanes            16 floats, lane l those of d mod 16 = l
//                zero() load(p) store(p, v) broadcast(x)      p need not be aligned
//                fma(a, b, c)     a * b + c
//                kRows            rows of K that score() takes at a time
//                store_sums<n>(acc[n][kRows], scores, j)
//                                 scores[i][j + r] = the lanes of acc[i][r], as attention.h adds
//                                 them
//                kSums            accumulators that stay in registers
//   Row types    kFormat kBytes load(row, d), 16 values: formats that an instruction or two convert
//   Codec types  kFormat decode(codes, norms, head_dim, row), the others
// and takes its kernels from AttentionLanes<Isa>. A row is converted once and used by up to
// four queries; one that takes decoding is decoded into a tile, which all queries use.
// Nothing here may be shared with other files: everything depends on Isa.

#include <algorithm>
#include <array>

#include "ops/attention_table.h"

namespace hf2q {
namespace {

template <class Isa>
struct AttentionLanes {
  using Lanes = typename Isa::Lanes;

  static constexpr AttentionKernel f32_kernel() {
    return {KvFormat::kF32, Isa::kIsa, score<F32Row>, accumulate<F32Row>};
  }
  template <class Row>
  static constexpr AttentionKernel kernel_for() {
    return {Row::kFormat, Isa::kIsa, score_few_or_many<Row>, accumulate_few_or_many<Row>};
  }
  template <class Codec>
  static constexpr AttentionKernel tiled_kernel_for() {
    return {Codec::kFormat, Isa::kIsa, score_tiles<Codec>, accumulate_tiles<Codec>};
  }

 private:
  struct F32Row {
    static constexpr size_t kBytes = 4;
    static Lanes load(const std::byte* row, size_t i) {
      return Isa::load(reinterpret_cast<const float*>(row + 4 * i));
    }
  };

  static constexpr size_t kStep = 16;  // values of Lanes

  template <class Row, size_t kN, size_t kRows>
  static void score_rows(const float* const* q, const KvRun& run, size_t j, size_t head_dim,
                         float* const* scores) {
    const std::byte* row = run.codes + j * head_dim * Row::kBytes;
    Lanes acc[kN][kRows];
    for (auto& sums : acc) {
      for (Lanes& sum : sums) sum = Isa::zero();
    }
    for (size_t d = 0; d < head_dim; d += kStep) {
      Lanes k[kRows];
      for (size_t r = 0; r < kRows; ++r) k[r] = Row::load(row + r * head_dim * Row::kBytes, d);
      for (size_t i = 0; i < kN; ++i) {
        const Lanes values = Isa::load(q[i] + d);
        for (size_t r = 0; r < kRows; ++r) acc[i][r] = Isa::fma(values, k[r], acc[i][r]);
      }
    }
    Isa::template store_sums<kN, kRows>(acc, scores, j);
  }

  template <class Row, size_t kN>
  static void score_queries(const float* const* q, const KvRun& run, size_t head_dim,
                            float* const* scores) {
    size_t j = 0;
    if constexpr (Isa::kRows > 1) {
      for (; j + Isa::kRows <= run.n; j += Isa::kRows) {
        score_rows<Row, kN, Isa::kRows>(q, run, j, head_dim, scores);
      }
    }
    for (; j < run.n; ++j) score_rows<Row, kN, 1>(q, run, j, head_dim, scores);
  }

  template <class Row>
  static void score(const float* const* q, size_t n_queries, const KvRun& run, size_t head_dim,
                    float* const* scores) {
    size_t i = 0;
    for (; i + 4 <= n_queries; i += 4) score_queries<Row, 4>(q + i, run, head_dim, scores + i);
    for (; i + 2 <= n_queries; i += 2) score_queries<Row, 2>(q + i, run, head_dim, scores + i);
    if (i < n_queries) score_queries<Row, 1>(q + i, run, head_dim, scores + i);
  }

  // kVectors vectors of each query's accumulator stay in registers over the whole run.
  template <class Row, size_t kN, size_t kVectors>
  static void accumulate_strip(const float* const* p, const KvRun& run, size_t head_dim, size_t d,
                               float* const* acc) {
    Lanes sums[kN][kVectors];
    for (size_t i = 0; i < kN; ++i) {
      for (size_t v = 0; v < kVectors; ++v) sums[i][v] = Isa::load(acc[i] + d + kStep * v);
    }
    for (size_t j = 0; j < run.n; ++j) {
      const std::byte* row = run.codes + j * head_dim * Row::kBytes;
      Lanes value[kVectors];
      for (size_t v = 0; v < kVectors; ++v) value[v] = Row::load(row, d + kStep * v);
      for (size_t i = 0; i < kN; ++i) {
        const Lanes weight = Isa::broadcast(p[i][j]);
        for (size_t v = 0; v < kVectors; ++v) {
          sums[i][v] = Isa::fma(weight, value[v], sums[i][v]);
        }
      }
    }
    for (size_t i = 0; i < kN; ++i) {
      for (size_t v = 0; v < kVectors; ++v) Isa::store(acc[i] + d + kStep * v, sums[i][v]);
    }
  }

  template <class Row, size_t kN>
  static void accumulate_queries(const float* const* p, const KvRun& run, size_t head_dim,
                                 float* const* acc) {
    constexpr size_t kVectors = Isa::kSums / kN;
    size_t d = 0;
    for (; d + kStep * kVectors <= head_dim; d += kStep * kVectors) {
      accumulate_strip<Row, kN, kVectors>(p, run, head_dim, d, acc);
    }
    for (; d < head_dim; d += kStep) accumulate_strip<Row, kN, 1>(p, run, head_dim, d, acc);
  }

  template <class Row>
  static void accumulate(const float* const* p, size_t n_queries, const KvRun& run, size_t head_dim,
                         float* const* acc) {
    size_t i = 0;
    for (; i + 4 <= n_queries; i += 4) accumulate_queries<Row, 4>(p + i, run, head_dim, acc + i);
    for (; i + 2 <= n_queries; i += 2) accumulate_queries<Row, 2>(p + i, run, head_dim, acc + i);
    if (i < n_queries) accumulate_queries<Row, 1>(p + i, run, head_dim, acc + i);
  }

  static constexpr size_t kTileRows = 8;

  template <class Codec, class Use>
  static void for_tiles(const KvRun& run, size_t head_dim, const Use& use) {
    constexpr KvFormatInfo kInfo = kv_format_info(Codec::kFormat);
    alignas(64) float tile[kTileRows * kMaxHeadDim];
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
  static void score_tiles(const float* const* q, size_t n_queries, const KvRun& run,
                          size_t head_dim, float* const* scores) {
    for_tiles<Codec>(run, head_dim, [&](size_t begin, const KvRun& tile) {
      std::array<float*, kMaxQueries> to = {};
      for (size_t i = 0; i < n_queries; ++i) to[i] = scores[i] + begin;
      score<F32Row>(q, n_queries, tile, head_dim, to.data());
    });
  }

  template <class Codec>
  static void accumulate_tiles(const float* const* p, size_t n_queries, const KvRun& run,
                               size_t head_dim, float* const* acc) {
    for_tiles<Codec>(run, head_dim, [&](size_t begin, const KvRun& tile) {
      std::array<const float*, kMaxQueries> from = {};
      for (size_t i = 0; i < n_queries; ++i) from[i] = p[i] + begin;
      accumulate<F32Row>(from.data(), n_queries, tile, head_dim, acc);
    });
  }

  // What four queries convert is converted again for the next four: many take a tile.
  static constexpr size_t kDirectQueries = 4;

  template <class Row>
  struct Converter {
    static constexpr KvFormat kFormat = Row::kFormat;
    void decode(const std::byte* codes, const std::byte* /*norms*/, size_t head_dim,
                float* row) const {
      for (size_t d = 0; d < head_dim; d += kStep) Isa::store(row + d, Row::load(codes, d));
    }
  };

  template <class Row>
  static void score_few_or_many(const float* const* q, size_t n_queries, const KvRun& run,
                                size_t head_dim, float* const* scores) {
    if (n_queries <= kDirectQueries) return score<Row>(q, n_queries, run, head_dim, scores);
    score_tiles<Converter<Row>>(q, n_queries, run, head_dim, scores);
  }
  template <class Row>
  static void accumulate_few_or_many(const float* const* p, size_t n_queries, const KvRun& run,
                                     size_t head_dim, float* const* acc) {
    if (n_queries <= kDirectQueries) return accumulate<Row>(p, n_queries, run, head_dim, acc);
    accumulate_tiles<Converter<Row>>(p, n_queries, run, head_dim, acc);
  }
};

}  // namespace
}  // namespace hf2q
