#include "gguf/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "gguf/test_file.h"

namespace hf2q {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

Result<GgufFile> parse(const std::vector<std::byte>& bytes) {
  return GgufFile::parse(bytes, "test.gguf");
}

TEST(GgufReader, ReadsTheExampleOfTheFormat) {
  const Bytes file = example_file();
  ASSERT_EQ(file.data.size(), 256U);
  const auto parsed = parse(file.data);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const GgufFile& gguf = parsed.value();
  EXPECT_EQ(gguf.version(), 3U);
  EXPECT_EQ(gguf.file_bytes(), 256U);
  EXPECT_EQ(gguf.n_shards(), 1U);
  EXPECT_EQ(gguf.get_string("general.architecture").value(), "gemma4");
  EXPECT_THAT(gguf.get_integers("x.a").value(), ElementsAre(-1, 2));
  ASSERT_EQ(gguf.tensors().size(), 1U);
  const GgufTensor& tensor = gguf.tensors()[0];
  EXPECT_EQ(tensor.name, "t.weight");
  EXPECT_THAT(tensor.dims, ElementsAre(32, 2, 1, 1));
  EXPECT_EQ(tensor.n_dims, 2U);
  EXPECT_EQ(tensor.type->name, "q8_0");
  EXPECT_EQ(tensor.data.data(), file.data.data() + 160);
  EXPECT_EQ(tensor.data.size(), 68U);
}

TEST(GgufReader, ReadsEveryValueType) {
  const auto bytes = good_file().bytes();
  const auto parsed = parse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const auto value = [&](std::string_view key) { return *parsed.value().find(key); };
  EXPECT_EQ(value("u8").as_u8(), 200);
  EXPECT_EQ(value("i8").as_i8(), -100);
  EXPECT_EQ(value("u16").as_u16(), 60000);
  EXPECT_EQ(value("i16").as_i16(), -30000);
  EXPECT_EQ(value("u32").as_u32(), 4000000000U);
  EXPECT_EQ(value("i32").as_i32(), -2000000000);
  EXPECT_EQ(value("u64").as_u64(), ~uint64_t{0});
  EXPECT_EQ(value("i64").as_i64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(value("f32").as_f32(), 1.5F);
  EXPECT_EQ(value("f64").as_f64(), -2.25);
  EXPECT_EQ(value("bool").as_bool(), true);
  EXPECT_EQ(value("string").as_string(), "h\u00e9llo");
  EXPECT_EQ(value("empty").as_string(), "");
  EXPECT_THAT(*value("i32s").as_integers(), ElementsAre(-1, 2));
  EXPECT_THAT(*value("u32s").as_integers(), ElementsAre(1, 0x7FFFFFFF));
  EXPECT_EQ(value("big u32s").as_integers(), std::nullopt);
  EXPECT_THAT(*value("f32s").as_f32s(), ElementsAre(0.5F, -1000.0F));
  EXPECT_THAT(*value("bools").as_bools(), ElementsAre(false, true, true));
  EXPECT_THAT(*value("strings").as_strings(), ElementsAre("a", "", "bc"));
  EXPECT_TRUE(value("none").as_strings()->empty());
  EXPECT_EQ(value("u64s").at(0).as_u64(), ~uint64_t{0});
  EXPECT_EQ(value("strings").at(2).as_string(), "bc");
  EXPECT_EQ(describe(value("strings")), "array of 3 string");
  EXPECT_EQ(describe(value("i16")), "i16");
}

TEST(GgufReader, AccessorsNeverConvert) {
  const auto bytes = good_file().bytes();
  const auto parsed = parse(bytes);
  for (const auto& [key, value] : parsed.value().metadata()) {
    // Two have no list accessor of their own: u32 elements of 2^31, u64 elements.
    EXPECT_EQ(touch(value), key == "big u32s" || key == "u64s" ? 0 : 1) << key;
  }
}

TEST(GgufReader, GettersNameKeyExpectedAndFoundType) {
  const auto bytes = good_file().bytes();
  const auto parsed = parse(bytes);
  const GgufFile& file = parsed.value();
  EXPECT_EQ(file.get_u32("u32").value(), 4000000000U);
  EXPECT_EQ(file.get_f32("f32").value(), 1.5F);
  EXPECT_EQ(file.get_bool("bool").value(), true);
  EXPECT_THAT(file.get_f32s("f32s").value(), ElementsAre(0.5F, -1000.0F));
  EXPECT_THAT(file.get_bools("bools").value(), ElementsAre(false, true, true));
  EXPECT_THAT(file.get_strings("strings").value(), ElementsAre("a", "", "bc"));

  EXPECT_EQ(file.get_string("general.architecture").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(file.get_string("general.architecture").error().message,
            "test.gguf: key 'general.architecture': string expected, found none");
  EXPECT_EQ(file.get_u32("i32").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(file.get_u32("i32").error().message, "test.gguf: key 'i32': u32 expected, found i32");
  EXPECT_EQ(file.get_strings("i32s").error().message,
            "test.gguf: key 'i32s': array of string expected, found array of 2 i32");
  EXPECT_FALSE(file.get_u32("string").ok());
  EXPECT_FALSE(file.get_u32("u32s").ok());
  EXPECT_FALSE(file.get_integers("big u32s").ok());
  EXPECT_FALSE(file.get_integers("u32").ok());
  EXPECT_FALSE(file.get_f32("f64").ok());
  EXPECT_FALSE(file.get_bool("u8").ok());
}

TEST(GgufReader, PlacesTensors) {
  const auto bytes = good_file().bytes();
  const auto parsed = parse(bytes);
  const GgufTensor* b = parsed.value().find_tensor("b.bias");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->data.size(), 20U);
  EXPECT_EQ(b->data[0], std::byte{0x22});
  EXPECT_EQ((b->data.data() - bytes.data()) % 32, 0);
  EXPECT_EQ(parsed.value().tensors()[0].n_rows(), 3U);
  EXPECT_EQ(parsed.value().tensors()[0].n_elements(), 768U);
  EXPECT_EQ(parsed.value().find_tensor("c"), nullptr);
  EXPECT_EQ(parsed.value().find("c"), nullptr);
}

// Where the payload of the last tensor is complete, the padding behind it may be missing.
TEST(GgufReader, RefusesEveryTruncation) {
  const std::vector<std::byte> bytes = good_file().bytes();
  const size_t end = bytes.size() - 12;  // 20 bytes of data padded to 32
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const std::vector<std::byte> prefix(bytes.begin(),
                                        bytes.begin() + static_cast<ptrdiff_t>(size));
    const auto parsed = parse(prefix);
    ASSERT_EQ(parsed.ok(), size >= end) << size;
    if (!parsed.ok()) {
      EXPECT_THAT(parsed.error().message, HasSubstr("test.gguf: "));
    }
  }
}

TEST(GgufReader, SurvivesEveryCorruptByte) {
  const std::vector<std::byte> good = good_file().bytes();
  size_t refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const std::byte bad : {std::byte{0}, std::byte{0xFF}, good[i] ^ std::byte{0x80}}) {
      std::vector<std::byte> bytes = good;
      bytes[i] = bad;
      const auto parsed = parse(bytes);
      refused += parsed.ok() ? 0 : 1;
      if (parsed.ok()) {
        EXPECT_TRUE(touch(parsed.value())) << i;
      }
    }
  }
  EXPECT_GT(refused, 300U);  // at least the high bytes of every length, count and offset
}

