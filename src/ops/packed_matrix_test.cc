#include "ops/packed_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ops/matmul_testing.h"
#include "quant/row_codec.h"

namespace hf2q {
namespace {

class PackedMatrixTest : public testing::TestWithParam<TensorType> {};

TEST_P(PackedMatrixTest, RowsComeBackAsTheFilesDecoderReadsThem) {
  for (size_t rows : {1, 16, 37}) {
    const size_t cols = 768;
    const std::vector<std::byte> file = random_rows(GetParam(), rows, cols, 1);
    const OwnedMatrix w = pack(GetParam(), rows, cols, file);
    std::vector<float> expected(cols);
    std::vector<float> row(cols);
    for (size_t r = 0; r < rows; ++r) {
      row_codec(GetParam())
          .decode(file.data() + r * row_bytes(GetParam(), cols), cols, expected.data());
      unpack_row(w.view, r, row.data());
      for (size_t c = 0; c < cols; ++c) ASSERT_EQ(row[c], expected[c]) << r << ", " << c;
    }
  }
}

TEST_P(PackedMatrixTest, PackedInPartsIsTheSame) {
  const size_t rows = 53;
  const size_t cols = 512;
  const size_t bytes = packed_bytes(GetParam(), rows, cols);
  const std::vector<std::byte> file = random_rows(GetParam(), rows, cols, 2);
  const OwnedMatrix whole = pack(GetParam(), rows, cols, file);
  std::vector<std::byte> parts(bytes);
  const size_t stride = row_bytes(GetParam(), cols);
  pack_rows(GetParam(), file.data() + 48 * stride, 48, 5, cols, parts.data());
  pack_rows(GetParam(), file.data(), 0, 32, cols, parts.data());
  pack_rows(GetParam(), file.data() + 32 * stride, 32, 16, cols, parts.data());
  const size_t used = (rows + 15) / 16 * tile_bytes(GetParam(), cols);
  EXPECT_EQ(std::memcmp(whole.bytes.get(), parts.data(), used), 0);
}

TEST_P(PackedMatrixTest, TakesAtMostFivePercentMoreThanTheFile) {
  const double file = 4096.0 * static_cast<double>(row_bytes(GetParam(), 1024));
  EXPECT_LE(static_cast<double>(packed_bytes(GetParam(), 4096, 1024)), 1.05 * file);
}

TEST_P(PackedMatrixTest, StackedMatricesFollowEachOther) {
  const PackedMatrix first{GetParam(), 40, 256, nullptr};
  const PackedMatrix third = stacked_matrix(first, 2);
  EXPECT_EQ(third.data - first.data, 2 * packed_bytes(GetParam(), 40, 256));
  EXPECT_EQ(packed_bytes(GetParam(), 40, 256) % 64, 0);
}

INSTANTIATE_TEST_SUITE_P(All, PackedMatrixTest, testing::ValuesIn(kAllTypes), type_name);

TEST(PackedMatrix, Q4_0TileByteByByte) {
  // One block: d = 1 + row, element e has code e % 16 in row 0 and 15 - e % 16 in row 1.
  std::vector<uint8_t> file;
  for (int row = 0; row < 2; ++row) {
    const uint16_t d = f32_to_f16(static_cast<float>(1 + row));
    file.push_back(static_cast<uint8_t>(d & 255));
    file.push_back(static_cast<uint8_t>(d >> 8));
    for (int j = 0; j < 16; ++j) {
      const int code = row == 0 ? j : 15 - j;
      file.push_back(static_cast<uint8_t>(code | code << 4));
    }
  }
  const OwnedMatrix w = pack(TensorType::kQ4_0, 2, 32, std::as_bytes(std::span(file)));
  const auto* tile = reinterpret_cast<const uint8_t*>(w.bytes.get());
  EXPECT_EQ(tile[0] | tile[1] << 8, 0x3C00);  // 1
  EXPECT_EQ(tile[2] | tile[3] << 8, 0x4000);  // 2
  EXPECT_EQ(tile[4] | tile[5] << 8, 0);
  // Byte v of row r's strings: columns 8 v + i (low half) and 8 v + 4 + i (high half).
  for (int v = 0; v < 4; ++v) {
    for (int i = 0; i < 4; ++i) {
      const int low = (8 * v + i) % 16;
      const int high = (8 * v + 4 + i) % 16;
      EXPECT_EQ(tile[32 + 64 * v + i], low | high << 4);
      EXPECT_EQ(tile[32 + 64 * v + 4 + i], (15 - low) | (15 - high) << 4);
      EXPECT_EQ(tile[32 + 64 * v + 8 + i], 0);
    }
  }
}

}  // namespace
}  // namespace hf2q
