// Kernels of 16 weight rows in one vector.
//
// Quantized: u8 codes times s8 activations, four columns of all rows in one VNNI instruction with
// the activations broadcast from memory. The offset of the codes is taken off as
// offset * (sum of activations).
#include <immintrin.h>

#include "ops/matmul_kernels.h"
#include "ops/matmul_lanes.h"
#include "ops/packed_format.h"
#include "quant/blocks.h"

namespace hf2q {
namespace {

// The zero-masking forms with every lane on: g++ 12 takes the plain ones of its own header for
// uses of an uninitialised variable.
constexpr __mmask16 kAll = 0xFFFF;

__m512i load(const void* p) {
  return _mm512_loadu_si512(p);  // headers of 32 bytes leave planes off the line
}

__m512i broadcast4(const void* p) {
  int word = 0;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}

// Sixteen F16 as F32.
__m512 load_halves(const void* p) {
  return _mm512_maskz_cvtph_ps(kAll, _mm256_load_si256(static_cast<const __m256i*>(p)));
}

__m128i load_bytes(const uint8_t* p) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(p));
}

__m512 to_float(__m512i v) {
  return _mm512_maskz_cvtepi32_ps(kAll, v);
}

// 32 columns of a tile, ready to be multiplied.
template <TensorType kType>
struct Unpacked {
  __m512i codes[8];  // u8, [four columns]
  __m512 scale[2];   // of a half of the columns, or of all in [0]
  __m512i min;       // i16 (min of half 0, of half 1)
  __m512 float_min;  // m, or -dmin * min
  __m512 d;
  __m512 dm;  // m, or -dmin
};

// The codes of a plane of kBits bits for four columns, moved to bit kPosition of their bytes.
template <size_t kBits, size_t kGroup, size_t kPosition>
__m512i plane_codes(const uint8_t* plane) {
  constexpr size_t kFirstBit = kGroup * kBits;
  const __m512i bytes = load(plane + kFirstBit / 8 * 64);
  // What a 16-bit shift brings in from the byte beside is masked off.
  constexpr int kRight = static_cast<int>(kFirstBit % 8) - static_cast<int>(kPosition);
  const __m512i shifted =
      kRight > 0 ? _mm512_srli_epi16(bytes, kRight) : _mm512_slli_epi16(bytes, -kRight);
  constexpr char kMask = static_cast<char>(((1U << kBits) - 1) << kPosition);
  return _mm512_and_si512(shifted, _mm512_set1_epi8(kMask));
}

// kIq4NlValues + 128.
struct TableBytes {
  alignas(16) uint8_t bytes[16] = {};
  constexpr TableBytes() {
    for (int i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(kIq4NlValues[i] + 128);
  }
};
constexpr TableBytes kTable;

template <TensorType kType, size_t kGroup>
__m512i group_codes(const uint8_t* low) {
  constexpr PackedFormat kFormat = packed_format(kType);
  if constexpr (kFormat.low_bits == 8) return load(low + 64 * kGroup);
  __m512i codes = plane_codes<kFormat.low_bits, kGroup, 0>(low);
  if constexpr (kFormat.high_bits != 0) {
    const uint8_t* high = low + 64 * kFormat.low_bits;
    codes = _mm512_or_si512(codes, plane_codes<kFormat.high_bits, kGroup, kFormat.low_bits>(high));
  }
  if constexpr (kFormat.table) {
    const __m512i table = _mm512_maskz_broadcast_i32x4(kAll, load_bytes(kTable.bytes));
    codes = _mm512_shuffle_epi8(table, codes);
  }
  return codes;
}

template <TensorType kType>
void unpack_scales(const uint8_t* scales, Unpacked<kType>& out) {
  constexpr PackedFormat kFormat = packed_format(kType);
  const __m128i first = load_bytes(scales);
  const __m128i second = load_bytes(scales + kTileRows);
  if constexpr (kFormat.scales == SubScales::kScaleMin32) {
    out.scale[0] = to_float(_mm512_maskz_cvtepu8_epi32(kAll, first));
    out.float_min = _mm512_mul_ps(out.dm, to_float(_mm512_maskz_cvtepu8_epi32(kAll, second)));
  } else if constexpr (kFormat.scales == SubScales::kScale16) {
    out.scale[0] = to_float(_mm512_maskz_cvtepi8_epi32(kAll, first));
    out.scale[1] = to_float(_mm512_maskz_cvtepi8_epi32(kAll, second));
  } else if constexpr (kFormat.scales == SubScales::kScaleMin16) {
    const __m512i both[2] = {_mm512_maskz_cvtepu8_epi32(kAll, first),
                             _mm512_maskz_cvtepu8_epi32(kAll, second)};
    for (size_t h = 0; h < 2; ++h) {
      out.scale[h] = to_float(_mm512_and_si512(both[h], _mm512_set1_epi32(15)));
    }
    out.min = _mm512_or_si512(
        _mm512_maskz_srli_epi32(kAll, both[0], 4),
        _mm512_maskz_slli_epi32(kAll, _mm512_maskz_srli_epi32(kAll, both[1], 4), 16));
  }
}

// sum[i][h] = the half h of the columns times x[i], or all of them in [0], without scales.
template <TensorType kType, size_t kN>
void multiply_codes(const Unpacked<kType>& w, const ActivationBlock* const* x, size_t b,
                    __m512i (&sum)[kN][2]) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr bool kHalves = kFormat.halves_scaled();
  constexpr int kOffset = -kFormat.code_offset() & 0xFFFF;
  for (size_t i = 0; i < kN; ++i) {
    sum[i][0] = sum[i][1] = _mm512_setzero_si512();
    if constexpr (kOffset != 0) {
      const __m512i sums = broadcast4(x[i][b].half_sums);
      const int first = kHalves ? kOffset : kOffset << 16 | kOffset;
      sum[i][0] = _mm512_dpwssd_epi32(sum[i][0], sums, _mm512_set1_epi32(first));
      if constexpr (kHalves) {
        sum[i][1] = _mm512_dpwssd_epi32(sum[i][1], sums, _mm512_set1_epi32(kOffset << 16));
      }
    }
  }
  for (size_t group = 0; group < 8; ++group) {
    for (size_t i = 0; i < kN; ++i) {
      __m512i& part = sum[i][kHalves ? group / 4 : 0];
      part = _mm512_dpbusd_epi32(part, w.codes[group], broadcast4(x[i][b].q + 4 * group));
    }
  }
}

