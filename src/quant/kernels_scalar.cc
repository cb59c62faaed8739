// The specification of kernels.h: plain loops, one block after the other.

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "quant/blocks.h"
#include "quant/kernels.h"
#include "quant/nearest.h"
#include "quant/rows.h"

namespace hf2q {
namespace {

constexpr float kTiny = 1e-15F;  // a block whose peak is smaller is a block of zeros

int truncated(float v) {
  return std::abs(v) < 0x1p31F ? static_cast<int>(v) : 0;
}

void sums(const float* x, size_t count, size_t size, float* out) {
  for (size_t b = 0; b < count; ++b, x += size) {
    float sum = 0;
    for (size_t i = 0; i < size; ++i) sum += x[i];
    out[b] = sum;
  }
}

void sums_of_squares(const float* x, size_t count, size_t size, float* out) {
  for (size_t b = 0; b < count; ++b, x += size) {
    float sum = 0;
    for (size_t i = 0; i < size; ++i) sum += x[i] * x[i];
    out[b] = sum;
  }
}

void weights(const float* x, const float* importance, float sigma, size_t n, float* w) {
  for (size_t i = 0; i < n; ++i) w[i] = importance[i] * std::sqrt(sigma + x[i] * x[i]);
}

void peaks(const float* x, size_t count, float* peak) {
  for (size_t b = 0; b < count; ++b) peak[b] = peak_of(x + b * kBlock32, kBlock32);
}

void ranges(const float* x, size_t count, float* lo, float* hi) {
  for (size_t b = 0; b < count; ++b, x += kBlock32) {
    lo[b] = *std::min_element(x, x + kBlock32);
    hi[b] = *std::max_element(x, x + kBlock32);
  }
}

void truncate(const float* x, size_t count, const float* shift, const float* inverse, float bias,
              int top, uint8_t* codes) {
  for (size_t i = 0; i < count * kBlock32; ++i) {
    const size_t b = i / kBlock32;
    const int code = truncated((x[i] - shift[b]) * inverse[b] + bias);
    codes[i] = static_cast<uint8_t>(std::min(top, code));
  }
}

void round(const float* x, size_t count, const float* inverse, int8_t* codes) {
  for (size_t i = 0; i < count * kBlock32; ++i) {
    codes[i] = static_cast<int8_t>(truncated(std::round(x[i] * inverse[i / kBlock32])));
  }
}

void requantize(const float* x, size_t count, size_t size, const float* scale, const float* shift,
                int low, int high, uint8_t* codes) {
  for (size_t i = 0; i < count * size; ++i) {
    const size_t b = i / size;
    if (scale[b] == 0) continue;
    const int code = std::clamp(nearest_int((x[i] + shift[b]) / scale[b]), low, high);
    codes[i] = static_cast<uint8_t>(code - low);
  }
}

// The sums of a least squares fit x ~ scale * l: P = sum w x l, Q = sum w l l.
struct Fit {
  float p = 0;
  float q = 0;
  void add(float w, float x, int l) {
    p += (w * x) * static_cast<float>(l);
    q += (w * static_cast<float>(l)) * static_cast<float>(l);
  }
  Fit without(float w, float x, int l) const {
    return {p - (w * x) * static_cast<float>(l),
            q - (w * static_cast<float>(l)) * static_cast<float>(l)};
  }
};

float weight_of(const float* x, const float* w, size_t i) {
  return w != nullptr ? w[i] : x[i] * x[i];
}

float symmetric_block(const float* x, const float* w, size_t size, int half, uint8_t* codes) {
  std::fill_n(codes, size, uint8_t{0});
  const float peak = peak_of(x, size);
  if (std::abs(peak) < kTiny) return 0;
  const auto code = [&](float inverse, size_t i) {
    return std::clamp(nearest_int(inverse * x[i]), -half, half - 1);
  };
  float scale = 0;
  float best = 0;
  float best_inverse = 0;
  const auto attempt = [&](float inverse, bool first) {
    Fit fit;
    for (size_t i = 0; i < size; ++i) fit.add(weight_of(x, w, i), x[i], code(inverse, i));
    if (!first && !(fit.q > 0 && fit.p * fit.p > best * fit.q)) return;
    scale = fit.q != 0 ? fit.p / fit.q : 0;
    best = scale * fit.p;
    best_inverse = inverse;
  };
  attempt(static_cast<float>(-half) / peak, true);
  for (int k = -9; k <= 9; ++k) {
    if (k != 0) attempt(-(static_cast<float>(half) + 0.1F * static_cast<float>(k)) / peak, false);
  }
  for (size_t i = 0; i < size; ++i) codes[i] = static_cast<uint8_t>(code(best_inverse, i) + half);
  return scale;
}

// Whether a round of single steps changed a code. to_code says how NI(v) becomes a code.
template <class Code, class ToCode>
bool improve(const float* x, const float* w, size_t size, bool positive_q, ToCode to_code,
             Code* codes, Fit& fit) {
  bool changed = false;
  for (size_t i = 0; i < size; ++i) {
    const float weight = weight_of(x, w, i);
    Fit next = fit.without(weight, x[i], codes[i]);
    if (!(next.p > 0) || (positive_q && !(next.q > 0))) continue;
    const int code = to_code(nearest_int((x[i] * next.q) / next.p));
    if (code == codes[i]) continue;
    next.add(weight, x[i], code);
    if (!(next.q > 0) && !positive_q) continue;
    if (!((next.p * next.p) * fit.q > (fit.p * fit.p) * next.q)) continue;
    codes[i] = static_cast<Code>(code);
    fit = next;
    changed = true;
  }
  return changed;
}

constexpr int kRounds = 5;

float symmetric_refined_block(const float* x, size_t size, int half, uint8_t* codes) {
  std::fill_n(codes, size, uint8_t{0});
  const float peak = peak_of(x, size);
  if (std::abs(peak) < kTiny) return 0;
  const auto to_code = [half](int v) { return std::clamp(v, -half, half - 1); };
  const float inverse = static_cast<float>(-half) / peak;
  int8_t l[kBlock256];
  Fit fit;
  for (size_t i = 0; i < size; ++i) {
    l[i] = static_cast<int8_t>(to_code(nearest_int(inverse * x[i])));
    fit.add(x[i] * x[i], x[i], l[i]);
  }
  for (int r = 0; r < kRounds; ++r) {
    if (!improve(x, nullptr, size, false, to_code, l, fit)) break;
  }
  for (size_t i = 0; i < size; ++i) codes[i] = static_cast<uint8_t>(l[i] + half);
  return fit.q > 0 ? fit.p / fit.q : 0;
}

struct Line {
  float scale;
  float offset;  // -min
};

// One block of the affine search.
struct AffineBlock {
  const float* x;
  const float* w;
  size_t size;
  const AffineSearch& search;
  float lo, hi;
  float sum_w, sum_wx;

