#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "safetensors/safetensors.h"
#include "safetensors/test_files.h"
#include "safetensors/weight_map.h"

namespace hf2q {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr const char* kIndex = "model.safetensors.index.json";

// A file with one-byte tensors of these names; each holds the first letter of its name.
std::string part_with(const std::vector<std::string>& names) {
  std::string header;
  std::string data;
  for (const std::string& name : names) {
    header += header.empty() ? '{' : ',';
    header += fmt::format(R"("{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", name,
                          data.size(), data.size() + 1);
    data += name.front();
  }
  return file_with(header + "}", data);
}

std::string index_with(std::string_view weight_map) {
  return fmt::format("{{\"metadata\": {{\"total_size\": 3}}, \"weight_map\": {{{}}}}}\n",
                     weight_map);
}

class CheckpointTest : public FolderTest {
 protected:
  Result<Checkpoint> open() const { return Checkpoint::open(folder_.string()); }
  std::string error_of_open() const { return message_of(open()); }

  // Two parts, "a" and "b" in the first, "c" in the second.
  void write_good_checkpoint() const {
    write("1.safetensors", part_with({"b", "a"}));
    write("2.safetensors", part_with({"c"}));
    write(kIndex, index_with(R"("a":"1.safetensors","c":"2.safetensors","b":"1.safetensors")"));
  }
};

TEST_F(CheckpointTest, OpensASingleFile) {
  write("model.safetensors", part_with({"x", "y"}));
  auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint.value().files().size(), 1U);
  EXPECT_EQ(text_of(checkpoint.value().find("y")->data), "y");
  EXPECT_EQ(checkpoint.value().find("z"), nullptr);
  EXPECT_EQ(checkpoint.value().data_bytes(), 2U);
}

TEST_F(CheckpointTest, OpensPartsByTheIndex) {
  write_good_checkpoint();
  auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  std::vector<std::string> names;
  for (const SourceTensor* tensor : checkpoint.value().tensors()) names.push_back(tensor->name);
  EXPECT_THAT(names, ElementsAre("b", "a", "c"));
  EXPECT_EQ(text_of(checkpoint.value().find("c")->data), "c");
  EXPECT_EQ(checkpoint.value().data_bytes(), 3U);
}

TEST_F(CheckpointTest, TheIndexWinsOverASingleFile) {
  write_good_checkpoint();
  write("model.safetensors", part_with({"other"}));
  auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint.value().find("other"), nullptr);
  EXPECT_NE(checkpoint.value().find("a"), nullptr);
}

