// Kernels of 16 weight rows in two vectors of eight lanes.
//
// Quantized: u8 codes times s8 activations. maddubs adds pairs of products in i16; as many of
// those as cannot overflow are added before madd widens them to i32 and applies the sub-block
// scale. 8-bit codes are cut into two nibbles, so that they take the same way. The offset of the
// codes is taken off as offset * (sum of activations).
#include <immintrin.h>

#include "ops/matmul_kernels.h"
#include "ops/matmul_lanes.h"
#include "ops/packed_format.h"
#include "quant/blocks.h"

namespace hf2q {
namespace {

__m256i load(const void* p) {
  return _mm256_load_si256(static_cast<const __m256i*>(p));
}

__m256i broadcast4(const void* p) {
  return _mm256_castps_si256(_mm256_broadcast_ss(static_cast<const float*>(p)));
}

// Eight F16 as F32.
__m256 load_halves(const void* p) {
  return _mm256_cvtph_ps(_mm_load_si128(static_cast<const __m128i*>(p)));
}

// Eight pairs (low, high) of i16 out of eight u8 or i8 each.
template <bool kSigned>
__m256i pair16(const uint8_t* low, const uint8_t* high) {
  const __m128i bytes = _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(low)),
                                          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(high)));
  return kSigned ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

// What is constant for a type.
template <TensorType kType>
struct Traits {
  static constexpr PackedFormat kFormat = packed_format(kType);
  static constexpr bool kWide = kFormat.table || kFormat.low_bits == 8;  // codes of 8 bits
  static constexpr size_t kPlanes = kWide ? 2 : 1;
  static constexpr int kOffset = kFormat.code_offset();
  static constexpr bool kScale16 = kFormat.halves_scaled();
  // Four-column groups whose products fit in i16 together: 2 * groups * (2^bits - 1) * 127 < 2^15,
  // and not more than share a scale.
  static constexpr size_t kBits = kWide ? 4 : kFormat.low_bits + kFormat.high_bits;
  static constexpr size_t kChain = kBits == 6 ? 2 : (kBits == 5 || kScale16) ? 4 : 8;
  static_assert(2 * kChain * ((1 << kBits) - 1) * 127 < 32768);
  static constexpr size_t kSegments = 8 / kChain;
  static constexpr bool kFloatMin = kFormat.float_min();
  static constexpr bool kIntegerMin = kFormat.integer_min();
};

// 32 columns of a tile, ready to be multiplied. v = 0, 1: rows 0..7 and 8..15.
template <TensorType kType>
struct Unpacked {
  using T = Traits<kType>;
  __m256i codes[T::kPlanes][8][2];  // u8, [plane][four columns][v]
  __m256i scale[2][2];              // [half of the columns][v], i16 twice in a lane
  __m256i offset[2];                // i16 (-offset * scale of half 0, of half 1)
  __m256i min[2];                   // kIntegerMin: i16 (min of half 0, of half 1)
  __m256 float_min[2];              // kFloatMin: m, or -dmin * min
  __m256 d[2];
  __m256 dm[2];  // m, or -dmin
};

// The codes of a plane of kBits bits for four columns, moved to bit kPosition of their bytes.
template <size_t kBits, size_t kGroup, size_t kPosition>
__m256i plane_codes(const uint8_t* plane) {
  constexpr size_t kFirstBit = kGroup * kBits;
  const __m256i bytes = load(plane + kFirstBit / 8 * 64);
  // What a 16-bit shift brings in from the byte beside is masked off.
  constexpr int kRight = static_cast<int>(kFirstBit % 8) - static_cast<int>(kPosition);
  const __m256i shifted =
      kRight > 0 ? _mm256_srli_epi16(bytes, kRight) : _mm256_slli_epi16(bytes, -kRight);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(((1 << kBits) - 1) << kPosition));
}

// kIq4NlValues + 128, cut into low and high nibbles.
struct TableNibbles {
  alignas(16) uint8_t plane[2][16] = {};
  constexpr TableNibbles() {
    for (int i = 0; i < 16; ++i) {
      plane[0][i] = static_cast<uint8_t>((kIq4NlValues[i] + 128) & 15);
      plane[1][i] = static_cast<uint8_t>((kIq4NlValues[i] + 128) >> 4);
    }
  }
};
constexpr TableNibbles kTableNibbles;

// A table of 16 bytes, looked up by the nibbles of `codes`.
__m256i look_up(const uint8_t (&table)[16], __m256i codes) {
  const __m128i entries = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), codes);
}

