#include "ops/lloyd_max.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace hf2q {
namespace {

constexpr double kInfinity = 40;  // beyond it the density is 0 in F64

double density(double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}

// P(a < x < b), 0 <= a < b; the difference of two tails keeps its digits far out.
double probability(double a, double b) {
  return (std::erfc(a / std::numbers::sqrt2) - std::erfc(b / std::numbers::sqrt2)) / 2;
}

// The x >= 0 with P(y < x) = p, by Newton from below: the distribution is concave there.
double quantile(double p) {
  double x = 0;
  for (int i = 0; i < 100; ++i) {
    const double step = (p - 0.5 - probability(0, x)) / density(x);
    x += step;
    if (std::abs(step) < 1e-14) break;
  }
  return x;
}

// The positive levels c_1 < ... < c_m, as the root of F(c) = c - means of the cells. `first` is the
// lower end of the first cell in units of c_1: 0, or 1/2 where a level lies at 0.
class PositiveHalf {
 public:
  PositiveHalf(std::vector<double> start, double first)
      : levels_(std::move(start)), first_(first), cells_(levels_.size()) {}

  // One step of Newton's method; the largest change of a level.
  double improve() {
    measure();
    const size_t m = levels_.size();
    // F's Jacobian has three diagonals: eliminated downwards, then solved upwards.
    std::vector<double> upper(m);
    std::vector<double> step(m);
    for (size_t i = 0; i < m; ++i) {
      const Cell& cell = cells_[i];
      const double own = 1 - (cell.to_lower * (i == 0 ? 2 * first_ : 1) + cell.to_upper) / 2;
      const double left = i == 0 ? 0 : -cell.to_lower / 2;
      const double pivot = i == 0 ? own : own - left * upper[i - 1];
      upper[i] = -cell.to_upper / 2 / pivot;
      step[i] = (levels_[i] - cell.mean - (i == 0 ? 0 : left * step[i - 1])) / pivot;
    }
    double largest = 0;
    for (size_t i = m; i-- > 0;) {
      if (i + 1 < m) step[i] -= upper[i] * step[i + 1];
      levels_[i] -= step[i];
      largest = std::max(largest, std::abs(step[i]));
    }
    return largest;
  }
  const std::vector<double>& levels() const { return levels_; }

 private:
  struct Cell {
    double mean;
    double to_lower;  // derivative of the mean by the lower end
    double to_upper;  // by the upper end
  };

  void measure() {
    const size_t m = levels_.size();
    double low = first_ * levels_[0];
    for (size_t i = 0; i < m; ++i) {
      const bool last = i + 1 == m;
      const double high = last ? kInfinity : (levels_[i] + levels_[i + 1]) / 2;
      const double p = probability(low, high);
      const double mean = (density(low) - (last ? 0 : density(high))) / p;
      cells_[i] = {mean, density(low) * (mean - low) / p,
                   last ? 0 : density(high) * (high - mean) / p};
      low = high;
    }
  }

  std::vector<double> levels_;
  double first_;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<double> lloyd_max_levels(size_t n_levels) {
  CHECK(n_levels >= 2 && n_levels <= 256);
  const bool has_zero = n_levels % 2 == 1;
  std::vector<double> start;
  for (size_t i = n_levels / 2 + (has_zero ? 1 : 0); i < n_levels; ++i) {
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(n_levels);
    start.push_back(std::numbers::sqrt3 * quantile(share));
  }
  PositiveHalf half(std::move(start), has_zero ? 0.5 : 0.0);
  double step = 1;
  for (int i = 0; i < 50 && step > 1e-13; ++i) step = half.improve();
  CHECK(step < 1e-12);
  std::vector<double> levels;
  for (size_t i = half.levels().size(); i-- > 0;) levels.push_back(-half.levels()[i]);
  if (has_zero) levels.push_back(0);
  levels.insert(levels.end(), half.levels().begin(), half.levels().end());
  return levels;
}

double mean_squared_error(const std::vector<double>& levels) {
  // 1 - E level^2, since each level is the mean of its cell.
  double kept = 0;
  for (size_t i = levels.size() / 2; i < levels.size(); ++i) {
    const double low = i == 0 ? 0 : std::max(0.0, (levels[i - 1] + levels[i]) / 2);
    const double high = i + 1 == levels.size() ? kInfinity : (levels[i] + levels[i + 1]) / 2;
    kept += 2 * levels[i] * levels[i] * probability(low, high);
  }
  return 1 - kept;
}

}  // namespace hf2q
