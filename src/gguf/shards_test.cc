#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gguf/reader.h"
#include "gguf/test_file.h"

namespace hf2q {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

class GgufShards : public testing::Test {
 protected:
  void SetUp() override {
    const char* name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ =
        std::filesystem::temp_directory_path() / ("hf2q_shards_" + std::to_string(getpid()) + name);
    std::filesystem::create_directories(folder_);
    for (int i = 0; i < 3; ++i) write(i, shard(i));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static TestFile split(int number, int count, int n_tensors) {
    TestFile file;
    file.key("split.no", kU16, bytes_of(static_cast<uint16_t>(number)));
    file.key("split.count", kU16, bytes_of(static_cast<uint16_t>(count)));
    return file.key("split.tensors.count", kI32, bytes_of(n_tensors));
  }
  // A good model: metadata only, then two shards with one tensor and two.
  static TestFile shard(int number) {
    TestFile file = split(number, 3, 3);
    if (number == 0) file.key("general.architecture", kString, string_bytes("gemma4"));
    if (number == 1) file.tensor("a", {3}, kTypeI8, 0).payload(3, 0xA);
    if (number == 2) {
      file.tensor("b", {4}, kTypeI8, 0).payload(4, 0xB);
      file.tensor("c", {5}, kTypeI8, 32).payload(5, 0xC);
    }
    return file;
  }
  std::string path(int number) const {
    return folder_ / ("m-0000" + std::to_string(number + 1) + "-of-00003.gguf");
  }
  void write(int number, const TestFile& file) const { write(path(number), file); }
  static void write(const std::string& path, const TestFile& file) {
    const std::vector<std::byte> bytes = file.bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  std::string error_of(const std::string& path) const {
    const auto file = GgufFile::open(path);
    return file.ok() ? "none" : file.error().message;
  }

  std::filesystem::path folder_;
};

TEST_F(GgufShards, AreOneModel) {
  const auto opened = GgufFile::open(path(0));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const GgufFile& file = opened.value();
  EXPECT_EQ(file.n_shards(), 3U);
  EXPECT_THAT(file.shard_paths(), testing::ElementsAre(path(0), path(1), path(2)));
  EXPECT_EQ(file.file_bytes(),
            shard(0).bytes().size() + shard(1).bytes().size() + shard(2).bytes().size());
  EXPECT_EQ(file.get_string("general.architecture").value(), "gemma4");
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[2].name, "c");
  EXPECT_EQ(file.find_tensor("b")->data.size(), 4U);
  EXPECT_EQ(file.find_tensor("b")->data[3], std::byte{0xB});
  EXPECT_TRUE(touch(file));
  file.will_need(file.find_tensor("c")->data);
  file.release(file.find_tensor("c")->data);
  EXPECT_EQ(file.find_tensor("c")->data[4], std::byte{0xC});
}

TEST_F(GgufShards, AnotherThanTheFirstIsRefusedWithItsName) {
  EXPECT_EQ(error_of(path(1)), path(1) + ": this is shard 2 of 3, open the first one: " + path(0));
  EXPECT_EQ(GgufFile::open(path(1)).error().code, ErrorCode::kUnsupported);
  std::filesystem::rename(path(1), folder_ / "x.gguf");
  EXPECT_THAT(error_of(folder_ / "x.gguf"),
              HasSubstr("open the first one: NAME-00001-of-00003.gguf"));
}

TEST_F(GgufShards, TheNameMustFit) {
  std::filesystem::rename(path(0), folder_ / "m.gguf");
  EXPECT_EQ(GgufFile::open(folder_ / "m.gguf").error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(error_of(folder_ / "m.gguf"),
              HasSubstr("this is shard 1 of 3, a name that ends in -00001-of-00003.gguf expected"));
}

TEST_F(GgufShards, AMissingShardIsNamed) {
  std::filesystem::remove(path(2));
  EXPECT_EQ(GgufFile::open(path(0)).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(error_of(path(0)), HasSubstr(path(0) + ": shard 3 of 3: " + path(2)));
}

TEST_F(GgufShards, EachMustBeWhatItsNameSays) {
  write(2, shard(1));
  EXPECT_EQ(error_of(path(0)),
            path(2) + ": shard 3 of 3 with 3 tensors in all expected, found shard 2 of 3 with 3");
  write(2, split(2, 4, 3).tensor("b", {1}, kTypeI8, 0).payload(1, 1));
  EXPECT_THAT(error_of(path(0)), HasSubstr("found shard 3 of 4 with 3"));
  write(2, split(2, 3, 4).tensor("b", {1}, kTypeI8, 0).payload(1, 1));
  EXPECT_THAT(error_of(path(0)), HasSubstr("found shard 3 of 3 with 4"));
  write(2, TestFile());
  EXPECT_THAT(error_of(path(0)), HasSubstr("found shard 1 of 1 with 0"));
  write(2, shard(2).key("general.architecture", kString, string_bytes("llama")));
  EXPECT_THAT(
      error_of(path(0)),
      HasSubstr(path(2) + ": key 'general.architecture': the value of the first shard expected"));
}

TEST_F(GgufShards, TensorsMustBeComplete) {
  write(2, split(2, 3, 3).tensor("b", {4}, kTypeI8, 0).payload(4, 0xB));
  EXPECT_EQ(error_of(path(0)), path(0) + ": 3 tensors in 3 shards expected, found 2");
}

TEST_F(GgufShards, TensorsMustDiffer) {
  TestFile file = split(2, 3, 3);
  write(2, file.tensor("b", {4}, kTypeI8, 0).tensor("a", {4}, kTypeI8, 32).payload(64, 1));
  EXPECT_THAT(error_of(path(0)), HasSubstr("tensor 'a': unique names expected, tensors 0 and 2"));
}

TEST_F(GgufShards, ABrokenSiblingIsNamed) {
  std::filesystem::resize_file(path(2), std::filesystem::file_size(path(2)) - 32);
  EXPECT_THAT(error_of(path(0)), HasSubstr(path(2) + ": tensor 'c': 5 bytes of data expected"));
}

TEST_F(GgufShards, KeysAreChecked) {
  const Bytes one = bytes_of<uint16_t>(1);
  const std::string file = folder_ / "x.gguf";
  const auto error_with = [&](const TestFile& keys) {
    write(file, keys);
    return error_of(file);
  };
  EXPECT_THAT(error_with(split(0, 65535, 3)),
              HasSubstr("key 'split.count': at most 1024 expected, found 65535"));
  EXPECT_THAT(error_with(split(3, 3, 3)),
              HasSubstr("key 'split.no': less than split.count 3 expected, found 3"));
  EXPECT_THAT(error_with(split(0, 3, -1)),
              HasSubstr("key 'split.tensors.count': 0 or more expected, found -1"));
  EXPECT_THAT(error_with(TestFile().key("split.count", kU32, bytes_of(3U))),
              HasSubstr("key 'split.count': u16 expected in a shard, found u32"));
  EXPECT_THAT(error_with(TestFile().key("split.count", kU16, bytes_of<uint16_t>(3))),
              HasSubstr("key 'split.no': u16 expected in a shard, found none"));
  EXPECT_THAT(
      error_with(
          TestFile().key("split.count", kU16, bytes_of<uint16_t>(3)).key("split.no", kU16, one)),
      HasSubstr("key 'split.tensors.count': i32 expected in a shard, found none"));
}

// The size is taken when the file is mapped, and every tensor checked against it.
TEST_F(GgufShards, ASingleFileThatWasCutIsRefused) {
  const std::string file = folder_ / "x.gguf";
  write(file, TestFile().tensor("t", {4096}, kTypeI8, 0).payload(4096, 1));
  EXPECT_EQ(error_of(file), "none");
  std::filesystem::resize_file(file, 4096);
  EXPECT_EQ(error_of(file),
            file + ": tensor 't': 4096 bytes of data expected at 64, the file has 4096 bytes");
  EXPECT_EQ(GgufFile::open(folder_ / "none.gguf").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(GgufFile::open(folder_).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace hf2q
