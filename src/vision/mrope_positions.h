#pragma once
// Rotary positions of a prompt with images for the sister models whose attention rotates by time,
// row and column (Qwen3-VL's interleaved multi-axis rotary embedding).
//
//   t = 0
//   text token            (t, t, t, t);  t += 1
//   token i of an image   (t0, t0 + i / n_x, t0 + i % n_x, 0), t0 = t before the image
//   behind an image       t = t0 + max(n_x, n_y)
//
// Axes: 0 time, 1 row (y), 2 column (x), 3 unused.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace hf2q {

inline constexpr size_t kMropeAxes = 4;

// An image of n_x columns and n_y rows of tokens (after patches are merged) from `start` on.
struct ImageGrid {
  uint32_t n_x = 0;
  uint32_t n_y = 0;
  uint32_t start = 0;
};

struct MropePositions {
  std::vector<int32_t> values;  // [kMropeAxes, n_prompt]
  int32_t next = 0;             // the position of a text token behind the prompt, on every axis
};

// kInvalidArgument, image by image, naming it: no tokens, a start before the end of the image
// before it (overlapping or unsorted), an end beyond 2^32 or beyond the prompt.
Result<MropePositions> mrope_positions(uint32_t n_prompt, std::span<const ImageGrid> images);

}  // namespace hf2q
