#include "gguf/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gguf/reader.h"
#include "gguf/test_file.h"

namespace hf2q {
namespace {

using namespace test;
using testing::ElementsAre;

class GgufWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ =
        std::filesystem::temp_directory_path() / ("hf2q_writer_" + std::to_string(getpid()) + name);
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "out.gguf";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Writes a file whose tensors' data are `fill` bytes, in pieces of `piece` bytes.
  void write(const GgufMetadata& metadata, const std::vector<GgufTensorInfo>& tensors, int fill,
             size_t piece = 1 << 20) const {
    auto writer = GgufWriter::create(path_, metadata, tensors);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    for (const GgufTensorInfo& tensor : tensors) {
      const std::vector<std::byte> data(tensor.n_bytes(), static_cast<std::byte>(fill));
      for (std::span<const std::byte> rest = data; !rest.empty();) {
        const size_t step = std::min(piece, rest.size());
        ASSERT_TRUE(writer.value().write(rest.first(step)).ok());
        rest = rest.subspan(step);
      }
    }
    ASSERT_TRUE(writer.value().commit().ok());
    EXPECT_EQ(writer.value().size(), std::filesystem::file_size(path_));
  }
  std::string file_text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
  std::string path_;
};

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data.data()), bytes.data.size()};
}

TEST_F(GgufWriterTest, WritesTheExampleOfTheFormat) {
  GgufMetadata metadata;
  metadata.set_string("general.architecture", "gemma4");
  metadata.set_integers("x.a", std::vector<int32_t>{-1, 2});
  for (const size_t piece : {1, 7, 68}) {
    write(metadata, {{"t.weight", {32, 2}, TensorType::kQ8_0}}, 0x55, piece);
    EXPECT_EQ(file_text(), text_of(example_file()));
  }
}

TEST_F(GgufWriterTest, DropsTrailingDimensionsOfOne) {
  write({}, {{"a", {1, 1}, TensorType::kF32}, {"b", {2, 1, 3, 1}, TensorType::kF16}}, 1);
  TestFile expected;
  expected.tensor("a", {1}, kTypeF32, 0).tensor("b", {2, 1, 3}, 1, 32).payload(4, 1).payload(12, 1);
  EXPECT_EQ(file_text(), text_of(Bytes().raw(expected.bytes())));
}

