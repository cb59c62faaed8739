#pragma once
// Weight matrices as the CPU kernels read them: made once from the rows of a file, then read
// front to back.
//
// A matrix w [rows, cols] is cut into tiles of 16 rows, one after the other; missing rows of the
// last tile are zero weights. A tile holds its columns in ascending order as one stream, the 16
// rows interleaved, so that a SIMD lane is a row: two vectors of 8 lanes on AVX2, one of 16 on
// AVX-512. [n] below means a value of each row r = 0..15, in order.
//
// F32, F16, BF16: for each column [16] values of the type.
//
// Quantized types: a tile is a sequence of blocks, each of 32 columns (Q4_0 Q4_1 Q5_0 Q5_1 Q8_0
// IQ4_NL) or 256 (K types):
//   d       F16 [16]
//   dm      F16 [16]     only types with minimums: m of Q4_1 and Q5_1, dmin of Q2_K, Q4_K, Q5_K
//   then for each 32 columns (one or eight times)
//     scales  32 bytes   only K types
//     low     64 bytes for each bit
//     high    64 bytes for each bit   only Q3_K, Q5_*, Q6_K
// Codes, k = 0..31 the column in the 32: `low` and `high` are planes of b bits. In a plane, row r
// and i = 0..3 own one string of 8 b bits, the codes of k = i, 4 + i, ..., 28 + i, low bits first;
// byte v of the string lies at [64 v + 4 r + i]. A vector of 4-byte lanes thus holds four
// neighbouring columns of each row.
//   type          low high  code c                        scales
//   Q4_0          4         q, of 0..15, weight q - 8
//   Q4_1          4         q
//   Q5_0          4    1    q, of 0..31, weight q - 16
//   Q5_1          4    1    q
//   Q8_0          8         q + 128, weight c - 128
//   IQ4_NL        4         index, weight kIq4NlValues[c]
//   Q2_K          2         q                             [h = 0, 1][16] u8: scale | min << 4
//   Q3_K          2    1    q + 4, of 0..7                [h = 0, 1][16] i8
//   Q4_K          4         q                             [16] u8 scale, then [16] u8 min
//   Q5_K          4    1    q                             [16] u8 scale, then [16] u8 min
//   Q6_K          4    2    q + 32, of 0..63              [h = 0, 1][16] i8
// h is the half of the 32 columns: scales of 16 columns.
//
// Bytes beside the file's: the same, but Q4_K 1.03, Q5_K 1.02, Q3_K 1.04 times as many (unpacked
// scales).

#include <cstddef>

#include "base/tensor_type.h"

namespace hf2q {

constexpr size_t kTileRows = 16;

// A view: who loaded the model owns the bytes.
struct PackedMatrix {
  TensorType type = TensorType::kF32;
  size_t rows = 0;
  size_t cols = 0;
  const std::byte* data = nullptr;  // packed_bytes(type, rows, cols), 64-byte aligned
};

// Bytes of one tile and of a matrix (a multiple of 64, so that matrices can be stacked). CHECKs
// that `cols` is a whole number of blocks.
size_t tile_bytes(TensorType type, size_t cols);
size_t packed_bytes(TensorType type, size_t rows, size_t cols);

// Matrix `index` of a stack of equal ones (experts), `first` being number 0.
PackedMatrix stacked_matrix(const PackedMatrix& first, size_t index);

// Packs `n_rows` rows in file layout, src [n_rows, row_bytes(type, cols)], as the rows from
// `first_row` on of the matrix at `dst`. CHECKs that `first_row` is a multiple of 16; `n_rows` is
// one too, except at the end of the matrix, where the last tile is filled up with zero weights.
// Calls for different rows may run at the same time.
void pack_rows(TensorType type, const std::byte* src, size_t first_row, size_t n_rows, size_t cols,
               std::byte* dst);

// Row `row` as F32, dst [cols]: the same bits as decoding the row of the file.
void unpack_row(const PackedMatrix& w, size_t row, float* dst);

}  // namespace hf2q
