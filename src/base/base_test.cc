#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/checked.h"
#include "base/half.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "base/parallel.h"
#include "base/tensor_type.h"
#include "support/temp_folder.h"

namespace hf2q {
namespace {

using testing_support::TempFolder;

TEST(Half, EveryF16PatternMatchesTheDefinitionAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const int mantissa = static_cast<int>(bits & 1023);
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    double expected =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) expected = std::numeric_limits<double>::infinity();
    if ((bits & 0x8000) != 0) expected = -expected;
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(f32_to_f16(value), bits);
  }
}

TEST(Half, F16RoundsToNearestEvenBetweenEveryPairOfNeighbours) {
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const double low = f16_to_f32(static_cast<uint16_t>(bits));
    const double high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: one bit more than F16 has
    ASSERT_EQ(f32_to_f16(middle), bits + (bits & 1));
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9F)), bits + 1);
  }
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::quiet_NaN()), 0xFE00);
}

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(1.00390625F), 0x3F80);  // 1 + 2^-8 is a tie: to even
  EXPECT_EQ(f32_to_bf16(1.01171875F), 0x3F82);  // 1 + 3 * 2^-8 is a tie: to even
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7F800001U)), 0x7FC0);
  EXPECT_EQ(bf16_to_f32(0xC049), -3.140625F);
}

TEST(Checked, RefusesWhatDoesNotFit) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(checked_add(kMax, 0), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
  EXPECT_EQ(checked_mul(1ULL << 32, (1ULL << 32) - 1), 0xFFFFFFFF00000000ULL);
  EXPECT_FALSE(checked_mul(1ULL << 32, 1ULL << 32));
  EXPECT_EQ(checked_round_up(33, 32), 64U);
  EXPECT_FALSE(checked_round_up(kMax, 32));
  const uint64_t wraps_to_zero[] = {1ULL << 62, 4};
  EXPECT_FALSE(checked_product(wraps_to_zero));
}

TEST(TensorTypes, BytesOfARow) {
  EXPECT_EQ(row_bytes(TensorType::kQ4_K, 512), 288U);
  EXPECT_EQ(row_bytes(TensorType::kQ8_0, 64), 68U);
  EXPECT_EQ(row_bytes(TensorType::kBF16, 3), 6U);
  EXPECT_EQ(parse_tensor_type("Q6_K"), TensorType::kQ6_K);
  EXPECT_FALSE(parse_tensor_type("iq1_s"));
  EXPECT_EQ(find_tensor_type(4), nullptr);
  EXPECT_EQ(find_tensor_type(43), nullptr);
}

TEST(ParallelFor, VisitsEveryItemOnce) {
  for (const size_t n_threads : {1, 2, 5}) {
    ThreadPool pool(n_threads);
    for (const size_t count : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> visits(count);
      pool.parallel_for(count, [&](size_t i) { ++visits[i]; });
      for (const auto& n : visits) EXPECT_EQ(n, 1);
    }
  }
}

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  const TempFolder folder;
  const std::string path = folder / "out";
  {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file.value().write(std::as_bytes(std::span("abc", 3))).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(folder.n_files(), 0U);
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file.value().write(std::as_bytes(std::span("abc", 3))).ok());
  ASSERT_TRUE(file.value().write_zeros(5000).ok());
  ASSERT_TRUE(file.value().commit().ok());
  EXPECT_EQ(folder.n_files(), 1U);
  auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped.value().bytes().size(), 5003U);
  EXPECT_EQ(mapped.value().bytes()[2], std::byte{'c'});
}

TEST(OutputFile, FollowsLinksAndRefusesWhatIsNoFile) {
  const TempFolder folder;
  testing_support::write_text(folder / "target", "old");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  {
    auto file = OutputFile::create(folder / "link");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file.value().write(std::as_bytes(std::span("new", 3))).ok());
    ASSERT_TRUE(file.value().commit().ok());
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(testing_support::read_text(folder / "target"), "new");
  EXPECT_FALSE(OutputFile::create("/dev/null").ok());
  EXPECT_FALSE(OutputFile::create(folder.path()).ok());
}

TEST(OutputFile, AnInterruptLeavesNothing) {
  const TempFolder folder;
  auto file = OutputFile::create(folder / "out");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(folder.n_files(), 1U);
  remove_unfinished_files();
  EXPECT_EQ(folder.n_files(), 0U);
}

TEST(OutputFile, MappingSaysWhyItFailed) {
  const TempFolder folder;
  EXPECT_EQ(MappedFile::open(folder / "none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open(folder.path()).error().code, ErrorCode::kCorrupt);
  testing_support::write_text(folder / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder / "empty").value().bytes().empty());
  EXPECT_EQ(OutputFile::create(folder / "none/out").error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace hf2q