TEST_F(GgufWriterTest, EveryValueComesBack) {
  GgufMetadata metadata;
  metadata.set_u32("u32", 4000000000U);
  metadata.set_i32("i32", -5);
  metadata.set_f32("f32", 1e-6F);
  metadata.set_bool("true", true);
  metadata.set_bool("false", false);
  metadata.set_string("string", "h\u00e9llo");
  metadata.set_integers("integers", std::vector<int32_t>{1, -2, 3});
  metadata.set_f32s("f32s", std::vector<float>{-1000.0F, 0.5F});
  metadata.set_bools("bools", {true, false, true});
  metadata.set_strings("strings", std::vector<std::string_view>{"a", "", "b c"});
  metadata.set_strings("none", {});
  write(metadata, {}, 0);
  const auto opened = GgufFile::open(path_);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const GgufFile& file = opened.value();
  EXPECT_EQ(file.version(), 3U);
  EXPECT_EQ(file.metadata().size(), 11U);
  EXPECT_EQ(file.metadata()[0].first, "u32");
  EXPECT_EQ(file.get_u32("u32").value(), 4000000000U);
  EXPECT_EQ(file.find("i32")->as_i32(), -5);
  EXPECT_EQ(file.get_f32("f32").value(), 1e-6F);
  EXPECT_EQ(file.get_bool("true").value(), true);
  EXPECT_EQ(file.get_bool("false").value(), false);
  EXPECT_EQ(file.get_string("string").value(), "h\u00e9llo");
  EXPECT_THAT(file.get_integers("integers").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(file.get_f32s("f32s").value(), ElementsAre(-1000.0F, 0.5F));
  EXPECT_THAT(file.get_bools("bools").value(), ElementsAre(true, false, true));
  EXPECT_THAT(file.get_strings("strings").value(), ElementsAre("a", "", "b c"));
  EXPECT_TRUE(file.get_strings("none").value().empty());
}

// Values of every type, from a file made by hand, copied into another: the same bytes again.
TEST_F(GgufWriterTest, CopiesValuesAsTheyAre) {
  const std::vector<std::byte> bytes = good_file().bytes();
  const auto source = GgufFile::parse(bytes, "source");
  ASSERT_TRUE(source.ok()) << source.error().message;
  GgufMetadata metadata;
  for (const auto& [key, value] : source.value().metadata()) metadata.set(key, value);
  write(metadata, {}, 0);
  TestFile expected = good_file();
  expected.n_tensors = 0;
  expected.tensors = expected.data = {};
  EXPECT_EQ(file_text(), text_of(Bytes().raw(expected.bytes()).pad(32)));
}

TEST_F(GgufWriterTest, SettingAgainKeepsThePlaceAndRemovingClosesTheGap) {
  GgufMetadata metadata;
  metadata.set_u32("a", 1);
  metadata.set_u32("b", 2);
  metadata.set_u32("c", 3);
  metadata.set_string("a", "x");
  metadata.remove("b");
  metadata.remove("absent");
  metadata.set_u32("c", 4);
  metadata.set_u32("b", 5);
  write(metadata, {}, 0);
  TestFile expected;
  expected.key("a", kString, string_bytes("x")).key("c", kU32, bytes_of(4U));
  expected.key("b", kU32, bytes_of(5U));
  EXPECT_EQ(file_text(), text_of(Bytes().raw(expected.bytes()).pad(32)));
}

TEST_F(GgufWriterTest, LeavesOutKeysThatDescribeAnotherFile) {
  GgufMetadata metadata;
  metadata.set_u32("general.alignment", 64);
  metadata.set_u32("split.no", 0);
  metadata.set_u32("split.count", 3);
  metadata.set_i32("split.tensors.count", 9);
  metadata.set_u32("kept", 1);
  write(metadata, {{"t", {3}, TensorType::kF32}}, 1);
  TestFile expected;
  expected.key("kept", kU32, bytes_of(1U)).tensor("t", {3}, kTypeF32, 0).payload(12, 1);
  EXPECT_EQ(file_text(), text_of(Bytes().raw(expected.bytes())));
}

TEST_F(GgufWriterTest, SizesAreKnownBefore) {
  const std::vector<GgufTensorInfo> tensors = {{"a", {2816, 262144}, TensorType::kQ6_K},
                                               {"b", {3}, TensorType::kF32},
                                               {"c", {704, 2816, 128}, TensorType::kQ8_0}};
  EXPECT_EQ(tensors[0].n_bytes(), 605552640U);  // 2816 / 256 * 210 * 262144
  EXPECT_EQ(tensors[2].n_bytes(), 269615104U);  // 704 / 32 * 34 * 2816 * 128
  EXPECT_EQ(gguf_data_bytes(tensors), 605552640U + 32 + 269615104U);
}

TEST_F(GgufWriterTest, NothingAppearsBeforeTheCommit) {
  {
    const std::vector<GgufTensorInfo> tensors = {{"t", {3}, TensorType::kF32}};
    auto writer = GgufWriter::create(path_, {}, tensors);
    ASSERT_TRUE(writer.ok());
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_EQ(GgufWriter::create(folder_ / "none" / "x", {}, {}).error().code, ErrorCode::kIo);
}

using GgufWriterDeathTest = GgufWriterTest;

TEST_F(GgufWriterDeathTest, ChecksItsCaller) {
  const auto create = [this](const std::vector<GgufTensorInfo>& tensors) {
    return GgufWriter::create(path_, {}, tensors);
  };
  const TensorType f32 = TensorType::kF32;
  EXPECT_DEATH(static_cast<void>(create({{"t", {1}, f32}, {"t", {1}, f32}})), "check failed");
  EXPECT_DEATH(static_cast<void>(create({{"", {1}, f32}})), "check failed");
  EXPECT_DEATH(static_cast<void>(create({{std::string(64, 'n'), {1}, f32}})), "check failed");
  EXPECT_DEATH(static_cast<void>(create({{"t", {}, f32}})), "check failed");
  EXPECT_DEATH(static_cast<void>(create({{"t", {1, 1, 1, 1, 1}, f32}})), "check failed");
  EXPECT_DEATH(static_cast<void>(create({{"t", {1, 0}, f32}})), "check failed");
  EXPECT_DEATH(static_cast<void>(create({{"t", {31}, TensorType::kQ8_0}})), "check failed");
  EXPECT_DEATH(GgufMetadata().set_u32("", 1), "check failed");
  auto writer = create({{"t", {2}, f32}});
  const std::vector<std::byte> nine(9);
  EXPECT_DEATH(static_cast<void>(writer.value().write(nine)), "check failed");
  EXPECT_DEATH(static_cast<void>(writer.value().commit()), "check failed");
}

}  // namespace
}  // namespace hf2q
