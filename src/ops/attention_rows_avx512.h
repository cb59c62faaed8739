#pragma once
// Decoders of cache rows for AVX-512, in an unnamed namespace: decode() gives the same bits as
// KvRowCodec::decode_rotated.

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/attention_pairs.h"
#include "ops/turboquant.h"

namespace hf2q {
namespace {

// The zero-masking forms with every lane on: g++ 12 takes the plain ones of its own header for
// uses of an uninitialised variable.
constexpr __mmask16 kAll = 0xFFFF;

inline __m512 to_floats(__m512i v) {
  return _mm512_maskz_cvtepi32_ps(kAll, v);
}

struct Q8Row {
  static constexpr KvFormat kFormat = KvFormat::kQ8_0;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    for (size_t i = 0; i < head_dim; i += 16) {
      uint16_t bits = 0;
      std::memcpy(&bits, norms + i / 32 * 2, 2);
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
      const __m512 values = to_floats(_mm512_maskz_cvtepi8_epi32(kAll, bytes));
      _mm512_storeu_ps(row + i, _mm512_mul_ps(values, _mm512_set1_ps(_cvtsh_ss(bits))));
    }
  }
};

// Where the codes of 16 lanes lie in a bit stream: lane l has code l / kLanesPerCode.
template <uint32_t kBits, uint32_t kLanesPerCode>
struct CodePlaces {
  alignas(64) std::array<uint8_t, 64> bytes = {};  // [lane][4]: the two bytes that hold the code
  alignas(64) std::array<uint32_t, 16> shifts = {};
  constexpr CodePlaces() {
    for (size_t lane = 0; lane < 16; ++lane) {
      const size_t bit = lane / kLanesPerCode * kBits;
      bytes[4 * lane] = static_cast<uint8_t>(bit / 8);
      bytes[4 * lane + 1] = static_cast<uint8_t>(bit / 8 + 1);
      bytes[4 * lane + 2] = bytes[4 * lane + 3] = 0x80;  // zero
      shifts[lane] = static_cast<uint32_t>(bit % 8);
    }
  }
};

// The codes of 16 lanes in their lowest bits; bits above are not cleared.
template <uint32_t kBits, uint32_t kLanesPerCode>
__m512i unpack16(const std::byte* codes) {
  static constexpr CodePlaces<kBits, kLanesPerCode> kPlaces;
  __m512i stream;
  if constexpr (16 / kLanesPerCode * kBits <= 64) {
    int64_t bytes = 0;
    std::memcpy(&bytes, codes, sizeof bytes);
    stream = _mm512_set1_epi64(bytes);
  } else {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    stream = _mm512_maskz_broadcast_i32x4(kAll, bytes);
  }
  const __m512i words = _mm512_shuffle_epi8(stream, _mm512_load_si512(kPlaces.bytes.data()));
  return _mm512_maskz_srlv_epi32(kAll, words, _mm512_load_si512(kPlaces.shifts.data()));
}

// kSize values, a power of two: at(i) is value i mod kSize of each lane.
template <size_t kSize>
class Table {
 public:
  // Value i is values[i * stride].
  Table(const float* values, size_t stride) {
    alignas(64) float table[16 * kVectors];
    for (size_t i = 0; i < 16 * kVectors; ++i) table[i] = values[i % kSize * stride];
    for (size_t i = 0; i < kVectors; ++i) table_[i] = _mm512_load_ps(table + 16 * i);
  }
  __m512 at(__m512i index) const { return lookup<kVectors>(table_, index); }

 private:
  static constexpr size_t kVectors = kSize <= 16 ? 1 : kSize / 16;

  template <size_t kN>
  static __m512 lookup(const __m512* table, __m512i index) {
    if constexpr (kN == 1) {
      return _mm512_maskz_permutexvar_ps(kAll, index, table[0]);
    } else if constexpr (kN == 2) {
      return _mm512_permutex2var_ps(table[0], index, table[1]);
    } else {
      const __mmask16 upper = _mm512_test_epi32_mask(index, _mm512_set1_epi32(8 * kN));
      return _mm512_mask_blend_ps(upper, lookup<kN / 2>(table, index),
                                  lookup<kN / 2>(table + kN / 2, index));
    }
  }

  __m512 table_[kVectors];
};

// Calls use(i, norm) for every 16th value i of a row, with the norm of its block. Inlined, so that
// what `use` refers to stays in registers.
template <class Use>
[[gnu::always_inline]] inline void for_values(const std::byte* norms, size_t head_dim,
                                              const Use& use) {
  for (size_t begin = 0; begin < head_dim; begin += 256) {
    const __m512 norm = _mm512_set1_ps(reinterpret_cast<const float*>(norms)[begin / 256]);
    const size_t end = std::min(head_dim, begin + 256);
    for (size_t i = begin; i < end; i += 16) use(i, norm);
  }
}

template <KvFormat kCodeFormat, uint32_t kBits>
struct CodeRow {
  static constexpr KvFormat kFormat = kCodeFormat;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    const auto levels = levels_;  // in registers: what is stored could be a table
    for_values(norms, head_dim, [&](size_t i, __m512 norm) {
      const __m512i lanes = unpack16<kBits, 1>(codes + i / 8 * kBits);
      _mm512_storeu_ps(row + i, _mm512_mul_ps(levels.at(lanes), norm));
    });
  }