TEST_F(CheckpointTest, DataIsReadAgainAfterItsPagesWereReleased) {
  const std::string big(1 << 20, 'z');
  write("model.safetensors",
        file_with(R"({"z":{"dtype":"U8","shape":[1048576],"data_offsets":[0,1048576]}})", big));
  auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const SourceTensor* tensor = checkpoint.value().find("z");
  checkpoint.value().will_need(*tensor);
  EXPECT_EQ(text_of(tensor->data), big);
  checkpoint.value().release(tensor->data.subspan(5000, 500'000));
  EXPECT_EQ(text_of(tensor->data), big);
}

TEST_F(CheckpointTest, NamesAFolderThatIsNone) {
  EXPECT_THAT(message_of(Checkpoint::open("/no/such/folder")),
              HasSubstr("/no/such/folder: no such folder"));
  EXPECT_THAT(message_of(Checkpoint::open("")), HasSubstr("no such folder"));
  const std::string file = write("model.safetensors", part_with({"a"})).string();
  EXPECT_THAT(message_of(Checkpoint::open(file)), HasSubstr(file + ": a folder expected"));
}

TEST_F(CheckpointTest, SaysWhatAnEmptyFolderLacks) {
  auto checkpoint = open();
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(
      checkpoint.error().message,
      folder_.string() + ": holds neither model.safetensors.index.json nor model.safetensors");
}

TEST_F(CheckpointTest, NamesAMissingPart) {
  write_good_checkpoint();
  fs::remove(folder_ / "2.safetensors");
  auto checkpoint = open();
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("/2.safetensors: cannot open: No such file"));
}

TEST_F(CheckpointTest, NamesATruncatedPart) {
  write_good_checkpoint();
  const std::string part = part_with({"c"});
  write("2.safetensors", part.substr(0, part.size() - 1));
  EXPECT_THAT(error_of_open(), HasSubstr("/2.safetensors: tensor \"c\": data_offsets: end 1"));
  write("2.safetensors", part.substr(0, 20));
  EXPECT_THAT(error_of_open(), HasSubstr("/2.safetensors: header of"));
}

TEST_F(CheckpointTest, NamesATensorThatItsPartLacks) {
  write_good_checkpoint();
  write("2.safetensors", part_with({"d"}));
  EXPECT_THAT(error_of_open(), HasSubstr("/2.safetensors: no tensor \"c\", which "
                                         "model.safetensors.index.json puts in this part"));
}

TEST_F(CheckpointTest, NamesATensorThatTheIndexLacks) {
  write_good_checkpoint();
  write("2.safetensors", part_with({"c", "stray"}));
  EXPECT_THAT(error_of_open(),
              HasSubstr("/2.safetensors: tensor \"stray\": model.safetensors.index.json does not "
                        "put it in this part"));
}

TEST_F(CheckpointTest, NamesATensorThatIsInTwoParts) {
  write_good_checkpoint();
  write("2.safetensors", part_with({"c", "a"}));
  EXPECT_THAT(error_of_open(), HasSubstr("/2.safetensors: tensor \"a\": "));
}

TEST_F(CheckpointTest, NamesATensorInAnotherPartThanTheIndexSays) {
  write_good_checkpoint();
  write("1.safetensors", part_with({"b"}));
  write("2.safetensors", part_with({"c", "a"}));
  EXPECT_THAT(error_of_open(), HasSubstr("/1.safetensors: no tensor \"a\""));
}

TEST_F(CheckpointTest, RefusesPartNamesThatAreNotPlainFileNames) {
  const char* const kParts[] = {
      R"("sub/1.safetensors")",
      R"("../1.safetensors")",
      R"("..")",
      R"(".")",
      R"("/etc/passwd")",
      R"("sub\\1")",
      R"("C:1")",
      R"("a..b")",
      R"("a\u0000b")",
      R"("")",
      R"("\u002e.")",
  };
  for (const char* part : kParts) {
    write(kIndex, index_with(fmt::format(R"("a":{})", part)));
    EXPECT_THAT(error_of_open(), HasSubstr("index.json: weight_map: \"a\": the name of a file in "
                                           "the same folder expected, found \""))
        << part;
  }
}

TEST_F(CheckpointTest, RefusesPartNamesThatAreNotStrings) {
  for (const char* part : {"1", "null", "[\"1\"]", "{}", "true"}) {
    write(kIndex, index_with(fmt::format(R"("a":{})", part)));
    EXPECT_THAT(error_of_open(),
                HasSubstr("index.json: weight_map: \"a\": a file name expected, found "))
        << part;
  }
}

TEST_F(CheckpointTest, NamesAPartWithATooLongName) {
  write(kIndex, index_with(fmt::format(R"("a":"{}")", std::string(300, 'p'))));
  EXPECT_THAT(error_of_open(), HasSubstr("cannot open: File name too long"));
}

TEST_F(CheckpointTest, RefusesADirectoryInPlaceOfAPart) {
  write_good_checkpoint();
  fs::remove(folder_ / "2.safetensors");
  fs::create_directory(folder_ / "2.safetensors");
  EXPECT_THAT(error_of_open(), HasSubstr("2.safetensors: a regular file expected"));
}

TEST_F(CheckpointTest, RefusesAnIndexWithoutAMap) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "not valid JSON"},
      {"[]", "an object with the object weight_map expected"},
      {"{}", "an object with the object weight_map expected"},
      {R"({"weight_map":[]})", "an object with the object weight_map expected"},
      {R"({"weight_map":{}})", "weight_map is empty"},
      {R"({"weight_map":{"a":"1","a":"2"}})", R"(key "weight_map"."a" appears twice)"},
      {R"({"weight_map":{},"weight_map":{}})", R"(key "weight_map" appears twice)"},
      {R"({"weight_map":{"a":"1"}} x)", "not valid JSON"},
      {"\xEF\xBB\xBF{\"weight_map\":{\"a\":\"1\"}}", "not valid JSON"},
  };
  for (const auto& [text, message] : kCases) {
    write(kIndex, text);
    EXPECT_THAT(error_of_open(), HasSubstr(std::string(kIndex) + ": " + message)) << text;
  }
}

TEST(WeightMap, RefusesEveryTruncation) {
  const std::string text = R"({"metadata":{"total_size":2},"weight_map":{"a":"1","b":"2"}})";
  auto map = parse_weight_map(text, "index");
  ASSERT_TRUE(map.ok()) << map.error().message;
  EXPECT_THAT(map.value(), ElementsAre(Pair("a", "1"), Pair("b", "2")));
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(message_of(parse_weight_map(text.substr(0, size), "index")),
                HasSubstr("index: not valid JSON"))
        << size;
  }
}

