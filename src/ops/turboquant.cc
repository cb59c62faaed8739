#include "ops/turboquant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "ops/lloyd_max.h"

namespace hf2q {
namespace {

constexpr size_t kMaxDim = 512;
constexpr size_t kBlock = 256;

// Units in the largest level of tq8: below 2^15, and a number whose multiples lie near the levels.
constexpr float kTq8Steps = 32688;

// Bit j, least significant first, is 1 where value j changes its sign.
constexpr uint8_t kSigns[kMaxDim / 8] = {
    0xA7, 0x3B, 0x91, 0xF4, 0x6D, 0xC2, 0x58, 0x0E, 0xB3, 0x7F, 0x24, 0xD6, 0x89, 0x45, 0xEA, 0x1C,
    0x63, 0xAF, 0xD8, 0x52, 0x97, 0x0B, 0xE1, 0x3D, 0x76, 0xC4, 0x19, 0xFE, 0x4A, 0x85, 0x2C, 0xDB,
    0xD3, 0x4E, 0xA8, 0x17, 0x9C, 0x5B, 0xE6, 0x31, 0x72, 0xB9, 0x0D, 0xF5, 0x43, 0x8A, 0x6E, 0xC7,
    0x58, 0x2F, 0x94, 0xE1, 0xB6, 0x3D, 0x0A, 0x7C, 0xC5, 0x61, 0xD8, 0x4F, 0xA3, 0x97, 0x1E, 0x85,
};

void change_signs(float* x, size_t d) {
  for (size_t j = 0; j < d; ++j) {
    const uint32_t sign = uint32_t{kSigns[j / 8]} >> (j % 8) << 31;
    x[j] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[j]) ^ sign);
  }
}

// x = H x sqrt(d).
void butterflies(float* x, size_t d) {
  for (size_t h = 1; h < d; h *= 2) {
    for (size_t i = 0; i < d; i += 2 * h) {
      for (size_t j = i; j < i + h; ++j) {
        const float a = x[j];
        const float b = x[j + h];
        x[j] = a + b;
        x[j + h] = a - b;
      }
    }
  }
}

void scale(float* x, size_t d, float factor) {
  for (size_t j = 0; j < d; ++j) x[j] *= factor;
}

float inverse_root(size_t d) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
}

// The root mean square of n values, n a power of two up to kBlock.
float root_mean_square(const float* y, size_t n) {
  float sums[kBlock];
  for (size_t j = 0; j < n; ++j) sums[j] = y[j] * y[j];
  for (size_t width = n / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) sums[j] += sums[j + width];
  }
  return std::sqrt(sums[0] / static_cast<float>(n));
}

// Infinity or NaN where one of the values is.
float largest(const float* x, size_t d) {
  uint32_t bits = 0;
  for (size_t j = 0; j < d; ++j) {
    bits = std::max(bits, std::bit_cast<uint32_t>(x[j]) & 0x7FFFFFFFU);
  }
  return std::bit_cast<float>(bits);
}

// A stream of codes of `bits` each, least significant bit first; the row ends on a byte.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  void put(uint32_t code, uint32_t bits) {
    pending_ |= uint64_t{code} << n_pending_;
    for (n_pending_ += bits; n_pending_ >= 8; n_pending_ -= 8) {
      *to_++ = static_cast<std::byte>(pending_);
      pending_ >>= 8;
    }
  }

 private:
  std::byte* to_;
  uint64_t pending_ = 0;
  uint32_t n_pending_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* from) : from_(from) {}
  uint32_t get(uint32_t bits) {
    for (; n_pending_ < bits; n_pending_ += 8) pending_ |= uint64_t(*from_++) << n_pending_;
    const auto code = static_cast<uint32_t>(pending_ & ((uint64_t{1} << bits) - 1));
    pending_ >>= bits;
    n_pending_ -= bits;
    return code;
  }

 private:
  const std::byte* from_;
  uint64_t pending_ = 0;
  uint32_t n_pending_ = 0;
};

std::vector<float> float_levels(size_t n_levels) {
  const std::vector<double> levels = lloyd_max_levels(n_levels);
  return {levels.begin(), levels.end()};
}

}  // namespace

LevelFinder::LevelFinder(std::span<const float> levels) {
  boundaries_.fill(std::numeric_limits<float>::infinity());
  for (size_t i = 0; i + 1 < levels.size(); ++i) boundaries_[i] = (levels[i] + levels[i + 1]) / 2;
  // z + kRange is rounded and may reach the next cell from just below it.
  constexpr float kSlack = 0x1p-19F;
  size_t below = 0;
  for (size_t cell = 0; cell < kCells; ++cell) {
    const float edge = static_cast<float>(cell) / kCellsPerUnit - kRange;
    while (boundaries_[below] < edge - kSlack) ++below;
    below_[cell] = static_cast<uint8_t>(below);
    CHECK(cell + 1 == kCells || boundaries_[below + 1] >= edge + 1 / kCellsPerUnit);
  }
}

uint32_t LevelFinder::find(float z) const {
  const float place = (std::clamp(z, -kRange, kRange) + kRange) * kCellsPerUnit;
  const size_t cell = std::min(static_cast<size_t>(place), kCells - 1);
  const uint32_t below = below_[cell];
  return below + (z > boundaries_[below] ? 1 : 0);
}

