#pragma once
// kernels.h with one block per vector lane: lane l of a vector holds element i of block l, so that
// each block's sums ascend exactly as in kernels_scalar.cc. Where the scalar code branches, both
// sides are computed and a lane keeps the one it needs.
//
// A file per instruction set defines a type Isa in an anonymous namespace and instantiates
// LaneKernels<Isa>:
//   kLanes, vectors F of float, I of int32_t, B of uint8_t and H of uint16_t (kLanes elements
//   each), F sqrt(F)                        correctly rounded F lookup(const float* table, I)
//   table[index & 7] per lane
// Nothing here may be shared with other files: everything depends on Isa.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/blocks.h"
#include "quant/kernels.h"

namespace hf2q {
namespace {

// IQ4_NL as a search tree: node n compares with kNonlinearSplits[n] (the midpoint of two
// neighbouring values) and goes on to 2n below it, else to 2n + 1; the leaves 16..31 are the
// values.
constexpr float kNonlinearSplits[16] = {0,       -4.5F, -57, 45.5F, -93.5F, -28.5F, 19, 79,
                                        -115.5F, -74,   -42, -16,   7,      31.5F,  61, 101};
template <class Isa>
struct LaneKernels {
  using F = typename Isa::F;
  using I = typename Isa::I;
  using B = typename Isa::B;
  using H = typename Isa::H;
  static constexpr size_t kLanes = Isa::kLanes;
  static constexpr float kTiny = 1e-15F;
  static constexpr int kRounds = 5;
  static constexpr size_t kBatch = 64;  // blocks whose ranges are kept on the stack

  // ---- vectors ----

