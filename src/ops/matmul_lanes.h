#pragma once
// The loops of matmul_kernels.h, one for all instruction sets: which columns of a tile meet which
// rows of x.
//
// A file per instruction set defines a type Isa in an anonymous namespace and instantiates
// MatmulLanes<Isa>:
//   Floats                         a value of each of the 16 rows, in F32
//   zero() load(p) store(p, v)     p need not be aligned
//   Columns<type>                  32 columns of a tile, ready to be multiplied
//   read_header<type>(block, c)    what a block begins with
//   read_columns<type>(sub, c)     32 columns of it
//   multiply<type, n>(c, x, b, acc)       acc[i] += c times block b of x[i], i < n
//   add_products<type, n>(tile, k, x, acc)  acc[i] += column k times x[i][k], of F32, F16, BF16
//   kInRegisters                   most rows of x whose sums stay in registers
//   kAtOnce<type>, kFloatsAtOnce   rows of x that meet a column while it is in registers
// Nothing here may be shared with other files: everything depends on Isa.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/matmul.h"
#include "ops/packed_format.h"

namespace hf2q {
namespace {

template <class Isa>
struct MatmulLanes {
  using Floats = typename Isa::Floats;
  template <TensorType kType>
  using Columns = typename Isa::template Columns<kType>;
  template <size_t kN>
  using Count = std::integral_constant<size_t, kN>;

  template <TensorType kType>
  static void run(const MatmulTile& t) {
    if constexpr (packed_format(kType).low_bits == 0) {
      const auto* x = reinterpret_cast<const float* const*>(t.x);
      in_runs<Isa::kFloatsAtOnce>(t.n, 0, [&](auto count, size_t i) {
        float_rows<kType, count>(t, x + i, t.y + kTileRows * i);
      });
    } else {
      quantized<kType, Isa::kInRegisters>(t, reinterpret_cast<const ActivationBlock* const*>(t.x));
    }
  }

 private:
  // f(Count<size>, first) for runs of kN of the numbers i .. n - 1, then for shorter ones.
  template <size_t kN, class F>
  static void in_runs(size_t n, size_t i, const F& f) {
    for (; i + kN <= n; i += kN) f(Count<kN>{}, i);
    if constexpr (kN > 1) in_runs<(kN > 4 ? 4 : kN - 1)>(n, i, f);
  }

  // Asks for the bytes that are read some blocks later. The stream of a tile runs on into the next
  // one; past the end of a matrix a prefetch is ignored.
  static void prefetch(const uint8_t* bytes, size_t n) {
    constexpr size_t kAhead = 2048;
    for (size_t i = 0; i < n; i += 64) __builtin_prefetch(bytes + kAhead + i);
  }

  // f(columns, b) for each 32 columns, b = 0, 1, ...
  template <TensorType kType, class F>
  static void for_each_32(const MatmulTile& t, const F& f) {
    constexpr PackedFormat kFormat = packed_format(kType);
    const auto* block = reinterpret_cast<const uint8_t*>(t.tile);
    Columns<kType> w;
    for (size_t b = 0; b < t.cols / 32; block += kFormat.block_bytes()) {
      Isa::template read_header<kType>(block, w);
      const uint8_t* sub = block + kFormat.header_bytes();
      for (size_t s = 0; s < kFormat.sub_blocks; ++s, ++b, sub += kFormat.sub_block_bytes()) {
        prefetch(sub, kFormat.sub_block_bytes());
        Isa::template read_columns<kType>(sub, w);
        f(w, b);
      }
    }
  }

  template <TensorType kType, size_t kN>
  static void quantized(const MatmulTile& t, const ActivationBlock* const* x) {
    if (t.n == kN) return few_rows<kType, kN>(t, x);
    if constexpr (kN > 1) {
      quantized<kType, kN - 1>(t, x);
    } else {
      many_rows<kType>(t, x);
    }
  }

  template <TensorType kType, size_t kN>
  static void few_rows(const MatmulTile& t, const ActivationBlock* const* x) {
    Floats acc[kN];
    for (Floats& sums : acc) sums = Isa::zero();
    for_each_32<kType>(t, [&](const Columns<kType>& w, size_t b) {
      Isa::template multiply<kType, kN>(w, x, b, acc);
    });
    for (size_t i = 0; i < kN; ++i) Isa::store(t.y + kTileRows * i, acc[i]);
  }

  // The sums lie in memory while the next rows of x are multiplied.
  template <TensorType kType>
  static void many_rows(const MatmulTile& t, const ActivationBlock* const* x) {
    for (size_t i = 0; i < t.n; ++i) Isa::store(t.y + kTileRows * i, Isa::zero());
    for_each_32<kType>(t, [&](const Columns<kType>& w, size_t b) {
      in_runs<Isa::template kAtOnce<kType>>(t.n, 0, [&](auto count, size_t first) {
        Floats acc[count];
        float* y = t.y + kTileRows * first;
        for (size_t i = 0; i < count; ++i) acc[i] = Isa::load(y + kTileRows * i);
        Isa::template multiply<kType, count>(w, x + first, b, acc);
        for (size_t i = 0; i < count; ++i) Isa::store(y + kTileRows * i, acc[i]);
      });
    });
  }

  template <TensorType kType, size_t kN>
  static void float_rows(const MatmulTile& t, const float* const* x, float* y) {
    Floats acc[kN];
    for (Floats& sums : acc) sums = Isa::zero();
    for (size_t k = 0; k < t.cols; ++k) {
      Isa::template add_products<kType, kN>(t.tile, k, x, acc);
    }
    for (size_t i = 0; i < kN; ++i) Isa::store(y + kTileRows * i, acc[i]);
  }
};

}  // namespace
}  // namespace hf2q
