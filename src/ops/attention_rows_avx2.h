#pragma once
// Decoders of cache rows for AVX2, in an unnamed namespace: decode() gives the same bits as
// KvRowCodec::decode_rotated.

#include <immintrin.h>

#include <cstring>

#include "ops/turboquant.h"

namespace hf2q {
namespace {

inline uint64_t load_bytes(const std::byte* from) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, from, sizeof(bytes));
  return bytes;
}

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

template <KvFormat kCodeFormat, uint32_t kBits>
struct CodeRow {
  static constexpr KvFormat kFormat = kCodeFormat;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    for (size_t begin = 0; begin < head_dim; begin += 256) {
      const __m256 norm = _mm256_broadcast_ss(reinterpret_cast<const float*>(norms) + begin / 256);
      const size_t end = std::min(head_dim, begin + 256);
      for (size_t i = begin; i < end; i += 8, codes += kBits) {
        _mm256_storeu_ps(row + i, _mm256_mul_ps(levels_.at(unpack8<kBits>(codes)), norm));
      }
    }
  }

 private:
  Levels<kBits> levels_{TurboQuant::of(kCodeFormat).values()};
};

// Two values per code.
template <KvFormat kCodeFormat, uint32_t kBits>
struct PairRow {
  static constexpr KvFormat kFormat = kCodeFormat;

  void decode(const std::byte* codes, const std::byte* norms, size_t head_dim, float* row) const {
    for (size_t begin = 0; begin < head_dim; begin += 256) {
      const __m256 norm = _mm256_broadcast_ss(reinterpret_cast<const float*>(norms) + begin / 256);
      const size_t end = std::min(head_dim, begin + 256);
      for (size_t i = begin; i < end; i += 16, codes += kBits) {
        const __m256i eight = unpack8<kBits>(codes);
        store(_mm256_castsi256_si128(eight), norm, row + i);
        store(_mm256_extracti128_si256(eight, 1), norm, row + i + 8);
      }
    }
  }

 private:
  void store(__m128i codes, __m256 norm, float* row) const {
    const __m256d pairs =
        _mm256_mask_i32gather_pd(_mm256_setzero_pd(), reinterpret_cast<const double*>(values_),
                                 codes, _mm256_castps_pd(all_bits()), 8);
    _mm256_storeu_ps(row, _mm256_mul_ps(_mm256_castpd_ps(pairs), norm));
  }
  const float* values_ = TurboQuant::of(kCodeFormat).values();
};

}  // namespace
}  // namespace hf2q
