#pragma once
// TurboQuant cache rows (Zandieh et al. 2025): rotate a row so that its values look like N(0, 1)
// times a common factor, then give each value the nearest level of the quantizer that is best for
// N(0, 1).
//
//   y = R x,  R = H D:  D the signs of a fixed table, H the Walsh-Hadamard matrix / sqrt(d)
//   n_b = sqrt(mean of y_j^2 over block b of min(d, 256) values)          stored, F32
//   code of y_j / n_b: the number of boundaries between levels that lie below it
//   decoded y_j = (level[code] / u) (n_b u), in F32, u = 1 (but tq8);  x = R^T y = D H y
//
// The levels of b bits are the 2^b Lloyd-Max levels (lloyd_max.h), rounded to F32; boundaries are
// half-way between these. When they are decoded, those of tq8 are rounded to multiples of 1/32688
// of the largest one, which adds 0.003% to its error and fits 16 bits. Codes form a
// bit stream, least significant bit first, from the row's first byte on. tq3.5 and tq2.5 make one
// code of two values: 11 a + b with 11 levels each in 7 bits, and 6 a + b with 5 levels for a and 6
// for b in 5 bits.
//
// Mean squared error, relative to the row's: 0.1175 (tq2), 0.0690 (tq2.5), 0.0345 (tq3), 0.0192
// (tq3.5), 0.0095 (tq4), 0.0025 (tq5), 6.4e-4 (tq6), 4.1e-5 (tq8).
//
// Sums of squares are added in a tree, value j + w to value j for w = B/2, ..., 2, 1, without fused
// multiply-adds, so that codes and norms are the same bytes wherever they are computed. A norm of
// 1e-10 or less is stored as 0, with the codes of 0. Rows near the largest F32 saturate.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_layout.h"

namespace hf2q {

// From a scaled value to the index of its level.
class LevelFinder {
 public:
  explicit LevelFinder(std::span<const float> levels);
  // The number of boundaries below z. z is finite.
  uint32_t find(float z) const;

 private:
  // The line from -kRange to kRange in cells so narrow that each has at most one boundary.
  static constexpr float kRange = 8;
  static constexpr float kCellsPerUnit = 64;
  static constexpr size_t kCells = 1024;
  std::array<uint8_t, kCells> below_ = {};  // boundaries before the cell
  std::array<float, 257> boundaries_ = {};  // infinity behind them
};

// A format's tables, made once.
class TurboQuant {
 public:
  // One of the tq formats.
  static const TurboQuant& of(KvFormat format);

  // False when a value of row [d] is NaN or infinite; codes [row_bytes] and norms [norm_bytes] are
  // then not written. d as KvFormatInfo::holds().
  bool encode(const float* row, size_t d, std::byte* codes, std::byte* norms) const;
  // The rotated row.
  void decode_rotated(const std::byte* codes, const std::byte* norms, size_t d, float* y) const;

  uint32_t code_bits() const { return code_bits_; }
  uint32_t values_per_code() const { return values_per_code_; }
  // The levels of each code's values, [2^code_bits][values_per_code]; 0 for codes that do not
  // occur.
  const float* values() const { return values_.data(); }
  float unit() const { return unit_; }  // not 1: values() are integers of 16 bits

 private:
  TurboQuant(uint32_t code_bits, size_t n_levels, size_t n_second_levels);

  uint32_t code_bits_;
  uint32_t values_per_code_;
  float unit_ = 1;
  uint32_t n_second_;  // levels of every second value; 1 with one value per code
  LevelFinder first_;
  LevelFinder second_;
  std::vector<float> values_;
};

// D: bit j, least significant first, is 1 where value j changes its sign. [64], for 512 values.
std::span<const uint8_t> turboquant_signs();

// y = R x and x = R^T y in place. d is a power of two, at most 512.
void turboquant_rotate(float* x, size_t d);
void turboquant_unrotate(float* y, size_t d);

}  // namespace hf2q
