#pragma once
// One tensor of the file to be written, and where its rows come from.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/tensor_type.h"

namespace hf2q {

// Whole rows, back to back, in a type with a row codec. May be unaligned.
struct Segment {
  TensorType type;
  std::span<const std::byte> data;
  bool mapped;       // pages of a file: given back to the kernel once they were read
  std::string file;  // for messages: the path, empty for generated values
  std::string name;  // and what the tensor is called there
};

struct OutputTensor {
  std::string name;
  std::vector<uint64_t> dims;  // fastest first
  TensorType type = TensorType::kF32;
  std::vector<Segment> segments;  // in row order; together n_rows() rows
  std::vector<float> generated;   // backs a segment whose values come from no file
  // One weight per column for each matrix: [n_matrices, dims[0]]; empty for none.
  std::vector<float> importance;
  bool needs_importance = false;  // its type is of no use without
  std::string note;               // why the type is not the file type's own; for reports

  uint64_t n_rows() const;
  uint64_t n_elements() const { return dims[0] * n_rows(); }
  TensorType source_type() const { return segments.front().type; }
};

}  // namespace hf2q
