#pragma once
// How many prompt rows may come beside decode rows so that a step takes less than twice as long as
// without them. With d seconds for a step of decode rows alone and r for one prompt row more:
//   rows = kShare d / r
// A prompt of n rows then takes n r (1 + 1 / kShare) seconds, 2.2 times that of alone. Both are
// running averages of what was measured; results do not depend on them.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hf2q {

class StepCost {
 public:
  static constexpr double kShare = 0.8;
  static constexpr uint32_t kFewest = 4;    // rows: a prompt always gets on
  static constexpr uint32_t kUnknown = 32;  // rows, before anything was measured

  explicit StepCost(uint32_t max_running) : decode_(max_running + 1, 0) {}

  void observe(uint32_t n_decode, uint32_t n_prompt, double seconds) {
    if (n_prompt == 0) return average(decode_[n_decode], seconds);
    const double alone = n_decode == 0 ? 0 : decode_seconds(n_decode);
    if (n_decode > 0 && alone == 0) return;
    average(row_, std::max(seconds - alone, 0.0) / n_prompt);
  }

  uint32_t rows_beside(uint32_t n_decode, uint32_t most) const {
    const double alone = decode_seconds(n_decode);
    if (alone == 0 || row_ == 0) return std::min(kUnknown, most);
    const double rows = kShare * alone / row_;
    return rows >= most ? most : std::max(kFewest, static_cast<uint32_t>(rows));
  }

 private:
  static void average(double& value, double seconds) {
    constexpr double kNew = 0.2;
    value = value == 0 ? seconds : (1 - kNew) * value + kNew * seconds;
  }
  // Of the nearest number of rows that was measured, fewer rather than more; 0: of none.
  double decode_seconds(uint32_t n_decode) const {
    for (uint32_t n = n_decode; n > 0; --n) {
      if (decode_[n] > 0) return decode_[n];
    }
    const auto more = std::find_if(decode_.begin(), decode_.end(), [](double d) { return d > 0; });
    return more == decode_.end() ? 0 : *more;
  }

  std::vector<double> decode_;  // [decode rows], seconds of a step of them alone; 0: not measured
  double row_ = 0;              // seconds of one prompt row
};

}  // namespace hf2q