template <TensorType kType>
__m512 load_weights(const std::byte* tile, size_t index) {
  if constexpr (kType == TensorType::kF32) {
    return _mm512_load_ps(reinterpret_cast<const float*>(tile) + index);
  } else {
    const auto* halves = reinterpret_cast<const uint16_t*>(tile) + index;
    if constexpr (kType == TensorType::kF16) return load_halves(halves);
    const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(halves));
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, bits);
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
  }
}

struct Avx512 {
  using Floats = __m512;
  template <TensorType kType>
  using Columns = Unpacked<kType>;
  static constexpr size_t kInRegisters = 4;
  // As many sums as hide the latency of a product.
  template <TensorType kType>
  static constexpr size_t kAtOnce = packed_format(kType).halves_scaled() ? 4 : 8;
  static constexpr size_t kFloatsAtOnce = 12;

  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }

  template <TensorType kType>
  static void read_header(const uint8_t* block, Unpacked<kType>& out) {
    constexpr PackedFormat kFormat = packed_format(kType);
    out.d = load_halves(block);
    if constexpr (kFormat.has_min) {
      out.dm = load_halves(block + 32);
      if constexpr (kFormat.scales == SubScales::kNone) {
        out.float_min = out.dm;
      } else {
        out.dm = _mm512_sub_ps(_mm512_set1_ps(-0.0F), out.dm);
      }
    }
  }

  template <TensorType kType>
  static void read_columns(const uint8_t* sub, Unpacked<kType>& out) {
    const uint8_t* low = sub + packed_format(kType).scale_bytes();
    unpack_scales<kType>(sub, out);
    out.codes[0] = group_codes<kType, 0>(low);
    out.codes[1] = group_codes<kType, 1>(low);
    out.codes[2] = group_codes<kType, 2>(low);
    out.codes[3] = group_codes<kType, 3>(low);
    out.codes[4] = group_codes<kType, 4>(low);
    out.codes[5] = group_codes<kType, 5>(low);
    out.codes[6] = group_codes<kType, 6>(low);
    out.codes[7] = group_codes<kType, 7>(low);
  }

  template <TensorType kType, size_t kN>
  static void multiply(const Unpacked<kType>& w, const ActivationBlock* const* x, size_t b,
                       __m512 (&acc)[kN]) {
    constexpr PackedFormat kFormat = packed_format(kType);
    __m512i sum[kN][2];
    multiply_codes<kType, kN>(w, x, b, sum);
    for (size_t i = 0; i < kN; ++i) {
      const __m512 scale = _mm512_set1_ps(x[i][b].scale);
      // Scaled sums are integers below 2^24, so that F32 holds them exactly.
      __m512 isum = to_float(sum[i][0]);
      if constexpr (kFormat.scales != SubScales::kNone) isum = _mm512_mul_ps(isum, w.scale[0]);
      if constexpr (kFormat.halves_scaled()) {
        isum = _mm512_fmadd_ps(to_float(sum[i][1]), w.scale[1], isum);
      }
      acc[i] = _mm512_fmadd_ps(isum, _mm512_mul_ps(w.d, scale), acc[i]);
      if constexpr (kFormat.float_min()) {
        acc[i] = _mm512_fmadd_ps(w.float_min, _mm512_set1_ps(x[i][b].sum), acc[i]);
      } else if constexpr (kFormat.integer_min()) {
        const __m512i min_sum =
            _mm512_dpwssd_epi32(_mm512_setzero_si512(), w.min, broadcast4(x[i][b].half_sums));
        acc[i] = _mm512_fmadd_ps(to_float(min_sum), _mm512_mul_ps(w.dm, scale), acc[i]);
      }
    }
  }

  template <TensorType kType, size_t kN>
  static void add_products(const std::byte* tile, size_t k, const float* const* x,
                           Floats (&acc)[kN]) {
    const __m512 w = load_weights<kType>(tile, kTileRows * k);
    for (size_t i = 0; i < kN; ++i) acc[i] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[i][k]), acc[i]);
  }
};

}  // namespace

template <TensorType kType>
void matmul_avx512(const MatmulTile& t) {
  MatmulLanes<Avx512>::run<kType>(t);
}

#define HF2Q_INSTANTIATE(type) template void matmul_avx512<TensorType::type>(const MatmulTile&);
HF2Q_FOR_EACH_TENSOR_TYPE(HF2Q_INSTANTIATE)

}  // namespace hf2q
