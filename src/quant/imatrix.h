#pragma once
// Importance matrices: how strongly the activations of a sample text press on every column of every
// weight. Encoders use them to spend their precision where it matters (RowCodec::encode).
//
// For a weight with rows of length K and n_mat matrices (1, or the number of experts):
//   sums[m][c]   sum over tokens t of x_t[c]^2, x_t being what matrix m was multiplied with
//   counts[m]    number of those tokens
// Source: section "imatrix" of llama.cpp's tools; the file forms are in convert/imatrix_file.h.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hf2q {

struct ImatrixEntry {
  std::vector<float> sums;      // [n_mat, K], finite and not negative
  std::vector<int64_t> counts;  // [n_mat], not negative, at most 2^53
};

struct Imatrix {
  std::map<std::string, ImatrixEntry, std::less<>> entries;  // by name of the weight, sorted
  std::vector<std::string> datasets;                         // what the sample text was
  uint32_t chunk_count = 0;                                  // chunks of text that were run
  uint32_t chunk_size = 0;                                   // tokens of a chunk; 0 when not known
};

// The importance of a weight's columns, [ne2, ne0] laid out matrix by matrix: sums / counts, and 1
// for a matrix that no token met. Empty when there is no entry: encode without importance. An entry
// of a wrong length for token_embd.weight or per_layer_token_embd.weight counts as none.
// kCorrupt, naming the weight: an entry of another length, or a value that is not finite.
Result<std::vector<float>> importance_for(const Imatrix& imatrix, std::string_view weight,
                                          uint64_t ne0, uint64_t ne2);

// Adds sums, counts and chunks of `from` to those of `into` and takes over the entries and data
// sets that are new. The chunk size becomes the larger one. kCorrupt, naming the weight,
// when the shapes of two entries differ; `into` is then not to be used.
Status merge_into(Imatrix& into, const Imatrix& from);

}  // namespace hf2q