TEST_F(CheckpointTest, AcceptsLinksInsideTheFolder) {
  write("real.safetensors", part_with({"a"}));
  fs::create_symlink("real.safetensors", folder_ / "model.safetensors");
  EXPECT_EQ(error_of_open(), "no error");
}

TEST_F(CheckpointTest, RefusesLinksOutOfTheFolder) {
  write("outside.safetensors", part_with({"a"}));
  write(std::string("outside-index"), index_with(R"("a":"model.safetensors")"));
  fs::create_directories(folder_ / "model-folder-2");  // a name that only begins like the folder's
  write("model-folder-2/a.safetensors", part_with({"a"}));
  const fs::path model = folder_ / "model-folder";
  fs::create_directory(model);
  for (const char* target : {"../outside.safetensors", "../model-folder-2/a.safetensors"}) {
    fs::create_symlink(target, model / "model.safetensors");
    EXPECT_THAT(message_of(Checkpoint::open(model.string())),
                HasSubstr("model-folder/model.safetensors: links to " + folder_.string()));
    fs::remove(model / "model.safetensors");
  }
  fs::create_symlink("../outside-index", model / kIndex);
  EXPECT_THAT(message_of(Checkpoint::open(model.string())), HasSubstr("outside the checkpoint"));
}

TEST_F(CheckpointTest, RefusesPartsThatLinkOutOfTheFolder) {
  write("outside.safetensors", part_with({"a"}));
  write(std::string("model/") + kIndex, index_with(R"("a":"1.safetensors")"));
  fs::create_symlink("../outside.safetensors", folder_ / "model" / "1.safetensors");
  const auto refused = Checkpoint::open((folder_ / "model").string());
  EXPECT_THAT(message_of(refused), HasSubstr("model/1.safetensors: links to "));
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST_F(CheckpointTest, NamesALinkThatLeadsNowhere) {
  fs::create_symlink("gone", folder_ / "model.safetensors");
  EXPECT_THAT(error_of_open(), HasSubstr("/model.safetensors: cannot open: No such file"));
  fs::remove(folder_ / "model.safetensors");
  fs::create_symlink("model.safetensors", folder_ / "model.safetensors");
  EXPECT_THAT(error_of_open(), HasSubstr("/model.safetensors: cannot open: Too many levels"));
}

// MODEL/snapshots/REVISION/file -> ../../blobs/HASH
TEST_F(CheckpointTest, AcceptsTheLinksOfADownloadCache) {
  write("blobs/1111", part_with({"a"}));
  write("blobs/2222", index_with(R"("a":"1.safetensors")"));
  const fs::path revision = folder_ / "snapshots" / "main";
  fs::create_directories(revision);
  fs::create_symlink("../../blobs/1111", revision / "1.safetensors");
  fs::create_symlink("../../blobs/2222", revision / kIndex);
  auto checkpoint = Checkpoint::open(revision.string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(text_of(checkpoint.value().find("a")->data), "a");
  fs::create_symlink(revision, folder_ / "link-to-revision");
  EXPECT_EQ(message_of(Checkpoint::open((folder_ / "link-to-revision").string())), "no error");
}

TEST_F(CheckpointTest, RefusesTheBlobsOfAnotherModel) {
  write("other/blobs/1111", part_with({"a"}));
  const fs::path revision = folder_ / "mine" / "snapshots" / "main";
  fs::create_directories(revision);
  fs::create_symlink("../../../other/blobs/1111", revision / "model.safetensors");
  EXPECT_THAT(message_of(Checkpoint::open(revision.string())), HasSubstr("outside the checkpoint"));
}

TEST_F(CheckpointTest, RefusesASiblingBlobsFolderOutsideACache) {
  write("blobs/1111", part_with({"a"}));
  const fs::path model = folder_ / "models" / "mine";
  fs::create_directories(model);
  fs::create_symlink("../../blobs/1111", model / "model.safetensors");
  EXPECT_THAT(message_of(Checkpoint::open(model.string())), HasSubstr("outside the checkpoint"));
}

TEST(CheckpointOfTheModel, HoldsWhatItsWriterSaid) {
  const std::string folder = HF2Q_MODELS "/tiny-gemma4";
  auto checkpoint = Checkpoint::open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  std::ifstream json(folder + "/" + kIndex);
  const auto index = nlohmann::json::parse(json);
  EXPECT_EQ(checkpoint.value().data_bytes(), index["metadata"]["total_size"].get<uint64_t>());
  EXPECT_EQ(checkpoint.value().tensors().size(), index["weight_map"].size());
}

}  // namespace
}  // namespace hf2q
