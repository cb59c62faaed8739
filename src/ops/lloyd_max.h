#pragma once
// The quantizer of least mean squared error for N(0, 1) (Lloyd 1957, Max 1960).
//
// Its levels c_0 < c_1 < ... are the means of their cells, and the cells meet half-way between
// neighbouring levels. The levels are symmetric about 0; an odd number of them includes 0.

#include <cstddef>
#include <vector>

namespace hf2q {

// The `n_levels` levels, ascending, within 1e-12 of the fixed point. 2 <= n_levels <= 256.
std::vector<double> lloyd_max_levels(size_t n_levels);

// E (x - level(x))^2 for x of N(0, 1), each x going to its nearest level. The levels as above.
double mean_squared_error(const std::vector<double>& levels);

}  // namespace hf2q
