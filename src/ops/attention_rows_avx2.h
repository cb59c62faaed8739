#pragma once
// Decoders of cache rows for AVX2, in an unnamed namespace: decode() gives the same bits as
// KvRowCodec::decode_rotated.

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/attention_pairs.h"
#include "ops/turboquant.h"

namespace hf2q {
namespace {

// The mask of a gather that takes all lanes.
inline __m256 all_bits() {
  return _mm256_castsi256_ps(_mm256_set1_epi32(-1));
}

struct Q8Row {
  static constexpr KvFormat kFormat = KvFormat::kQ8_0;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    for (size_t begin = 0; begin < head_dim; begin += 32) {
      uint16_t bits = 0;
      std::memcpy(&bits, norms + begin / 32 * 2, 2);
      const __m256 scale = _mm256_set1_ps(_cvtsh_ss(bits));
      for (size_t i = begin; i < begin + 32; i += 8) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
        const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
        _mm256_storeu_ps(row + i, _mm256_mul_ps(values, scale));
      }
    }
  }
};

// Eight codes of kBits from the beginning of a byte on, one in each lane.
template <uint32_t kBits>
__m256i unpack8(const std::byte* codes) {
  if constexpr (kBits == 8) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  }
  constexpr auto byte = [](int lane) { return static_cast<char>(lane * int{kBits} / 8); };
  constexpr auto shift = [](int lane) { return lane * int{kBits} % 8; };
  // The two bytes that hold a lane's code.
  const __m256i places = _mm256_setr_epi8(
      byte(0), byte(0) + 1, -1, -1, byte(1), byte(1) + 1, -1, -1, byte(2), byte(2) + 1, -1, -1,
      byte(3), byte(3) + 1, -1, -1, byte(4), byte(4) + 1, -1, -1, byte(5), byte(5) + 1, -1, -1,
      byte(6), byte(6) + 1, -1, -1, byte(7), byte(7) + 1, -1, -1);
  const __m256i shifts = _mm256_setr_epi32(shift(0), shift(1), shift(2), shift(3), shift(4),
                                           shift(5), shift(6), shift(7));
  const __m256i bytes = _mm256_set1_epi64x(static_cast<int64_t>(load_bytes(codes)));
  const __m256i words = _mm256_shuffle_epi8(bytes, places);
  return _mm256_and_si256(_mm256_srlv_epi32(words, shifts), _mm256_set1_epi32((1 << kBits) - 1));
}

// The levels of a format with one value per code.
template <uint32_t kBits>
class Levels {
 public:
  explicit Levels(const float* values) : values_(values) {
    for (size_t i = 0; i < kVectors; ++i) {
      parts_[i] = kBits < 3 ? _mm256_broadcast_ps(reinterpret_cast<const __m128*>(values))
                            : _mm256_loadu_ps(values + 8 * i);
    }
  }
  __m256 at(__m256i codes) const {
    if constexpr (kBits > 5) {
      return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), values_, codes, all_bits(), 4);
    }
    __m256 found[kVectors];
    for (size_t i = 0; i < kVectors; ++i) found[i] = _mm256_permutevar8x32_ps(parts_[i], codes);
    // The bits above the lowest three choose among the vectors.
    size_t n = kVectors;
    for (uint32_t bit = 3; n > 1; ++bit, n /= 2) {
      const __m256 choice =
          _mm256_castsi256_ps(_mm256_slli_epi32(codes, static_cast<int>(31 - bit)));
      for (size_t i = 0; i < n / 2; ++i) {
        found[i] = _mm256_blendv_ps(found[2 * i], found[2 * i + 1], choice);
      }
    }
    return found[0];
  }

 private:
  static constexpr size_t kVectors = kBits <= 3 || kBits > 5 ? 1 : (size_t{1} << kBits) / 8;
  const float* values_;
  __m256 parts_[kVectors];
};

// Calls use(i, norm) for every kStep-th value i of a row, with the norm of its block.
template <size_t kStep, class Use>
void for_values(const std::byte* norms, size_t head_dim, const Use& use) {
  for (size_t begin = 0; begin < head_dim; begin += 256) {
    const __m256 norm = _mm256_broadcast_ss(reinterpret_cast<const float*>(norms) + begin / 256);
    const size_t end = std::min(head_dim, begin + 256);
    for (size_t i = begin; i < end; i += kStep) use(i, norm);
  }
}

template <KvFormat kCodeFormat, uint32_t kBits>
struct CodeRow {
  static constexpr KvFormat kFormat = kCodeFormat;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    for_values<8>(norms, head_dim, [&](size_t i, __m256 norm) {
      const __m256i eight = unpack8<kBits>(codes + i / 8 * kBits);
      _mm256_storeu_ps(row + i, _mm256_mul_ps(levels_.at(eight), norm));
    });
  }

 private:
  Levels<kBits> levels_{TurboQuant::of(kCodeFormat).values()};
};

