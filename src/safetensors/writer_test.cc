#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "safetensors/safetensors.h"
#include "safetensors/test_files.h"

namespace hf2q {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

SourceTensor tensor_of(std::string name, Dtype dtype, std::vector<uint64_t> shape,
                       std::string_view bytes) {
  return {std::move(name), dtype, std::move(shape), std::as_bytes(std::span(bytes))};
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class SafetensorsWriter : public FolderTest {
 protected:
  std::string path_ = {};
  void SetUp() override {
    FolderTest::SetUp();
    path_ = (folder_ / "out.safetensors").string();
  }
};

TEST_F(SafetensorsWriter, WritesTheBytesOfTheFormatInTheGivenOrder) {
  const SourceTensor tensors[] = {tensor_of("b", Dtype::kF32, {1, 2}, "BBBBbbbb"),
                                  tensor_of("a", Dtype::kBF16, {}, "AA")};
  const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}, {"n", "2"}};
  auto status = write_safetensors(path_, tensors, metadata);
  ASSERT_TRUE(status.ok()) << status.error().message;
  const std::string header = R"({"__metadata__":{"format":"pt","n":"2"},)"
                             R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}})";
  ASSERT_EQ(header.size() % 8, 5U);
  EXPECT_EQ(content_of(path_), file_with(header + "   ", "BBBBbbbbAA"));
}

TEST_F(SafetensorsWriter, WritesAFileWithoutTensors) {
  ASSERT_TRUE(write_safetensors(path_, {}).ok());
  EXPECT_EQ(content_of(path_), file_with("{}      "));
}

TEST_F(SafetensorsWriter, EscapesNamesSoThatTheyReadBack) {
  const std::string odd = "quote\" slash\\ tab\t unit\x1F umlaut\u00FC emoji\U0001F600";
  const SourceTensor tensors[] = {tensor_of(odd, Dtype::kU8, {1}, "x")};
  const std::pair<std::string, std::string> metadata[] = {{odd, odd}};
  ASSERT_TRUE(write_safetensors(path_, tensors, metadata).ok());
  EXPECT_THAT(content_of(path_), HasSubstr(R"("quote\" slash\\ tab\u0009 unit\u001f )"));
  auto file = SafetensorsFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_NE(file.value().find(odd), nullptr);
  EXPECT_EQ(file.value().metadata()[0], metadata[0]);
}

TEST_F(SafetensorsWriter, RefusesWhatAReaderWouldRefuse) {
  const struct {
    std::vector<std::string> names;
    const char* message;
  } kCases[] = {
      {{"a", "a"}, "key \"a\" appears twice"},
      {{""}, "empty name"},
      {{std::string("a\0b", 3)}, "NUL in the name"},
      {{std::string(65'537, 'n')}, "at most 65536 bytes"},
      {{"__metadata__"}, "no tensor may be named __metadata__"},
      {{"\xFF"}, "UTF-8"},
  };
  for (const auto& [names, message] : kCases) {
    std::vector<SourceTensor> tensors;
    for (const std::string& name : names) tensors.push_back(tensor_of(name, Dtype::kU8, {1}, "x"));
    auto status = write_safetensors(path_, tensors);
    ASSERT_FALSE(status.ok()) << message;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, StartsWith(path_ + ": "));
    EXPECT_THAT(status.error().message, HasSubstr(message));
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  }
}

TEST_F(SafetensorsWriter, RefusesMetadataWithAKeyTwice) {
  const std::pair<std::string, std::string> metadata[] = {{"k", "1"}, {"k", "2"}};
  EXPECT_THAT(message_of(write_safetensors(path_, {}, metadata)),
              HasSubstr(R"(key "__metadata__"."k" appears twice)"));
}

TEST_F(SafetensorsWriter, NamesAPathThatCannotBeWritten) {
  auto status = write_safetensors((folder_ / "none" / "out.safetensors").string(), {});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("none/out.safetensors"));
}

TEST_F(SafetensorsWriter, ChecksThatDataAndShapeAgree) {
  const SourceTensor tensors[] = {tensor_of("a", Dtype::kF32, {2}, "1234567")};
  EXPECT_DEATH(static_cast<void>(write_safetensors(path_, tensors)), "check failed");
}

}  // namespace
}  // namespace hf2q
