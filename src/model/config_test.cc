#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/small_file.h"
#include "model/weights.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::value_of;

std::string complaint(const std::vector<std::byte>& bytes) {
  const GgufFile file = value_of(GgufFile::parse(bytes, "m.gguf"));
  const Result<uint64_t> planned = plan_weights(file, {});
  return planned.ok() ? "" : planned.error().message;
}

void set_head_dim(GgufMetadata& metadata, const std::string& key, uint32_t value) {
  const std::string suffix = key.ends_with("_swa") ? "_swa" : "";
  metadata.set_u32(key, value);
  metadata.set_u32("gemma4.attention.value_length" + suffix, value);
  metadata.set_u32("gemma4.rope.dimension_count" + suffix, value);
}

// Attention reads heads of 16, 32, ... 512 values.
TEST(ReadConfig, RefusesHeadSizesThatAttentionDoesNotRead) {
  for (const char* key : {"gemma4.attention.key_length", "gemma4.attention.key_length_swa"}) {
    for (const uint32_t bad : {0U, 8U, 24U, 520U, 528U, 1024U}) {
      const auto bytes = test::small_file(test::small_config({1, 1}),
                                          [&](GgufMetadata& m) { set_head_dim(m, key, bad); });
      EXPECT_EQ(complaint(bytes),
                fmt::format("m.gguf: {}, layer {}: a multiple of 16 up to 512 expected, found {}",
                            key, std::string_view(key).ends_with("swa") ? 0 : 1, bad));
    }
  }
  EXPECT_EQ(complaint(test::small_file(test::small_config({1, 1}))), "");
}

TEST(LoadWeights, RefusesRopeFactorsThatDoNotAscendFromAboveZero) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto said = [](std::vector<float> factors) {
    factors.resize(8, 1e30F);
    return complaint(test::small_file(test::small_config({1, 1}), {}, factors));
  };
  EXPECT_EQ(said({1, 1, 2}), "");
  EXPECT_EQ(
      said({1, std::numeric_limits<float>::infinity(), 1e30F}),
      "m.gguf: rope_freqs.weight: ascending numbers above 0 expected, found 1e+30 at 2 behind "
      "inf");
  for (const float bad : {kNan, 0.0F, -1.0F, 0.5F}) {
    EXPECT_THAT(said({1, bad}), HasSubstr(fmt::format("found {} at 1 behind 1", bad)));
  }
  EXPECT_THAT(said({kNan}), HasSubstr("found nan at 0"));
}

}  // namespace
}  // namespace hf2q