TurboQuant::TurboQuant(uint32_t code_bits, size_t n_levels, size_t n_second_levels)
    : code_bits_(code_bits),
      values_per_code_(n_second_levels == 0 ? 1 : 2),
      n_second_(static_cast<uint32_t>(std::max<size_t>(1, n_second_levels))),
      first_(float_levels(n_levels)),
      second_(float_levels(n_second_levels == 0 ? n_levels : n_second_levels)),
      values_((size_t{1} << code_bits) * values_per_code_) {
  const std::vector<float> levels = float_levels(n_levels);
  if (code_bits == 8) {
    unit_ = levels.back() / kTq8Steps;
    for (size_t code = 0; code < levels.size(); ++code) {
      values_[code] = std::round(levels[code] / unit_);
    }
    return;
  }
  if (n_second_levels == 0) {
    values_ = levels;
    return;
  }
  const std::vector<float> second = float_levels(n_second_levels);
  for (size_t code = 0; code < n_levels * n_second_levels; ++code) {
    values_[2 * code] = levels[code / n_second_levels];
    values_[2 * code + 1] = second[code % n_second_levels];
  }
}

const TurboQuant& TurboQuant::of(KvFormat format) {
  static const TurboQuant kTq8(8, 256, 0);
  static const TurboQuant kTq6(6, 64, 0);
  static const TurboQuant kTq5(5, 32, 0);
  static const TurboQuant kTq4(4, 16, 0);
  static const TurboQuant kTq3(3, 8, 0);
  static const TurboQuant kTq2(2, 4, 0);
  static const TurboQuant kTq3Half(7, 11, 11);
  static const TurboQuant kTq2Half(5, 5, 6);
  switch (format) {
    case KvFormat::kTq8:
      return kTq8;
    case KvFormat::kTq6:
      return kTq6;
    case KvFormat::kTq5:
      return kTq5;
    case KvFormat::kTq4:
      return kTq4;
    case KvFormat::kTq3:
      return kTq3;
    case KvFormat::kTq2:
      return kTq2;
    case KvFormat::kTq3Half:
      return kTq3Half;
    default:
      break;
  }
  CHECK(format == KvFormat::kTq2Half);
  return kTq2Half;
}

bool TurboQuant::encode(const float* row, size_t d, std::byte* codes, std::byte* norms) const {
  constexpr float kHuge = 0x1p40F;     // above it a square might overflow
  constexpr float kShrink = 0x1p-88F;  // exact, and brings the largest F32 to 2^40
  const float max = largest(row, d);
  if (!(max <= std::numeric_limits<float>::max())) return false;
  float y[kMaxDim];
  std::memcpy(y, row, d * sizeof(float));
  if (max > kHuge) scale(y, d, kShrink);
  turboquant_rotate(y, d);
  const size_t block = std::min(d, kBlock);
  BitWriter writer(codes);
  for (size_t begin = 0; begin < d; begin += block) {
    float norm = root_mean_square(y + begin, block);
    const float factor = norm > 1e-10F ? 1 / norm : 0;
    for (size_t j = begin; j < begin + block; j += values_per_code_) {
      uint32_t code = first_.find(y[j] * factor);
      if (values_per_code_ == 2) code = code * n_second_ + second_.find(y[j + 1] * factor);
      writer.put(code, code_bits_);
    }
    if (factor == 0) norm = 0;
    // Decoded, a row is at most 1.52 times as long as it was, all of it perhaps in one value.
    const float most = std::numeric_limits<float>::max() / 1.6F * inverse_root(d);
    if (max > kHuge) norm = std::min(norm, most * kShrink) / kShrink;
    std::memcpy(norms + begin / block * sizeof(float), &norm, sizeof(float));
  }
  return true;
}

void TurboQuant::decode_rotated(const std::byte* codes, const std::byte* norms, size_t d,
                                float* y) const {
  const size_t block = std::min(d, kBlock);
  BitReader reader(codes);
  for (size_t begin = 0; begin < d; begin += block) {
    float norm = 0;
    std::memcpy(&norm, norms + begin / block * sizeof(float), sizeof(float));
    const float factor = norm * unit_;
    for (size_t j = begin; j < begin + block; j += values_per_code_) {
      const float* values = values_.data() + size_t{reader.get(code_bits_)} * values_per_code_;
      for (size_t i = 0; i < values_per_code_; ++i) y[j + i] = values[i] * factor;
    }
  }
}

void turboquant_rotate(float* x, size_t d) {
  CHECK(std::has_single_bit(d) && d <= kMaxDim);
  change_signs(x, d);
  butterflies(x, d);
  scale(x, d, inverse_root(d));
}

std::span<const uint8_t> turboquant_signs() {
  return kSigns;
}

// The factor first: no sum of finite values overflows that need not.
void turboquant_unrotate(float* y, size_t d) {
  CHECK(std::has_single_bit(d) && d <= kMaxDim);
  scale(y, d, inverse_root(d));
  butterflies(y, d);
  change_signs(y, d);
}

}  // namespace hf2q
