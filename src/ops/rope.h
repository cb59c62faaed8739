#pragma once
// Angles of the rotary position embedding.
//
// Frequencies: f_i = fl32(1 / fl32(base^(2i/d))) / factor_i; angle = fl32(position * f_i); cosine
// and sine of that F32 angle. The order of the roundings is part of the contract: another one
// changes the last bit of a third of the frequencies, which is 0.02 rad at position 262,143.
// Source: the reference implementation's rotary embedding, "default" and "proportional" kinds.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hf2q {

// The first n_pairs frequencies of heads of head_dim values.
std::vector<float> rope_frequencies(float base, size_t head_dim, size_t n_pairs, float factor);

// cos[i], sin[i] of position * frequencies[i].
void rope_angles(std::span<const float> frequencies, int64_t position, float* cos, float* sin);

// The same with several axes: pair i turns by positions[axis_of_pair[i]].
void rope_angles(std::span<const float> frequencies, std::span<const int64_t> positions,
                 std::span<const uint8_t> axis_of_pair, float* cos, float* sin);

}  // namespace hf2q
