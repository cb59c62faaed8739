#pragma once
// The arithmetic of the row encoders, as one table of functions per instruction set. The encoders
// (rows_*.cc) decide what is searched and how the result is packed; these do the counting.
//
// Every function takes `count` blocks of `size` values, back to back, and works on each block
// alone. All arithmetic is binary32, one rounding per operation, no fused multiply-add; sums start
// at +0 and ascend. So every row of the table gives the same bits; kernels_scalar.cc is the
// specification, and kernels_lanes.h works on one block per vector lane to keep its order of
// operations. Integer codes become floats before use.
//
// Words used below:
//   NI(v)  nearest integer, ties to even, as bits: t = v + 12582912, (bits(t) & 0x7FFFFF) -
//   0x400000.
//          Far out of range it wraps, and degenerate blocks depend on how.
//   TR(v)  v truncated towards zero; 0 if |v| >= 2^31 or v is NaN.
//   peak   the signed value of the first element of largest magnitude.
//
// Only plain types: this file is also compiled with instruction set flags.

#include <cstddef>
#include <cstdint>

namespace hf2q {

// Candidates k = 0..steps of QuantKernels::affine try the inverse scale (first + step * k + top) /
// (hi - lo).
struct AffineSearch {
  int top;  // largest code
  float first;
  float step;
  int steps;
  bool absolute_error;  // weigh |t| instead of t * t
};

struct QuantKernels {
  const char* name;

  // out[b] = sum x, sum x * x.
  void (*sums)(const float* x, size_t count, size_t size, float* out);
  void (*sums_of_squares)(const float* x, size_t count, size_t size, float* out);
  // w[i] = importance[i] * sqrt(sigma + x[i] * x[i]), for n values.
  void (*weights)(const float* x, const float* importance, float sigma, size_t n, float* w);

  // Blocks of 32: the peak, or +0 for a block of zeros.
  void (*peaks)(const float* x, size_t count, float* peak);
  // Blocks of 32: the least and the largest value, of equal ones the first.
  void (*ranges)(const float* x, size_t count, float* lo, float* hi);

  // Blocks of 32: codes[i] = low byte of min(top, TR((x[i] - shift[b]) * inverse[b] + bias)).
  void (*truncate)(const float* x, size_t count, const float* shift, const float* inverse,
                   float bias, int top, uint8_t* codes);
  // Blocks of 32: codes[i] = low byte of TR(x[i] * inverse[b] rounded, half away from zero).
  void (*round)(const float* x, size_t count, const float* inverse, int8_t* codes);
  // codes[i] = clamp(NI((x[i] + shift[b]) / scale[b]), low, high) - low; a block whose scale is 0
  // keeps its codes. size: a multiple of 16.
  void (*requantize)(const float* x, size_t count, size_t size, const float* scale,
                     const float* shift, int low, int high, uint8_t* codes);

  // x ~ scale * (code - half), codes 0..2 * half - 1. With M the peak: for the inverse scales -half
  // / M, then -(half + 0.1 * k) / M for k = -9..9 but 0, the l = clamp(NI(inverse * x), -half, half
  // - 1) have P = sum (w * x) * l and Q = sum (w * l) * l, the best scale is P / Q, and a later
  // candidate wins by Q > 0 and P * P > best * Q, best = scale * P of the last winner.
  // w = nullptr: w = x * x. |M| < 1e-15: codes and scale are 0.
  void (*symmetric)(const float* x, const float* w, size_t count, size_t size, int half,
                    float* scale, uint8_t* codes);
  // The same range with w = x * x and only the first inverse scale, then up to 5 rounds in which
  // each code in turn moves to NI(x * q / p) if that gives a larger P * P / Q; p and q are P and Q
  // without the element. Ends with the first round that changes nothing in the block.
  void (*symmetric_refined)(const float* x, size_t count, size_t size, int half, float* scale,
                            uint8_t* codes);
  // x ~ scale * code - min, codes 0..top, min >= 0. See AffineSearch; each candidate is a weighted
  // least squares fit to the codes NI(inverse * (x - lo)), where lo = min(0, least x) until a
  // candidate wins, then the lo of the last winner. A block without range has codes and scale 0.
  void (*affine)(const float* x, const float* w, size_t count, size_t size,
                 const AffineSearch& search, float* scale, float* min, uint8_t* codes);
  // x ~ scale * code for x >= 0, codes 0..top: the best of nine inverse scales (top + 0.1 * k) /
  // max x, k = -4..4, then rounds as in symmetric_refined. Codes are not clamped below: that of a
  // negative x keeps the low byte.
  void (*positive)(const float* x, const float* w, size_t count, size_t size, int top, float* scale,
                   uint8_t* codes);
  // x ~ scale * kIq4NlValues[code], blocks of 32. B(v) = index of the nearest value, the larger on
  // a tie. The inverse scales 1 / (M / 127), then (k - 127) / M for k = -7..7, compete as in
  // symmetric, with t = kIq4NlValues[B(inverse * x)] in place of l. codes = B(x / scale), by the
  // inverse of the scale (0 if that is 0). |M| < 1e-15: scale 0. w = nullptr: w = x * x.
  void (*nonlinear)(const float* x, const float* w, size_t count, float* scale, uint8_t* codes);

  // Whether n values are finite; in the others, whether the results are (they are only defined if
  // so).
  bool (*all_finite)(const float* x, size_t n);
  bool (*to_f32)(const float* x, size_t n, float* out);
  bool (*to_f16)(const float* x, size_t n, uint16_t* out);
  bool (*to_bf16)(const float* x, size_t n, uint16_t* out);
};

extern const QuantKernels kQuantScalar;
extern const QuantKernels kQuantVector128;
#if defined(__x86_64__)
extern const QuantKernels kQuantAvx2;
extern const QuantKernels kQuantAvx512;
#endif

}  // namespace hf2q