  AffineBlock(const float* values, const float* value_weights, size_t n, const AffineSearch& s)
      : x(values),
        w(value_weights),
        size(n),
        search(s),
        lo(x[0]),
        hi(x[0]),
        sum_w(w[0]),
        sum_wx(w[0] * x[0]) {
    for (size_t i = 1; i < size; ++i) {
      if (x[i] < lo) lo = x[i];
      if (x[i] > hi) hi = x[i];
      sum_w += w[i];
      sum_wx += w[i] * x[i];
    }
    if (lo > 0) lo = 0;
  }

  float code(float inverse, float low, size_t i) const {
    return static_cast<float>(std::clamp(nearest_int(inverse * (x[i] - low)), 0, search.top));
  }

  float error_of(Line line, float inverse) const {
    float sum = 0;
    for (size_t i = 0; i < size; ++i) {
      const float t = line.scale * code(inverse, lo, i) + line.offset - x[i];
      sum += w[i] * (search.absolute_error ? std::abs(t) : t * t);
    }
    return sum;
  }

  // The least squares line through the codes of `inverse`; false where there is none.
  bool fit(float inverse, Line& line) const {
    float sum_l = 0;
    float sum_ll = 0;
    float sum_lx = 0;
    for (size_t i = 0; i < size; ++i) {
      const float l = code(inverse, lo, i);
      sum_l += w[i] * l;
      sum_ll += (w[i] * l) * l;
      sum_lx += (w[i] * l) * x[i];
    }
    const float det = sum_w * sum_ll - sum_l * sum_l;
    if (!(det > 0)) return false;
    line.scale = (sum_w * sum_lx - sum_wx * sum_l) / det;
    line.offset = (sum_ll * sum_wx - sum_l * sum_lx) / det;
    if (line.offset > 0) line = {sum_lx / sum_ll, 0};
    return true;
  }
};

Line affine_block(AffineBlock block, uint8_t* codes) {
  std::fill_n(codes, block.size, uint8_t{0});
  if (block.hi == block.lo) return {0, block.lo};
  const auto top = static_cast<float>(block.search.top);
  float best_inverse = top / (block.hi - block.lo);
  float best_low = block.lo;
  float scale = 1 / best_inverse;
  float best = block.error_of({scale, block.lo}, best_inverse);
  for (int k = 0; k <= block.search.steps; ++k) {
    const float steps = block.search.first + block.search.step * static_cast<float>(k);
    const float inverse = (steps + top) / (block.hi - block.lo);
    Line line;
    if (!block.fit(inverse, line)) continue;
    const float error = block.error_of(line, inverse);
    if (!(error < best)) continue;
    best = error;
    best_inverse = inverse;
    best_low = block.lo;
    scale = line.scale;
    block.lo = line.offset;
  }
  for (size_t i = 0; i < block.size; ++i) {
    codes[i] = static_cast<uint8_t>(block.code(best_inverse, best_low, i));
  }
  return {scale, block.lo};
}

// The squared error of x against the codes NI(inverse * x), each brought into range by to_code.
template <class ToCode>
float positive_error(const float* x, const float* w, size_t size, float inverse, ToCode to_code) {
  const float scale = 1 / inverse;
  float error = 0;
  for (size_t i = 0; i < size; ++i) {
    const float t = x[i] - scale * static_cast<float>(to_code(nearest_int(inverse * x[i])));
    error += (w[i] * t) * t;
  }
  return error;
}

float positive_block(const float* x, const float* w, size_t size, int top, uint8_t* codes) {
  std::fill_n(codes, size, uint8_t{0});
  float max = 0;
  for (size_t i = 0; i < size; ++i) max = std::max(max, x[i]);
  if (max < kTiny) return 0;
  const auto capped = [top](int v) { return std::min(top, v); };
  float inverse = static_cast<float>(top) / max;
  float best = positive_error(x, w, size, inverse, [](int v) { return static_cast<uint8_t>(v); });
  for (int k = -4; k <= 4; ++k) {
    if (k == 0) continue;
    const float trial = (0.1F * static_cast<float>(k) + static_cast<float>(top)) / max;
    const float error = positive_error(x, w, size, trial, capped);
    if (!(error < best)) continue;
    best = error;
    inverse = trial;
  }
  Fit fit;
  for (size_t i = 0; i < size; ++i) {
    const int l = capped(nearest_int(inverse * x[i]));
    codes[i] = static_cast<uint8_t>(l);
    fit.add(w[i], x[i], l);
  }
  for (int r = 0; r < kRounds; ++r) {
    if (!improve(x, w, size, true, capped, codes, fit)) break;
  }
  return fit.q > 0 ? fit.p / fit.q : 0;
}

int nearest_value_index(float v) {
  int index = 15;
  while (index > 0) {
    const int middle2 = kIq4NlValues[index] + kIq4NlValues[index - 1];  // twice the midpoint
    if (!(2 * v < static_cast<float>(middle2))) break;
    --index;
  }
  return index;
}

float nonlinear_block(const float* x, const float* w, uint8_t* codes) {
  const float peak = peak_of(x, kBlock32);
  float scale = 0;
  float best = 0;
  const auto attempt = [&](float inverse, bool first) {
    Fit fit;
    for (size_t i = 0; i < kBlock32; ++i) {
      const auto t = static_cast<float>(kIq4NlValues[nearest_value_index(inverse * x[i])]);
      const float wt = weight_of(x, w, i) * t;
      fit.p += wt * x[i];
      fit.q += wt * t;
    }
    if (!(fit.q > 0 && (first || fit.p * fit.p > best * fit.q))) return;
    scale = fit.p / fit.q;
    best = scale * fit.p;
  };
  if (!(std::abs(peak) < kTiny)) {
    attempt(1 / (peak / 127), true);
    for (int k = -7; k <= 7; ++k) attempt(static_cast<float>(k - 127) / peak, false);
  }
  const float inverse = scale != 0 ? 1 / scale : 0;
  for (size_t i = 0; i < kBlock32; ++i) {
    codes[i] = static_cast<uint8_t>(nearest_value_index(inverse * x[i]));
  }
  return scale;
}

void symmetric(const float* x, const float* w, size_t count, size_t size, int half, float* scale,
               uint8_t* codes) {
  for (size_t b = 0; b < count; ++b) {
    const float* block_w = w != nullptr ? w + b * size : nullptr;
    scale[b] = symmetric_block(x + b * size, block_w, size, half, codes + b * size);
  }
}

void symmetric_refined(const float* x, size_t count, size_t size, int half, float* scale,
                       uint8_t* codes) {
  for (size_t b = 0; b < count; ++b) {
    scale[b] = symmetric_refined_block(x + b * size, size, half, codes + b * size);
  }
}

void affine(const float* x, const float* w, size_t count, size_t size, const AffineSearch& search,
            float* scale, float* min, uint8_t* codes) {
  for (size_t b = 0; b < count; ++b) {
    const Line line = affine_block({x + b * size, w + b * size, size, search}, codes + b * size);
    scale[b] = line.scale;
    min[b] = -line.offset;
  }
}

void positive(const float* x, const float* w, size_t count, size_t size, int top, float* scale,
              uint8_t* codes) {
  for (size_t b = 0; b < count; ++b) {
    scale[b] = positive_block(x + b * size, w + b * size, size, top, codes + b * size);
  }
}

void nonlinear(const float* x, const float* w, size_t count, float* scale, uint8_t* codes) {
  for (size_t b = 0; b < count; ++b) {
    const float* block_w = w != nullptr ? w + b * kBlock32 : nullptr;
    scale[b] = nonlinear_block(x + b * kBlock32, block_w, codes + b * kBlock32);
  }
}

bool all_finite(const float* x, size_t n) {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

bool to_f32(const float* x, size_t n, float* out) {
  std::copy_n(x, n, out);
  return all_finite(x, n);
}

bool to_f16(const float* x, size_t n, uint16_t* out) {
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    out[i] = f32_to_f16(x[i]);
    finite &= is_finite_f16(out[i]);
  }
  return finite;
}

bool to_bf16(const float* x, size_t n, uint16_t* out) {
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    out[i] = f32_to_bf16(x[i]);
    finite &= std::isfinite(bf16_to_f32(out[i]));
  }
  return finite;
}

}  // namespace

constinit const QuantKernels kQuantScalar = {
    .name = "scalar",
    .sums = sums,
    .sums_of_squares = sums_of_squares,
    .weights = weights,
    .peaks = peaks,
    .ranges = ranges,
    .truncate = truncate,
    .round = round,
    .requantize = requantize,
    .symmetric = symmetric,
    .symmetric_refined = symmetric_refined,
    .affine = affine,
    .positive = positive,
    .nonlinear = nonlinear,
    .all_finite = all_finite,
    .to_f32 = to_f32,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
};

}  // namespace hf2q
