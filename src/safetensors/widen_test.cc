#include "safetensors/widen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace hf2q {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Bytes at an odd address.
struct Unaligned {
  explicit Unaligned(std::span<const std::byte> source) : storage(source.size() + 1) {
    if (!source.empty()) std::memcpy(storage.data() + 1, source.data(), source.size());
  }
  std::span<const std::byte> bytes() const { return std::span(storage).subspan(1); }
  std::vector<std::byte> storage;
};

std::vector<uint16_t> every_pattern() {
  std::vector<uint16_t> patterns(0x10000);
  for (uint32_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  return patterns;
}

std::vector<float> widen_all(Dtype dtype, const std::vector<uint16_t>& patterns) {
  const Unaligned data(std::as_bytes(std::span(patterns)));
  const SourceTensor tensor = {"t", dtype, {patterns.size()}, data.bytes()};
  std::vector<float> values(patterns.size());
  EXPECT_TRUE(widen(tensor, 0, values.size(), values.data()).ok());
  return values;
}

TEST(Widen, EveryBf16IsTheUpperHalfOfItsFloat) {
  const std::vector<float> values = widen_all(Dtype::kBF16, every_pattern());
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[bits]), bits * 0x10000) << bits;
  }
}

TEST(Widen, EveryF16HasTheValueOfItsFields) {
  const std::vector<float> values = widen_all(Dtype::kF16, every_pattern());
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const int mantissa = static_cast<int>(bits & 1023);
    if (exponent == 31) {  // infinity, or a NaN that keeps its payload
      ASSERT_EQ(std::bit_cast<uint32_t>(values[bits]),
                ((bits & 0x8000) << 16) | 0x7F800000 | (static_cast<uint32_t>(mantissa) << 13));
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(values[bits], std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0 : 1.0)) << bits;
    ASSERT_EQ(std::signbit(values[bits]), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Widen, F32IsCopiedBitForBit) {
  const uint32_t patterns[] = {0x00000000, 0x80000000, 0x00000001, 0x3F800000,
                               0x7F800000, 0x7F800001, 0xFFC12345};
  const Unaligned data(std::as_bytes(std::span(patterns)));
  const SourceTensor tensor = {"t", Dtype::kF32, {7}, data.bytes()};
  uint32_t copied[7] = {};
  float values[7];
  ASSERT_TRUE(widen(tensor, 0, 7, values).ok());
  std::memcpy(copied, values, sizeof copied);
  EXPECT_THAT(copied, ::testing::ElementsAreArray(patterns));
}

TEST(Widen, TakesTheRangeAndWritesNothingBehindIt) {
  std::vector<uint16_t> halves;  // 0, 1, 2 .. as BF16
  for (int i = 0; i < 100; ++i) {
    halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(i)) >> 16));
  }
  const Unaligned data(std::as_bytes(std::span(halves)));
  const SourceTensor tensor = {"t", Dtype::kBF16, {10, 10}, data.bytes()};
  for (const uint64_t count : {0, 1, 3, 7, 8, 17, 67}) {
    std::vector<float> row(count + 1, -1.0F);
    ASSERT_TRUE(widen(tensor, 33, count, row.data()).ok());
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(row[i], static_cast<float>(33 + i));
    EXPECT_EQ(row[count], -1.0F);
  }
}

TEST(Widen, RefusesOtherTypesByName) {
  for (const Dtype dtype : {Dtype::kF64, Dtype::kI8, Dtype::kU16, Dtype::kF8E4M3, Dtype::kF4}) {
    const std::vector<std::byte> bytes(16);
    const SourceTensor tensor = {"blk.weight", dtype, {2}, bytes};
    float values[2];
    auto status = widen(tensor, 0, 2, values);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(status.error().message,
              fmt::format("tensor \"blk.weight\": dtype F32, F16 or BF16 expected, found {}",
                          name_of(dtype)));
  }
}

TEST(Widen, ChecksTheRange) {
  const std::vector<std::byte> bytes(8);
  const SourceTensor tensor = {"t", Dtype::kF32, {2}, bytes};
  float values[2];
  EXPECT_DEATH(static_cast<void>(widen(tensor, 1, 2, values)), "check failed");
  EXPECT_DEATH(static_cast<void>(widen(tensor, 3, 0, values)), "check failed");
  EXPECT_DEATH(static_cast<void>(widen(tensor, 1, UINT64_MAX, values)), "check failed");
}

// The reference implementation's input of layer 0 is sqrt(256) times the embedding, which is exact.
TEST(Widen, GivesTheEmbeddingRowsThatTheReferenceSaw) {
  auto model = Checkpoint::open(HF2Q_MODELS "/tiny-gemma4");
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto golden = SafetensorsFile::open(HF2Q_TEST_DATA "/tiny-gemma4/golden.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  const SourceTensor* embedding = model.value().find("model.embed_tokens.weight");
  const SourceTensor* hidden = golden.value().find("short.hidden.00");
  ASSERT_TRUE(embedding != nullptr && hidden != nullptr);
  ASSERT_THAT(embedding->shape, ElementsAre(8192, 256));
  ASSERT_THAT(hidden->shape, ElementsAre(7, 256));
  std::ifstream json(HF2Q_TEST_DATA "/tiny-gemma4/golden.json");
  const auto ids = nlohmann::json::parse(json)["prompts"]["short"]["token_ids"];
  ASSERT_EQ(ids.size(), 7U);
  for (uint64_t t = 0; t < 7; ++t) {
    float row[256];
    float expected[256];
    ASSERT_TRUE(widen(*embedding, ids[t].get<uint64_t>() * 256, 256, row).ok());
    ASSERT_TRUE(widen(*hidden, t * 256, 256, expected).ok());
    for (int i = 0; i < 256; ++i) ASSERT_EQ(row[i] * 16, expected[i]) << t << " " << i;
  }
}

}  // namespace
}  // namespace hf2q