  static F all(float v) { return v - F{}; }
  static F load(const float* p) {
    F v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(float* p, F v) { std::memcpy(p, &v, sizeof v); }
  static F absolute(F v) { return F(I(v) & 0x7FFFFFFF); }
  static F select(I mask, F a, F b) { return mask ? a : b; }
  static I select(I mask, I a, I b) { return mask ? a : b; }
  static I smaller(I a, I b) { return a < b ? a : b; }
  static I larger(I a, I b) { return a > b ? a : b; }
  static F to_float(I v) { return __builtin_convertvector(v, F); }
  static I nearest(F v) { return (I(v + 12582912.0F) & 0x7FFFFF) - 0x400000; }
  static I truncated(F v) {
    return __builtin_convertvector(select(absolute(v) < 0x1p31F, v, F{}), I);
  }
  static bool any(I mask) {
    int bits = 0;
    for (size_t l = 0; l < kLanes; ++l) bits |= mask[l];
    return bits != 0;
  }

  // ---- between rows and lanes ----

  // Element i of up to kLanes blocks that start `stride` apart, in the lanes of vector i.
  template <size_t kSize>
  struct Tile {
    alignas(64) float v[kSize * kLanes];

    Tile() = default;
    Tile(const float* x, size_t blocks, size_t stride) {
      for (size_t l = 0; l < kLanes; ++l) {
        // Lanes past the last block repeat it.
        const float* block = x + (l < blocks ? l : blocks - 1) * stride;
        for (size_t i = 0; i < kSize; ++i) v[i * kLanes + l] = block[i];
      }
    }
    F operator[](size_t i) const { return load(v + i * kLanes); }
    void set(size_t i, F value) { store(v + i * kLanes, value); }
  };

  static void store_lanes(float* out, size_t blocks, F v) {
    if (blocks == kLanes) return store(out, v);
    for (size_t l = 0; l < blocks; ++l) out[l] = v[l];
  }

  // The low bytes of code(i) for i < kSize, block after block.
  template <size_t kSize, class Code>
  static void store_codes(uint8_t* codes, size_t blocks, Code code) {
    for (size_t i = 0; i < kSize; i += 4) {
      const I words = (code(i) & 255) | (code(i + 1) & 255) << 8 | (code(i + 2) & 255) << 16 |
                      code(i + 3) << 24;
      for (size_t l = 0; l < blocks; ++l) {
        const int32_t word = words[l];
        std::memcpy(codes + l * kSize + i, &word, sizeof word);
      }
    }
  }

  // f(first block, number of blocks) for groups of at most kLanes blocks.
  template <class Group>
  static void for_groups(size_t count, Group f) {
    for (size_t b = 0; b < count; b += kLanes) f(b, count - b < kLanes ? count - b : kLanes);
  }

  // f<kSize>(...) for the sizes that blocks have.
  template <class Sized>
  static void with_size(size_t size, Sized f) {
    switch (size) {
      case 8:
        return f.template operator()<8>();
      case 16:
        return f.template operator()<16>();
      default:
        return f.template operator()<32>();
    }
  }

  // ---- sums, weights, extremes ----

  template <class Term>
  static void sum_terms(const float* x, size_t count, size_t size, float* out, Term term) {
    constexpr size_t step = 16;
    for_groups(count, [&](size_t b, size_t blocks) {
      F sum = {};
      for (size_t i = 0; i < size; i += step) {
        const Tile<step> tile(x + b * size + i, blocks, size);
        for (size_t k = 0; k < step; ++k) sum += term(tile[k]);
      }
      store_lanes(out + b, blocks, sum);
    });
  }
  static void sums(const float* x, size_t count, size_t size, float* out) {
    sum_terms(x, count, size, out, [](F v) { return v; });
  }
  static void sums_of_squares(const float* x, size_t count, size_t size, float* out) {
    sum_terms(x, count, size, out, [](F v) { return v * v; });
  }

  static void weights(const float* x, const float* importance, float sigma, size_t n, float* w) {
    for (size_t i = 0; i < n; i += kLanes) {
      const F v = load(x + i);
      store(w + i, load(importance + i) * Isa::sqrt(sigma + v * v));
    }
  }

  template <size_t kSize>
  static F peak_of(const Tile<kSize>& x) {
    F peak = {};
    for (size_t i = 0; i < kSize; ++i) {
      peak = select(absolute(x[i]) > absolute(peak), x[i], peak);
    }
    return peak;
  }

  // Of equal values any one: the callers see to the two cases where that matters.
  static void ranges_of_any(const float* x, size_t count, float* lo, float* hi) {
    for (size_t b = 0; b < count; ++b) {
      const float* block = x + b * kBlock32;
      F low = load(block);
      F high = low;
      for (size_t i = kLanes; i < kBlock32; i += kLanes) {
        const F v = load(block + i);
        low = select(v < low, v, low);
        high = select(v > high, v, high);
      }
      float lows[kLanes];
      float highs[kLanes];
      store(lows, low);
      store(highs, high);
      for (size_t l = 1; l < kLanes; ++l) {
        lows[0] = lows[l] < lows[0] ? lows[l] : lows[0];
        highs[0] = highs[l] > highs[0] ? highs[l] : highs[0];
      }
      lo[b] = lows[0];
      hi[b] = highs[0];
    }
  }

  static void ranges(const float* x, size_t count, float* lo, float* hi) {
    ranges_of_any(x, count, lo, hi);
    for (size_t b = 0; b < count; ++b) {  // zeros have two signs
      const float* block = x + b * kBlock32;
      if (lo[b] == 0) lo[b] = *first_equal(block, 0);
      if (hi[b] == 0) hi[b] = *first_equal(block, 0);
    }
  }
  static const float* first_equal(const float* block, float value) {
    while (*block != value) ++block;
    return block;
  }

  static void peaks(const float* x, size_t count, float* peak) {
    for (size_t b = 0; b < count; b += kBatch) {
      const size_t blocks = count - b < kBatch ? count - b : kBatch;
      float lo[kBatch];
      float hi[kBatch];
      ranges_of_any(x + b * kBlock32, blocks, lo, hi);
      for (size_t l = 0; l < blocks; ++l) {
        const float* block = x + (b + l) * kBlock32;
        peak[b + l] = hi[l] > -lo[l]   ? hi[l]
                      : hi[l] < -lo[l] ? lo[l]
                      : hi[l] == 0     ? 0
                                       : first_of_two(block, lo[l], hi[l]);
      }
    }
  }
  static float first_of_two(const float* block, float a, float b) {
    while (*block != a && *block != b) ++block;
    return *block;
  }

  // ---- codes for given scales: along the row, a scale serves whole vectors ----

  static void store_bytes(void* codes, I values) {
    // In two steps: g++ 12 takes the one from 32 to 8 bits apart into scalars.
    const B bytes = __builtin_convertvector(__builtin_convertvector(values, H), B);
    std::memcpy(codes, &bytes, sizeof bytes);
  }

  static void truncate(const float* x, size_t count, const float* shift, const float* inverse,
                       float bias, int top, uint8_t* codes) {
    for (size_t b = 0; b < count; ++b) {
      const F block_shift = all(shift[b]);
      const F block_inverse = all(inverse[b]);
      for (size_t i = b * kBlock32; i < (b + 1) * kBlock32; i += kLanes) {
        const I code = truncated((load(x + i) - block_shift) * block_inverse + bias);
        store_bytes(codes + i, smaller(code, I{} + top));
      }
    }
  }

  static void round(const float* x, size_t count, const float* inverse, int8_t* codes) {
    // Truncating v + 0.49999997 (the largest float below a half) with the sign of v rounds half
    // away from zero: with 0.5 the value just below a half would become 1.
    constexpr float below_half = 0x1.fffffep-2F;
    for (size_t b = 0; b < count; ++b) {
      const F block_inverse = all(inverse[b]);
      for (size_t i = b * kBlock32; i < (b + 1) * kBlock32; i += kLanes) {
        const F v = load(x + i) * block_inverse;
        const F half = F((I(v) & INT32_MIN) | I(all(below_half)));
        store_bytes(codes + i, truncated(v + half));
      }
    }
  }

  static void requantize(const float* x, size_t count, size_t size, const float* scale,
                         const float* shift, int low, int high, uint8_t* codes) {
    for (size_t b = 0; b < count; ++b) {
      if (scale[b] == 0) continue;
      const F block_scale = all(scale[b]);
      const F block_shift = all(shift[b]);
      for (size_t i = b * size; i < (b + 1) * size; i += kLanes) {
        const I code = nearest((load(x + i) + block_shift) / block_scale);
        store_bytes(codes + i, smaller(larger(code, I{} + low), I{} + high) - low);
      }
    }
  }

  // ---- searches ----

  template <size_t kSize>
  static Tile<kSize> weight_tile(const Tile<kSize>& x, const float* w, size_t b, size_t blocks) {
    if (w != nullptr) return Tile<kSize>(w + b * kSize, blocks, kSize);
    Tile<kSize> squares;
    for (size_t i = 0; i < kSize; ++i) squares.set(i, x[i] * x[i]);
    return squares;
  }

  template <size_t kSize>
  static Tile<kSize> product(const Tile<kSize>& a, const Tile<kSize>& b) {
    Tile<kSize> out;
    for (size_t i = 0; i < kSize; ++i) out.set(i, a[i] * b[i]);
    return out;
  }

  // P and Q of the inverse scales tried so far, and which of them is best per lane.
  struct Best {
    F scale = {};
    F score = {};  // scale * P
    F inverse = {};

    void offer(I wins, F p, F q, F trial) {
      scale = select(wins, p / q, scale);
      score = select(wins, scale * p, score);
      inverse = select(wins, trial, inverse);
    }
  };

  static I clamped(I v, int half) { return smaller(larger(v, I{} - half), I{} + (half - 1)); }

  template <size_t kSize>
  static void symmetric_sized(const float* x, const float* w, size_t count, int half, float* scale,
                              uint8_t* codes) {
    for_groups(count, [&](size_t b, size_t blocks) {
      const Tile<kSize> tile(x + b * kSize, blocks, kSize);
      const Tile<kSize> weight = weight_tile(tile, w, b, blocks);
      const Tile<kSize> wx = product(weight, tile);
      const F peak = peak_of(tile);
      const I live = ~(absolute(peak) < kTiny);
      Best best;
      const auto attempt = [&](F inverse, bool first) {
        F p = {};
        F q = {};
        for (size_t i = 0; i < kSize; ++i) {
          const F l = to_float(clamped(nearest(inverse * tile[i]), half));
          p += wx[i] * l;
          q += (weight[i] * l) * l;
        }
        if (first) best.inverse = inverse;
        best.offer(first ? q != 0.0F : (q > 0.0F) & (p * p > best.score * q), p, q, inverse);
      };
      attempt(static_cast<float>(-half) / peak, true);
      for (int k = -9; k <= 9; ++k) {
        if (k == 0) continue;
        attempt(-(static_cast<float>(half) + 0.1F * static_cast<float>(k)) / peak, false);
      }
      store_lanes(scale + b, blocks, select(live, best.scale, F{}));
      store_codes<kSize>(codes + b * kSize, blocks, [&](size_t i) {
        return live & (clamped(nearest(best.inverse * tile[i]), half) + half);
      });
    });
  }
  static void symmetric(const float* x, const float* w, size_t count, size_t size, int half,
                        float* scale, uint8_t* codes) {
    with_size(size,
              [&]<size_t kSize>() { symmetric_sized<kSize>(x, w, count, half, scale, codes); });
  }

  // One round of single steps over the codes l; the lanes where a code changed. to_code brings
  // NI(v) into range, to_stored makes of it what l holds.
  template <bool kPositiveQ, size_t kSize, class ToCode, class ToStored>
  static I improve(const Tile<kSize>& x, const Tile<kSize>& w, ToCode to_code, ToStored to_stored,
                   I* l, F& p, F& q) {
    I changed = {};
    for (size_t i = 0; i < kSize; ++i) {
      const F wx = w[i] * x[i];
      const F old_l = to_float(l[i]);
      const F p_rest = p - wx * old_l;
      const F q_rest = q - (w[i] * old_l) * old_l;
      const I code = to_code(nearest((x[i] * q_rest) / p_rest));
      const F new_l = to_float(code);
      const F new_p = p_rest + wx * new_l;
      const F new_q = q_rest + (w[i] * new_l) * new_l;
      const I wins = (p_rest > 0.0F) & ((kPositiveQ ? q_rest : new_q) > 0.0F) & (code != l[i]) &
                     ((new_p * new_p) * q > (p * p) * new_q);
      l[i] = select(wins, to_stored(code), l[i]);
      p = select(wins, new_p, p);
      q = select(wins, new_q, q);
      changed |= wins;
    }
    return changed;
  }

  template <size_t kSize>
  static void symmetric_refined_sized(const float* x, size_t count, int half, float* scale,
                                      uint8_t* codes) {
    for_groups(count, [&](size_t b, size_t blocks) {
      const Tile<kSize> tile(x + b * kSize, blocks, kSize);
      const Tile<kSize> weight = product(tile, tile);
      const F peak = peak_of(tile);
      const I live = ~(absolute(peak) < kTiny);
      const F inverse = static_cast<float>(-half) / peak;
      I l[kSize];
      F p = {};
      F q = {};
      for (size_t i = 0; i < kSize; ++i) {
        l[i] = clamped(nearest(inverse * tile[i]), half);
        p += (weight[i] * tile[i]) * to_float(l[i]);
        q += (weight[i] * to_float(l[i])) * to_float(l[i]);
      }
      const auto to_code = [half](I v) { return clamped(v, half); };
      const auto same = [](I v) { return v; };
      for (int r = 0; r < kRounds; ++r) {
        if (!any(improve<false>(tile, weight, to_code, same, l, p, q))) break;
      }
      store_lanes(scale + b, blocks, select(live & (q > 0.0F), p / q, F{}));
      store_codes<kSize>(codes + b * kSize, blocks, [&](size_t i) { return live & (l[i] + half); });
    });
  }
  static void symmetric_refined(const float* x, size_t count, size_t size, int half, float* scale,
                                uint8_t* codes) {
    with_size(size, [&]<size_t kSize>() {
      symmetric_refined_sized<kSize>(x, count, half, scale, codes);
    });
  }

  // kLanes blocks of the affine search.
  template <size_t kSize, bool kAbsolute>
  struct Affine {
    const Tile<kSize>& x;
    const Tile<kSize>& w;
    int top;
    F lo, hi, sum_w, sum_wx;

    Affine(const Tile<kSize>& values, const Tile<kSize>& value_weights, int largest_code)
        : x(values),
          w(value_weights),
          top(largest_code),
          lo(x[0]),
          hi(x[0]),
          sum_w(w[0]),
          sum_wx(w[0] * x[0]) {
      for (size_t i = 1; i < kSize; ++i) {
        lo = select(x[i] < lo, x[i], lo);
        hi = select(x[i] > hi, x[i], hi);
        sum_w += w[i];
        sum_wx += w[i] * x[i];
      }
      lo = select(lo > 0.0F, F{}, lo);
    }

    I code(F inverse, F low, size_t i) const {
      return smaller(larger(nearest(inverse * (x[i] - low)), I{}), I{} + top);
    }
    F error(const F* l, F scale, F offset) const {
      F sum = {};
      for (size_t i = 0; i < kSize; ++i) {
        const F t = (scale * l[i] + offset) - x[i];
        sum += w[i] * (kAbsolute ? absolute(t) : t * t);
      }
      return sum;
    }
  };

  template <size_t kSize, bool kAbsolute>
  static void affine_sized(const float* x, const float* w, size_t count, const AffineSearch& search,
                           float* scale, float* min, uint8_t* codes) {
    const auto top = static_cast<float>(search.top);
    for_groups(count, [&](size_t b, size_t blocks) {
      const Tile<kSize> values(x + b * kSize, blocks, kSize);
      const Tile<kSize> value_weights(w + b * kSize, blocks, kSize);
      Affine<kSize, kAbsolute> block(values, value_weights, search.top);
      const I live = block.hi != block.lo;
      F best_inverse = top / (block.hi - block.lo);
      F best_low = block.lo;
      F best_scale = 1.0F / best_inverse;
      F l[kSize];
      for (size_t i = 0; i < kSize; ++i) l[i] = to_float(block.code(best_inverse, block.lo, i));
      F best = block.error(l, best_scale, block.lo);
      for (int k = 0; k <= search.steps; ++k) {
        const float steps = search.first + search.step * static_cast<float>(k);
        const F inverse = (steps + top) / (block.hi - block.lo);
        F sum_l = {};
        F sum_ll = {};
        F sum_lx = {};
        for (size_t i = 0; i < kSize; ++i) {
          l[i] = to_float(block.code(inverse, block.lo, i));
          const F wl = value_weights[i] * l[i];
          sum_l += wl;
          sum_ll += wl * l[i];
          sum_lx += wl * values[i];
        }
        const F det = block.sum_w * sum_ll - sum_l * sum_l;
        F line = (block.sum_w * sum_lx - block.sum_wx * sum_l) / det;
        F offset = (sum_ll * block.sum_wx - sum_l * sum_lx) / det;
        const I above = offset > 0.0F;
        line = select(above, sum_lx / sum_ll, line);
        offset = select(above, F{}, offset);
        const F error = block.error(l, line, offset);
        const I wins = live & (det > 0.0F) & (error < best);
        best = select(wins, error, best);
        best_inverse = select(wins, inverse, best_inverse);
        best_low = select(wins, block.lo, best_low);
        best_scale = select(wins, line, best_scale);
        block.lo = select(wins, offset, block.lo);
      }
      store_lanes(scale + b, blocks, select(live, best_scale, F{}));
      store_lanes(min + b, blocks, -block.lo);
      store_codes<kSize>(codes + b * kSize, blocks,
                         [&](size_t i) { return live & block.code(best_inverse, best_low, i); });
    });
  }
  static void affine(const float* x, const float* w, size_t count, size_t size,
                     const AffineSearch& search, float* scale, float* min, uint8_t* codes) {
    with_size(size, [&]<size_t kSize>() {
      if (search.absolute_error) {
        affine_sized<kSize, true>(x, w, count, search, scale, min, codes);
      } else {
        affine_sized<kSize, false>(x, w, count, search, scale, min, codes);
      }
    });
  }

  template <size_t kSize, class ToCode>
  static F positive_error(const Tile<kSize>& x, const Tile<kSize>& w, F inverse, ToCode to_code) {
    const F scale = 1.0F / inverse;
    F error = {};
    for (size_t i = 0; i < kSize; ++i) {
      const F t = x[i] - scale * to_float(to_code(nearest(inverse * x[i])));
      error += (w[i] * t) * t;
    }
    return error;
  }

  template <size_t kSize>
  static void positive_sized(const float* x, const float* w, size_t count, int top, float* scale,
                             uint8_t* codes) {
    const auto capped = [top](I v) { return smaller(v, I{} + top); };
    const auto low_byte = [](I v) { return v & 255; };
    for_groups(count, [&](size_t b, size_t blocks) {
      const Tile<kSize> tile(x + b * kSize, blocks, kSize);
      const Tile<kSize> weight(w + b * kSize, blocks, kSize);
      F max = {};
      for (size_t i = 0; i < kSize; ++i) max = select(tile[i] > max, tile[i], max);
      const I live = ~(max < kTiny);
      F inverse = static_cast<float>(top) / max;
      F best = positive_error(tile, weight, inverse, low_byte);
      for (int k = -4; k <= 4; ++k) {
        if (k == 0) continue;
        const F trial = (0.1F * static_cast<float>(k) + static_cast<float>(top)) / max;
        const F error = positive_error(tile, weight, trial, capped);
        inverse = select(error < best, trial, inverse);
        best = select(error < best, error, best);
      }
      I l[kSize];
      F p = {};
      F q = {};
      for (size_t i = 0; i < kSize; ++i) {
        const I code = capped(nearest(inverse * tile[i]));
        l[i] = low_byte(code);
        p += (weight[i] * tile[i]) * to_float(code);
        q += (weight[i] * to_float(code)) * to_float(code);
      }
      for (int r = 0; r < kRounds; ++r) {
        if (!any(improve<true>(tile, weight, capped, low_byte, l, p, q))) break;
      }
      store_lanes(scale + b, blocks, select(live & (q > 0.0F), p / q, F{}));
      store_codes<kSize>(codes + b * kSize, blocks, [&](size_t i) { return live & l[i]; });
    });
  }
  static void positive(const float* x, const float* w, size_t count, size_t size, int top,
                       float* scale, uint8_t* codes) {
    with_size(size, [&]<size_t kSize>() { positive_sized<kSize>(x, w, count, top, scale, codes); });
  }

  static I nonlinear_index(F v) {
    const float* splits = kNonlinearSplits;
    // A comparison is -1 where true; a NaN is below nothing and ends at the last value.
    I node = I{} + 3 + (v < splits[1]);
    node = 2 * node + 1 + (v < Isa::lookup(splits, node));
    node = 2 * node + 1 + (v < Isa::lookup(splits, node));
    node = 2 * node + 1 + (v < Isa::lookup(splits + 8, node));
    return node - 16;
  }

  static void nonlinear(const float* x, const float* w, size_t count, float* scale,
                        uint8_t* codes) {
    float values[16];
    for (size_t i = 0; i < 16; ++i) values[i] = kIq4NlValues[i];
    const auto value = [&values](I index) {
      return select(index < 8, Isa::lookup(values, index), Isa::lookup(values + 8, index));
    };
    for_groups(count, [&](size_t b, size_t blocks) {
      const Tile<kBlock32> tile(x + b * kBlock32, blocks, kBlock32);
      const Tile<kBlock32> weight = weight_tile(tile, w, b, blocks);
      const F peak = peak_of(tile);
      const I live = ~(absolute(peak) < kTiny);
      Best best;
      const auto attempt = [&](F inverse, bool first) {
        F p = {};
        F q = {};
        for (size_t i = 0; i < kBlock32; ++i) {
          const F t = value(nonlinear_index(inverse * tile[i]));
          const F wt = weight[i] * t;
          p += wt * tile[i];
          q += wt * t;
        }
        best.offer((q > 0.0F) & (first ? live : p * p > best.score * q), p, q, inverse);
      };
      attempt(1.0F / (peak / 127.0F), true);
      for (int k = -7; k <= 7; ++k) attempt(static_cast<float>(k - 127) / peak, false);
      const F d = select(live, best.scale, F{});
      const F inverse = select(d != 0.0F, 1.0F / d, F{});
      store_lanes(scale + b, blocks, d);
      store_codes<kBlock32>(codes + b * kBlock32, blocks,
                            [&](size_t i) { return nonlinear_index(inverse * tile[i]); });
    });
  }

  // ---- 16-bit floats, as in base/half.h ----

  static bool all_finite(const float* x, size_t n) {
    I largest = {};
    for_vectors(x, n, [&](F v, size_t, size_t) { largest = larger(largest, magnitude(v)); });
    return !any(largest >= 0x7F800000);
  }

  static bool to_f32(const float* x, size_t n, float* out) {
    I largest = {};
    for_vectors(x, n, [&](F v, size_t i, size_t part) {
      largest = larger(largest, magnitude(v));
      if (part == kLanes) return store(out + i, v);
      std::memcpy(out + i, &v, part * sizeof *out);
    });
    return !any(largest >= 0x7F800000);
  }

  static bool to_f16(const float* x, size_t n, uint16_t* out) {
    I overflows = {};
    for_vectors(x, n, [&](F v, size_t i, size_t part) {
      const I bits = magnitude(v);
      const I normal = (bits + 0xFFF + ((bits >> 13) & 1) - 0x38000000) >> 13;
      const I subnormal = I(F(bits) + 0.5F) - 0x3F000000;
      const I half = select(bits < 0x38800000, subnormal, normal);
      overflows |= bits >= 0x477FF000;  // rounds to 65536 or more
      store_halves(out + i, part, half | ((I(v) >> 16) & 0x8000));
    });
    return !any(overflows);
  }

  static bool to_bf16(const float* x, size_t n, uint16_t* out) {
    I largest = {};
    for_vectors(x, n, [&](F v, size_t i, size_t part) {
      const I bits = I(v);
      const I rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
      largest = larger(largest, magnitude(v));
      store_halves(out + i, part, rounded & 0xFFFF);
    });
    return !any(largest >= 0x7F7F8000);  // rounds to 2^128 or more
  }

  static I magnitude(F v) { return I(v) & 0x7FFFFFFF; }

  // f(vector, index of its first value, number of its values) over a row; past the end zeros.
  template <class Each>
  static void for_vectors(const float* x, size_t n, Each f) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) f(load(x + i), i, kLanes);
    if (i == n) return;
    F rest = {};
    std::memcpy(&rest, x + i, (n - i) * sizeof *x);
    f(rest, i, n - i);
  }
  static void store_halves(uint16_t* out, size_t n, I values) {
    const H halves = __builtin_convertvector(values, H);
    if (n == kLanes) {
      std::memcpy(out, &halves, sizeof halves);
    } else {
      std::memcpy(out, &halves, n * sizeof *out);
    }
  }

  static constexpr QuantKernels table(const char* name) {
    return {
        .name = name,
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
  }
};

}  // namespace
}  // namespace hf2q