 private:
  Table<1 << kBits> levels_{TurboQuant::of(kCodeFormat).values(), 1};
};

// Two values per code: each lane has its pair's code, and even and odd lanes a table of their own.
template <KvFormat kCodeFormat, uint32_t kBits>
struct PairRow {
  static constexpr KvFormat kFormat = kCodeFormat;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    const auto even = even_;
    const auto odd = odd_;
    for_values(norms, head_dim, [&](size_t i, __m512 norm) {
      const __m512i lanes = unpack16<kBits, 2>(codes + i / 16 * kBits);
      const __m512 values = _mm512_mask_blend_ps(0xAAAA, even.at(lanes), odd.at(lanes));
      _mm512_storeu_ps(row + i, _mm512_mul_ps(values, norm));
    });
  }

 private:
  Table<1 << kBits> even_{TurboQuant::of(kCodeFormat).values(), 2};
  Table<1 << kBits> odd_{TurboQuant::of(kCodeFormat).values() + 1, 2};
};

// The same where two tables would not stay in registers: each pair is read from memory.
template <KvFormat kCodeFormat, uint32_t kBits>
struct LoadedPairRow {
  static constexpr KvFormat kFormat = kCodeFormat;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    const float* pairs = values_;
    for_values(norms, head_dim, [&](size_t i, __m512 norm) {
      const uint64_t eight = load_bytes(codes + i / 16 * kBits);
      const __m256 low = _mm256_set_m128(two_pairs<kBits>(pairs, eight >> (2 * kBits)),
                                         two_pairs<kBits>(pairs, eight));
      const __m256 high = _mm256_set_m128(two_pairs<kBits>(pairs, eight >> (6 * kBits)),
                                          two_pairs<kBits>(pairs, eight >> (4 * kBits)));
      const __m512 values = _mm512_maskz_insertf32x8(kAll, _mm512_castps256_ps512(low), high, 1);
      _mm512_storeu_ps(row + i, _mm512_mul_ps(values, norm));
    });
  }

 private:
  const float* values_ = TurboQuant::of(kCodeFormat).values();
};

// The levels of tq8 are integers: 32 codes at a time are looked up among 128 magnitudes.
class Tq8Row {
 public:
  static constexpr KvFormat kFormat = KvFormat::kTq8;

  Tq8Row() {
    const float* positive = TurboQuant::of(kFormat).values() + 128;
    for (size_t i = 0; i < 128; ++i) magnitudes_[i] = static_cast<uint16_t>(positive[i]);
  }

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    size_t i = 0;
    for (; i + 32 <= head_dim; i += 32) {
      decode32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i)), norm_of(norms, i),
               row + i);
    }
    if (i == head_dim) return;
    float rest[32];  // 16 values
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    decode32(_mm256_zextsi128_si256(half), norm_of(norms, i), rest);
    std::memcpy(row + i, rest, 16 * sizeof(float));
  }

 private:
  __m512 norm_of(const std::byte* norms, size_t i) const {
    return _mm512_set1_ps(reinterpret_cast<const float*>(norms)[i / 256] * unit_);
  }

  __m512i part(size_t i) const { return _mm512_load_si512(magnitudes_.data() + 32 * i); }

  void decode32(__m256i codes, __m512 norm, float* row) const {
    const __m512i wide = _mm512_cvtepu8_epi16(codes);
    // Codes below 128 are the negative levels, in mirrored order.
    const __mmask32 negative = _mm512_testn_epi16_mask(wide, _mm512_set1_epi16(0x80));
    const __m512i place = _mm512_mask_sub_epi16(wide, negative, _mm512_set1_epi16(0x7F), wide);
    const __mmask32 upper = _mm512_test_epi16_mask(place, _mm512_set1_epi16(0x40));
    const __m512i magnitude =
        _mm512_mask_blend_epi16(upper, _mm512_permutex2var_epi16(part(0), place, part(1)),
                                _mm512_permutex2var_epi16(part(2), place, part(3)));
    const __m512i level =
        _mm512_mask_sub_epi16(magnitude, negative, _mm512_setzero_si512(), magnitude);
    store(_mm512_maskz_extracti64x4_epi64(0xFF, level, 0), norm, row);
    store(_mm512_maskz_extracti64x4_epi64(0xFF, level, 1), norm, row + 16);
  }
  static void store(__m256i integers, __m512 norm, float* row) {
    const __m512 values = to_floats(_mm512_maskz_cvtepi16_epi32(kAll, integers));
    _mm512_storeu_ps(row, _mm512_mul_ps(values, norm));
  }

  float unit_ = TurboQuant::of(kFormat).unit();
  alignas(64) std::array<uint16_t, 128> magnitudes_;
};

}  // namespace
}  // namespace hf2q