template <TensorType kType, size_t kGroup>
void unpack_group(const uint8_t* low, size_t v, Unpacked<kType>& out) {
  using T = Traits<kType>;
  constexpr PackedFormat kFormat = T::kFormat;
  low += 32 * v;
  if constexpr (kFormat.low_bits == 8) {
    const __m256i bytes = load(low + 64 * kGroup);
    const __m256i nibble = _mm256_set1_epi8(15);
    out.codes[0][kGroup][v] = _mm256_and_si256(bytes, nibble);
    out.codes[1][kGroup][v] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
  } else {
    __m256i codes = plane_codes<kFormat.low_bits, kGroup, 0>(low);
    if constexpr (kFormat.high_bits != 0) {
      const uint8_t* high = low + 64 * kFormat.low_bits;
      codes =
          _mm256_or_si256(codes, plane_codes<kFormat.high_bits, kGroup, kFormat.low_bits>(high));
    }
    if constexpr (kFormat.table) {
      out.codes[0][kGroup][v] = look_up(kTableNibbles.plane[0], codes);
      out.codes[1][kGroup][v] = look_up(kTableNibbles.plane[1], codes);
    } else {
      out.codes[0][kGroup][v] = codes;
    }
  }
}

template <TensorType kType>
void unpack_scales(const uint8_t* scales, size_t v, Unpacked<kType>& out) {
  using T = Traits<kType>;
  if constexpr (T::kFormat.scales == SubScales::kScaleMin32) {
    const uint8_t* row = scales + 8 * v;
    out.scale[0][v] = out.scale[1][v] = pair16<false>(row, row);
    const __m256i min =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + kTileRows)));
    out.float_min[v] = _mm256_mul_ps(out.dm[v], _mm256_cvtepi32_ps(min));
  } else if constexpr (T::kScale16) {
    constexpr bool kSigned = T::kFormat.scales == SubScales::kScale16;
    __m256i pair = pair16<kSigned>(scales + 8 * v, scales + kTileRows + 8 * v);
    if constexpr (T::kIntegerMin) {
      out.min[v] = _mm256_srli_epi16(pair, 4);
      pair = _mm256_and_si256(pair, _mm256_set1_epi16(15));
    }
    const __m256i low = _mm256_blend_epi16(_mm256_slli_epi32(pair, 16), pair, 0x55);
    const __m256i high = _mm256_blend_epi16(pair, _mm256_srli_epi32(pair, 16), 0x55);
    out.scale[0][v] = low;
    out.scale[1][v] = high;
    out.offset[v] = _mm256_mullo_epi16(pair, _mm256_set1_epi16(-T::kOffset));
  }
}

// Segment `segment` of plane `plane`: kChain groups in i16, then scaled and added to sum.
template <TensorType kType, size_t kN>
void add_segment(const Unpacked<kType>& w, const ActivationBlock* const* x, size_t b, size_t plane,
                 size_t segment, __m256i (&sum)[kN][2]) {
  using T = Traits<kType>;
  __m256i sum16[kN][2];
  for (size_t j = 0; j < T::kChain; ++j) {
    const size_t group = segment * T::kChain + j;
    for (size_t i = 0; i < kN; ++i) {
      const __m256i four = broadcast4(x[i][b].q + 4 * group);
      for (size_t v = 0; v < 2; ++v) {
        const __m256i product = _mm256_maddubs_epi16(w.codes[plane][group][v], four);
        sum16[i][v] = j == 0 ? product : _mm256_add_epi16(sum16[i][v], product);
      }
    }
  }
  for (size_t i = 0; i < kN; ++i) {
    for (size_t v = 0; v < 2; ++v) {
      const __m256i scale = T::kFormat.scales == SubScales::kNone
                                ? _mm256_set1_epi16(plane == 0 ? 1 : 16)
                                : w.scale[segment * T::kChain / 4][v];
      sum[i][v] = _mm256_add_epi32(sum[i][v], _mm256_madd_epi16(sum16[i][v], scale));
    }
  }
}

template <TensorType kType>
__m256 load_weights(const std::byte* tile, size_t index) {
  if constexpr (kType == TensorType::kF32) {
    return _mm256_load_ps(reinterpret_cast<const float*>(tile) + index);
  } else {
    const auto* halves = reinterpret_cast<const uint16_t*>(tile) + index;
    if constexpr (kType == TensorType::kF16) return load_halves(halves);
    const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(halves));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
}

struct Avx2 {
  struct Floats {
    __m256 v[2];
  };
  template <TensorType kType>
  using Columns = Unpacked<kType>;
  static constexpr size_t kInRegisters = 2;
  template <TensorType kType>
  static constexpr size_t kAtOnce = 4;
  // Twelve sums, two vectors of weights and one of x fill the sixteen registers.
  static constexpr size_t kFloatsAtOnce = 6;