struct Accepted {
  const char* name;
  TestFile file;
};

std::vector<Accepted> accepted_files() {
  TestFile version_2 = good_file();
  version_2.version = 2;
  TestFile alignment_1 = {.alignment = 1};
  alignment_1.key("general.alignment", kU32, bytes_of(1U));
  alignment_1.tensor("a", {3}, kTypeI8, 0).payload(3, 1).tensor("b", {5}, kTypeI8, 3).payload(5, 1);
  TestFile alignment_64 = {.alignment = 64};
  alignment_64.key("general.alignment", kU32, bytes_of(64U));
  alignment_64.tensor("a", {3}, kTypeI8, 0).payload(3, 1);
  alignment_64.tensor("b", {5}, kTypeI8, 64).payload(5, 1);
  TestFile trailing = good_file();
  trailing.data.fill(100, 0xFF);
  const std::string longest(63, 'n');
  const std::string longest_key(65535, 'k');
  return {
      {"nothing", {}},
      {"version_2", version_2},
      {"alignment_1", alignment_1},
      {"alignment_64", alignment_64},
      {"bytes_behind_the_end", trailing},
      {"longest_tensor_name", TestFile().tensor(longest, {1}, kTypeI8, 0).payload(1, 1)},
      {"longest_key", TestFile().key(longest_key, kBool, bytes_of<uint8_t>(1))},
      {"four_dimensions", TestFile().tensor("t", {2, 1, 3, 1}, kTypeI8, 0).payload(6, 1)},
      {"one_shard", TestFile().key("split.count", kU16, bytes_of<uint16_t>(1))},
      {"no_shards", TestFile().key("split.count", kU16, bytes_of<uint16_t>(0))},
  };
}

TEST(GgufReader, Accepts) {
  for (const Accepted& accepted : accepted_files()) {
    SCOPED_TRACE(accepted.name);
    const std::vector<std::byte> bytes = accepted.file.bytes();
    const auto parsed = parse(bytes);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed.value().tensors().size(), accepted.file.n_tensors);
    EXPECT_TRUE(touch(parsed.value()));
  }
}

// A search for duplicates among all pairs would take hours here.
TEST(GgufReader, ReadsAMillionKeysAndTensors) {
  constexpr uint64_t kCount = uint64_t{1} << 20;
  TestFile file;
  for (uint64_t i = 0; i < kCount; ++i) {
    const std::string name = std::to_string(i * 7919 % kCount);
    file.key(name, kBool, bytes_of<uint8_t>(1)).tensor(name, {1}, kTypeI8, i * 32);
  }
  file.payload(kCount * 32, 1);
  const std::vector<std::byte> bytes = file.bytes();
  const auto parsed = parse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().metadata().size(), kCount);
  EXPECT_EQ(parsed.value().find("7919"), &parsed.value().metadata()[1].second);
  EXPECT_EQ(parsed.value().find_tensor("7919"), &parsed.value().tensors()[1]);
  EXPECT_EQ(parsed.value().find(std::to_string(kCount)), nullptr);
}

}  // namespace
}  // namespace hf2q
