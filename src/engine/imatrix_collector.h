#pragma once
// Gathers an importance matrix (quant/imatrix.h) while a model reads text: give add() to a forward
// pass as its observer. Sums are kept in F64, in the order of the rows: the result does not depend
// on threads, and on the batches only by rounding of F64.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "forward/forward.h"
#include "gguf/reader.h"
#include "quant/imatrix.h"

namespace hf2q {

class ImatrixCollector {
 public:
  // `output_weight`: also for the output head (token_embd.weight where it is tied).
  ImatrixCollector(uint32_t n_experts, bool output_weight)
      : n_experts_(n_experts), output_weight_(output_weight) {}

  // Takes the inputs of matrix products, and passes over every other point.
  void add(const Point& point);

  // An entry for each matrix of `file` whose input was seen, under its name there. kCorrupt, naming
  // the weight: a sum that is not finite. Data sets and chunks are left to the caller.
  Result<Imatrix> result(const GgufFile& file) const;

 private:
  struct Sums {
    size_t cols = 0;
    std::vector<double> sums;     // [n_mat, cols]
    std::vector<int64_t> counts;  // [n_mat]
  };
  using Key = std::pair<int, std::string>;  // layer and Point::weight

  uint32_t n_experts_;
  bool output_weight_;
  std::map<Key, Sums> inputs_;
};

}  // namespace hf2q