  static Floats zero() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
  static Floats load(const float* p) { return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}}; }
  static void store(float* p, const Floats& f) {
    _mm256_storeu_ps(p, f.v[0]);
    _mm256_storeu_ps(p + 8, f.v[1]);
  }

  template <TensorType kType>
  static void read_header(const uint8_t* block, Unpacked<kType>& out) {
    using T = Traits<kType>;
    for (size_t v = 0; v < 2; ++v) {
      out.d[v] = load_halves(block + 16 * v);
      if constexpr (T::kFormat.has_min) {
        out.dm[v] = load_halves(block + 32 + 16 * v);
        if constexpr (T::kFormat.scales == SubScales::kNone) {
          out.float_min[v] = out.dm[v];
        } else {
          out.dm[v] = _mm256_xor_ps(out.dm[v], _mm256_set1_ps(-0.0F));
        }
      }
      if constexpr (T::kFormat.scales == SubScales::kNone) {
        out.offset[v] = _mm256_set1_epi16(-T::kOffset);
      }
    }
  }

  template <TensorType kType>
  static void read_columns(const uint8_t* sub, Unpacked<kType>& out) {
    const uint8_t* low = sub + Traits<kType>::kFormat.scale_bytes();
    for (size_t v = 0; v < 2; ++v) {
      unpack_scales<kType>(sub, v, out);
      unpack_group<kType, 0>(low, v, out);
      unpack_group<kType, 1>(low, v, out);
      unpack_group<kType, 2>(low, v, out);
      unpack_group<kType, 3>(low, v, out);
      unpack_group<kType, 4>(low, v, out);
      unpack_group<kType, 5>(low, v, out);
      unpack_group<kType, 6>(low, v, out);
      unpack_group<kType, 7>(low, v, out);
    }
  }

  template <TensorType kType, size_t kN>
  static void multiply(const Unpacked<kType>& w, const ActivationBlock* const* x, size_t b,
                       Floats (&acc)[kN]) {
    using T = Traits<kType>;
    __m256i sum[kN][2];
    for (size_t i = 0; i < kN; ++i) {
      for (size_t v = 0; v < 2; ++v) {
        sum[i][v] = T::kOffset == 0 ? _mm256_setzero_si256()
                                    : _mm256_madd_epi16(w.offset[v], broadcast4(x[i][b].half_sums));
      }
    }
    for (size_t plane = 0; plane < T::kPlanes; ++plane) {
      for (size_t segment = 0; segment < T::kSegments; ++segment) {
        add_segment<kType, kN>(w, x, b, plane, segment, sum);
      }
    }
    for (size_t i = 0; i < kN; ++i) {
      const __m256 scale = _mm256_broadcast_ss(&x[i][b].scale);
      for (size_t v = 0; v < 2; ++v) {
        const __m256 isum = _mm256_cvtepi32_ps(sum[i][v]);
        acc[i].v[v] = _mm256_fmadd_ps(isum, _mm256_mul_ps(w.d[v], scale), acc[i].v[v]);
        if constexpr (T::kFloatMin) {
          const __m256 x_sum = _mm256_broadcast_ss(&x[i][b].sum);
          acc[i].v[v] = _mm256_fmadd_ps(w.float_min[v], x_sum, acc[i].v[v]);
        } else if constexpr (T::kIntegerMin) {
          const __m256i min_sum = _mm256_madd_epi16(w.min[v], broadcast4(x[i][b].half_sums));
          acc[i].v[v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(min_sum), _mm256_mul_ps(w.dm[v], scale),
                                        acc[i].v[v]);
        }
      }
    }
  }

  template <TensorType kType, size_t kN>
  static void add_products(const std::byte* tile, size_t k, const float* const* x,
                           Floats (&acc)[kN]) {
    const __m256 w[2] = {load_weights<kType>(tile, kTileRows * k),
                         load_weights<kType>(tile, kTileRows * k + 8)};
    for (size_t i = 0; i < kN; ++i) {
      const __m256 value = _mm256_broadcast_ss(x[i] + k);
      for (size_t v = 0; v < 2; ++v) acc[i].v[v] = _mm256_fmadd_ps(w[v], value, acc[i].v[v]);
    }
  }
};

}  // namespace

template <TensorType kType>
void matmul_avx2(const MatmulTile& t) {
  MatmulLanes<Avx2>::run<kType>(t);
}

#define HF2Q_INSTANTIATE(type) template void matmul_avx2<TensorType::type>(const MatmulTile&);
HF2Q_FOR_EACH_TENSOR_TYPE(HF2Q_INSTANTIATE)

}  // namespace hf2q
