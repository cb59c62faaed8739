#include "vision/mrope_positions.h"

#include <algorithm>

namespace hf2q {
namespace {

uint64_t n_tokens(const ImageGrid& image) {
  return uint64_t{image.n_x} * image.n_y;
}

Status check(uint32_t n_prompt, std::span<const ImageGrid> images) {
  uint64_t previous_end = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const ImageGrid& image = images[i];
    if (n_tokens(image) == 0) {
      return error(ErrorCode::kInvalidArgument,
                   "image {}: at least one token expected, found a grid of {} x {}", i, image.n_x,
                   image.n_y);
    }
    if (image.start < previous_end) {
      return error(ErrorCode::kInvalidArgument,
                   "image {}: a start from {} on expected (the end of the image before it), found "
                   "{}",
                   i, previous_end, image.start);
    }
    // The product of two 32-bit numbers leaves room for the start.
    const uint64_t end = image.start + n_tokens(image);
    if (end > UINT32_MAX || end > n_prompt) {
      return error(ErrorCode::kInvalidArgument,
                   "image {}: an end of at most {} expected (the prompt), found {} + {} x {}", i,
                   n_prompt, image.start, image.n_x, image.n_y);
    }
    previous_end = end;
  }
  return Ok{};
}

}  // namespace

Result<MropePositions> mrope_positions(uint32_t n_prompt, std::span<const ImageGrid> images) {
  TRY_OK(check(n_prompt, images));
  MropePositions result;
  result.values.resize(kMropeAxes * size_t{n_prompt});
  const auto put = [&](size_t at, uint32_t time, uint32_t row, uint32_t column, uint32_t last) {
    const uint32_t axes[kMropeAxes] = {time, row, column, last};
    for (size_t a = 0; a < kMropeAxes; ++a) {
      result.values[a * n_prompt + at] = static_cast<int32_t>(axes[a]);
    }
  };
  uint32_t t = 0;
  auto image = images.begin();
  for (uint32_t at = 0; at < n_prompt;) {
    if (image == images.end() || at < image->start) {
      put(at++, t, t, t, t);
      ++t;
      continue;
    }
    const auto n = static_cast<uint32_t>(n_tokens(*image));
    for (uint32_t i = 0; i < n; ++i) put(at + i, t, t + i / image->n_x, t + i % image->n_x, 0);
    at += n;
    t += std::max(image->n_x, image->n_y);
    ++image;
  }
  result.next = static_cast<int32_t>(t);
  return result;
}

}  // namespace hf2q
