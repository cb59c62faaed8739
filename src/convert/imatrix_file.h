#pragma once
// Importance matrices in files, in the two forms that are around.
//
// GGUF (written and read). general.type "imatrix"; imatrix.datasets, an array of strings;
// imatrix.chunk_count and imatrix.chunk_size, u32. Per weight two F32 tensors:
//   <weight>.in_sum2  [K, n_mat] (fastest first)      <weight>.counts  [1, n_mat]
// Other tensors are ignored. Counts are rounded to integers when read.
//
// Legacy ".dat" (only read), little-endian:
//   i32 n_entries, at least 1
//   n_entries x  i32 name_len (1 to 63) | name | i32 n_calls | i32 n_values (at least 1)
//                | n_values x f32, each the mean square times n_calls
//   optional tail: i32 chunk count | i32 len | name of the data set
// n_calls <= 0: the values are the means. There is one count for all matrices of a weight, and the
// chunk size is not known.
//
// Both are checked whole before anything is allocated by a number of theirs; values must be finite
// and not negative, counts at most 2^53. An error names the file and the entry. Source: the imatrix
// tool of llama.cpp.

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "quant/imatrix.h"

namespace hf2q {

// Tells the forms apart by the magic of GGUF.
Result<Imatrix> read_imatrix(const std::string& path);
// A file that lies in memory; `name` stands for the path in errors.
Result<Imatrix> parse_imatrix(std::span<const std::byte> bytes, const std::string& name);
// The sum of one or more files, see merge_into().
Result<Imatrix> read_imatrices(std::span<const std::string> paths);

// Writes the GGUF form, weights in order of their names. kInvalidArgument for a weight whose name
// leaves no room for the suffix in the 63 bytes of a tensor's name; kIo as OutputFile.
Status write_imatrix(const std::string& path, const Imatrix& imatrix);

}  // namespace hf2q