// Two values per code: looked up together, four pairs at a time.
template <KvFormat kCodeFormat, uint32_t kBits>
struct PairRow {
  static constexpr KvFormat kFormat = kCodeFormat;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    for_values<16>(norms, head_dim, [&](size_t i, __m256 norm) {
      const uint64_t eight = load_bytes(codes + i / 16 * kBits);
      store(eight, norm, row + i);
      store(eight >> (4 * kBits), norm, row + i + 8);
    });
  }

 private:
  void store(uint64_t codes, __m256 norm, float* row) const {
    const __m256 values = _mm256_set_m128(two_pairs<kBits>(values_, codes >> (2 * kBits)),
                                          two_pairs<kBits>(values_, codes));
    _mm256_storeu_ps(row, _mm256_mul_ps(values, norm));
  }
  const float* values_ = TurboQuant::of(kCodeFormat).values();
};

// The levels of tq8 are integers: 32 codes at a time choose the upper and the lower byte of the 128
// magnitudes.
class Tq8Row {
 public:
  static constexpr KvFormat kFormat = KvFormat::kTq8;

  Tq8Row() {
    const float* positive = TurboQuant::of(kFormat).values() + 128;
    for (size_t i = 0; i < 128; ++i) {
      const auto bits = static_cast<uint16_t>(positive[i]);
      low_[i] = static_cast<uint8_t>(bits);
      high_[i] = static_cast<uint8_t>(bits >> 8);
    }
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
    decode32(_mm256_castsi128_si256(half), norm_of(norms, i), rest);
    std::memcpy(row + i, rest, 16 * sizeof(float));
  }

 private:
  __m256 norm_of(const std::byte* norms, size_t i) const {
    const __m256 norm = _mm256_broadcast_ss(reinterpret_cast<const float*>(norms) + i / 256);
    return _mm256_mul_ps(norm, _mm256_set1_ps(unit_));
  }

  // bytes[place] for places below 128, whose bits 4, 5 and 6 are bit 7 of the choices.
  static __m256i choose(const std::array<uint8_t, 128>& bytes, __m256i place,
                        const __m256i (&choices)[3]) {
    __m256i found[8];
    for (size_t i = 0; i < 8; ++i) {
      const auto* part = reinterpret_cast<const __m128i*>(bytes.data() + 16 * i);
      found[i] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128(part)), place);
    }
    for (size_t bit = 0, n = 4; bit < 3; ++bit, n /= 2) {
      for (size_t i = 0; i < n; ++i) {
        found[i] = _mm256_blendv_epi8(found[2 * i], found[2 * i + 1], choices[bit]);
      }
    }
    return found[0];
  }

  void decode32(__m256i codes, __m256 norm, float* row) const {
    // Codes below 128 are the negative levels, in mirrored order.
    const __m256i negative = _mm256_cmpgt_epi8(codes, _mm256_set1_epi8(-1));
    const __m256i place =
        _mm256_and_si256(_mm256_xor_si256(codes, negative), _mm256_set1_epi8(0x7F));
    const __m256i choices[3] = {_mm256_slli_epi16(place, 3), _mm256_slli_epi16(place, 2),
                                _mm256_slli_epi16(place, 1)};
    const __m256i low = choose(low_, place, choices);
    const __m256i high = choose(high_, place, choices);
    const __m256i sign = _mm256_or_si256(negative, _mm256_set1_epi8(1));
    // Bytes 0-7 and 16-23, then 8-15 and 24-31.
    const __m256i even =
        _mm256_sign_epi16(_mm256_unpacklo_epi8(low, high), _mm256_unpacklo_epi8(sign, sign));
    const __m256i odd =
        _mm256_sign_epi16(_mm256_unpackhi_epi8(low, high), _mm256_unpackhi_epi8(sign, sign));
    store(_mm256_castsi256_si128(even), norm, row);
    store(_mm256_castsi256_si128(odd), norm, row + 8);
    store(_mm256_extracti128_si256(even, 1), norm, row + 16);
    store(_mm256_extracti128_si256(odd, 1), norm, row + 24);
  }
  static void store(__m128i integers, __m256 norm, float* row) {
    const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(integers));
    _mm256_storeu_ps(row, _mm256_mul_ps(values, norm));
  }

  float unit_ = TurboQuant::of(kFormat).unit();
  alignas(16) std::array<uint8_t, 128> low_;
  alignas(16) std::array<uint8_t, 128> high_;
};

}  // namespace
}  // namespace hf2q
