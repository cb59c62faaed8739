#include "quant/file_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hf2q {
namespace {

// Ids of `general.file_type` in the GGUF specification.
constexpr struct {
  std::string_view name;
  uint32_t id;
  TensorType base;
} kPublished[] = {
    {"f32", 0, TensorType::kF32},      {"f16", 1, TensorType::kF16},
    {"q4_0", 2, TensorType::kQ4_0},    {"q4_1", 3, TensorType::kQ4_1},
    {"q8_0", 7, TensorType::kQ8_0},    {"q5_0", 8, TensorType::kQ5_0},
    {"q5_1", 9, TensorType::kQ5_1},    {"q2_k", 10, TensorType::kQ2_K},
    {"q3_k_s", 11, TensorType::kQ3_K}, {"q3_k_m", 12, TensorType::kQ3_K},
    {"q3_k_l", 13, TensorType::kQ3_K}, {"q4_k_s", 14, TensorType::kQ4_K},
    {"q4_k_m", 15, TensorType::kQ4_K}, {"q5_k_s", 16, TensorType::kQ5_K},
    {"q5_k_m", 17, TensorType::kQ5_K}, {"q6_k", 18, TensorType::kQ6_K},
    {"q2_k_s", 21, TensorType::kQ2_K}, {"iq4_nl", 25, TensorType::kIQ4_NL},
    {"bf16", 32, TensorType::kBF16},
};

TEST(FileTypes, NamesIdsAndBaseTypesAreThePublishedOnes) {
  EXPECT_EQ(file_types().size(), std::size(kPublished));
  for (const auto& published : kPublished) {
    auto parsed = parse_file_type(published.name);
    ASSERT_TRUE(parsed.ok()) << published.name;
    EXPECT_EQ(static_cast<uint32_t>(parsed.value()), published.id) << published.name;
    EXPECT_EQ(base_type(parsed.value()), published.base) << published.name;
    EXPECT_EQ(name_of(parsed.value()), published.name);
  }
}

TEST(FileTypes, CaseAndShortFormsAreAccepted) {
  EXPECT_EQ(parse_file_type("Q4_K_M").value(), FileType::kQ4_K_M);
  EXPECT_EQ(parse_file_type("q3_k").value(), FileType::kQ3_K_M);
  EXPECT_EQ(parse_file_type("Q4_K").value(), FileType::kQ4_K_M);
  EXPECT_EQ(parse_file_type("q5_k").value(), FileType::kQ5_K_M);
}

TEST(FileTypes, AnUnknownNameIsRefusedWithTheKnownOnes) {
  for (const std::string_view name : {"", "q4", "q4_k_", "q8_1", "iq1_s"}) {
    auto parsed = parse_file_type(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, testing::HasSubstr(fmt::format("\"{}\"", name)));
    EXPECT_THAT(parsed.error().message, testing::HasSubstr("q8_0, q6_k"));
  }
}

}  // namespace
}  // namespace hf2q
