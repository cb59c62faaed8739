#include "convert/imatrix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/mapped_file.h"
#include "base/output_file.h"

namespace hf2q {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Little-endian bytes, put together by hand.
struct Bytes {
  std::vector<std::byte> data;

  template <class T>
  Bytes& put(T value) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    data.insert(data.end(), first, first + sizeof(value));
    return *this;
  }
  Bytes& raw(std::string_view text) {
    for (const char c : text) put(c);
    return *this;
  }
  Bytes& string(std::string_view text) { return put(uint64_t{text.size()}).raw(text); }
  Bytes& pad() {
    data.resize((data.size() + 31) / 32 * 32);
    return *this;
  }
};

Result<Imatrix> parse(const Bytes& bytes) {
  return parse_imatrix(bytes.data, "test.imatrix");
}

void expect_refused(const Bytes& bytes, const std::string& message) {
  auto parsed = parse(bytes);
  ASSERT_FALSE(parsed.ok()) << message;
  EXPECT_THAT(parsed.error().message, HasSubstr("test.imatrix"));
  EXPECT_THAT(parsed.error().message, HasSubstr(message));
}

std::string write_file(const std::string& name, std::span<const std::byte> bytes) {
  const std::string path = testing::TempDir() + name;
  auto file = OutputFile::create(path);
  EXPECT_TRUE(file.ok() && file.value().write(bytes).ok() && file.value().commit().ok());
  return path;
}

// ---- GGUF form

struct Tensor {
  std::string name;
  std::vector<uint64_t> dims;
  std::vector<float> values;
  uint32_t type = 0;  // F32
};

struct File {
  std::string general_type = "imatrix";
  std::vector<std::string> missing_keys;
  std::vector<Tensor> tensors;

  bool has(std::string_view key) const {
    return std::ranges::find(missing_keys, key) == missing_keys.end();
  }
};

Bytes metadata_bytes(const File& file) {
  Bytes bytes;
  if (file.has("general.type")) bytes.string("general.type").put(8U).string(file.general_type);
  if (file.has("imatrix.datasets")) {
    bytes.string("imatrix.datasets").put(9U).put(8U).put(uint64_t{2});
    bytes.string("a.txt").string("b.txt");
  }
  if (file.has("imatrix.chunk_count")) bytes.string("imatrix.chunk_count").put(4U).put(7U);
  if (file.has("imatrix.chunk_size")) bytes.string("imatrix.chunk_size").put(4U).put(512U);
  return bytes;
}

Bytes gguf_bytes(const File& file) {
  Bytes bytes;
  bytes.raw("GGUF").put(3U).put(uint64_t{file.tensors.size()});
  bytes.put(uint64_t{4 - file.missing_keys.size()});
  const Bytes metadata = metadata_bytes(file);
  bytes.data.insert(bytes.data.end(), metadata.data.begin(), metadata.data.end());
  uint64_t offset = 0;
  for (const Tensor& tensor : file.tensors) {
    bytes.string(tensor.name).put(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) bytes.put(dim);
    bytes.put(tensor.type).put(offset);
    offset += (tensor.values.size() * 4 + 31) / 32 * 32;
  }
  bytes.pad();
  for (const Tensor& tensor : file.tensors) {
    for (const float value : tensor.values) bytes.put(value);
    bytes.pad();
  }
  return bytes;
}

// A dense weight with rows of 2, and 3 experts with rows of 2.
File good_file() {
  File file;
  file.tensors = {
      {"blk.0.attn_q.weight.in_sum2", {2}, {1.5F, 2.5F}},
      {"blk.0.attn_q.weight.counts", {1}, {4.0F}},
      {"blk.0.ffn_down_exps.weight.in_sum2", {2, 3}, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}},
      {"blk.0.ffn_down_exps.weight.counts", {1, 3}, {1.0F, 0.0F, 9.0F}},
  };
  return file;
}

void expect_good(const Imatrix& imatrix) {
  ASSERT_EQ(imatrix.entries.size(), 2U);
  const ImatrixEntry& dense = imatrix.entries.at("blk.0.attn_q.weight");
  EXPECT_THAT(dense.sums, ElementsAre(1.5F, 2.5F));
  EXPECT_THAT(dense.counts, ElementsAre(4));
  const ImatrixEntry& experts = imatrix.entries.at("blk.0.ffn_down_exps.weight");
  EXPECT_THAT(experts.sums, ElementsAre(1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F));
  EXPECT_THAT(experts.counts, ElementsAre(1, 0, 9));
  EXPECT_THAT(imatrix.datasets, ElementsAre("a.txt", "b.txt"));
  EXPECT_EQ(imatrix.chunk_count, 7U);
  EXPECT_EQ(imatrix.chunk_size, 512U);
}

TEST(ImatrixGguf, ReadsAFilePutTogetherByHand) {
  auto parsed = parse(gguf_bytes(good_file()));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  expect_good(parsed.value());
}

TEST(ImatrixGguf, WritesTheSameBytesAndReadsThemBack) {
  const Bytes by_hand = gguf_bytes(good_file());
  const Imatrix imatrix = parse(by_hand).value();
  const std::string path = testing::TempDir() + "written.imatrix.gguf";
  ASSERT_TRUE(write_imatrix(path, imatrix).ok());
  auto written = MappedFile::open(path);
  ASSERT_TRUE(written.ok());
  EXPECT_TRUE(std::ranges::equal(written.value().bytes(), by_hand.data));
  auto read = read_imatrix(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  expect_good(read.value());
}

TEST(ImatrixGguf, EveryTruncationIsRefused) {
  const Bytes whole = gguf_bytes(good_file());
  // The padding behind the last tensor (3 counts) carries nothing.
  const size_t end_of_data = whole.data.size() - 32 + 12;
  for (size_t n = 0; n < end_of_data; ++n) {
    Bytes cut;
    cut.data.assign(whole.data.begin(), whole.data.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_FALSE(parse(cut).ok()) << n;
  }
}

TEST(ImatrixGguf, EachKeyIsNeeded) {
  for (const std::string key : {"imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"}) {
    File file = good_file();
    file.missing_keys = {key};
    expect_refused(gguf_bytes(file), key);
  }
  File file = good_file();
  file.missing_keys = {"general.type"};
  EXPECT_TRUE(parse(gguf_bytes(file)).ok());
  file.missing_keys = {};
  file.general_type = "model";
  expect_refused(gguf_bytes(file), "general.type: \"imatrix\" expected, found \"model\"");
}

TEST(ImatrixGguf, CountsAreRoundedAndOtherTensorsIgnored) {
  File file;
  file.tensors = {
      {"x.weight.counts", {1, 3}, {6.9999F, 0.4F, 2.5F}},
      {"x.weight.in_sum", {3}, {kNan, 0.0F, 0.0F}},
      {"x.weight.in_sum2", {1, 3}, {1.0F, 2.0F, 3.0F}},
      {".counts", {1}, {kNan}},
  };
  auto parsed = parse(gguf_bytes(file));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed.value().entries.size(), 1U);
  EXPECT_THAT(parsed.value().entries.at("x.weight").counts, ElementsAre(7, 0, 3));
}

TEST(ImatrixGguf, BadEntriesAreRefusedByName) {
  const Tensor sums = {"x.weight.in_sum2", {2, 3}, std::vector<float>(6, 1.0F)};
  const Tensor counts = {"x.weight.counts", {1, 3}, {1.0F, 2.0F, 3.0F}};
  const auto refuse = [](std::vector<Tensor> tensors, const std::string& message) {
    File file;
    file.tensors = std::move(tensors);
    expect_refused(gguf_bytes(file), message);
  };
  refuse({}, "at least one entry");
  refuse({sums}, "x.weight.counts: missing");
  refuse({counts}, "x.weight.in_sum2: missing");
  refuse({sums, {"x.weight.counts", {3}, {1.0F, 2.0F, 3.0F}}}, "x.weight.counts: shape [1, 3]");
  refuse({sums, {"x.weight.counts", {1, 2}, {1.0F, 2.0F}}}, "x.weight.counts: shape [1, 3]");
  refuse({{"x.weight.in_sum2", {2, 3, 2}, std::vector<float>(12, 1.0F)}, counts},
         "x.weight.counts: shape [1, 3] expected beside [2, 3, 2, 1]");
  // Two F16 values take the room of one F32.
  refuse({{"x.weight.in_sum2", {2}, {0.0F}, 1}, {"x.weight.counts", {1}, {1.0F}}},
         "x.weight.in_sum2: type f32 expected, found f16");
  refuse({{"x.weight.in_sum2", {1}, {0.0F}}, {"x.weight.counts", {1}, {1.0F}, 26}},
         "x.weight.counts: type f32 expected, found i32");
  for (const float bad : {kNan, kInfinity, -kInfinity, -1.0F}) {
    refuse({{"x.weight.in_sum2", {2}, {1.0F, bad}}, {"x.weight.counts", {1}, {1.0F}}},
           "x.weight.in_sum2: finite values from 0 expected");
    refuse({{"x.weight.in_sum2", {1}, {1.0F}}, {"x.weight.counts", {1}, {bad}}},
           "x.weight.counts: finite values from 0 expected");
  }
  refuse({{"x.weight.in_sum2", {1}, {1.0F}}, {"x.weight.counts", {1}, {1e30F}}},
         "x.weight.counts: counts to 2^53 expected");
}

TEST(ImatrixGguf, ANameWithoutRoomForTheSuffixIsNotWritten) {
  const std::string path = testing::TempDir() + "long.imatrix.gguf";
  Imatrix imatrix;
  imatrix.entries[std::string(55, 'x')] = {{1.0F}, {1}};
  EXPECT_TRUE(write_imatrix(path, imatrix).ok());
  imatrix.entries[std::string(56, 'x')] = {{1.0F}, {1}};
  auto written = write_imatrix(path, imatrix);
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, HasSubstr("1 to 55 bytes expected, found 56"));
}

// ---- legacy form

Bytes legacy_entry(std::string_view name, int32_t n_calls, std::initializer_list<float> values) {
  Bytes bytes;
  bytes.put(static_cast<int32_t>(name.size())).raw(name);
  bytes.put(n_calls).put(static_cast<int32_t>(values.size()));
  for (const float value : values) bytes.put(value);
  return bytes;
}

Bytes legacy(int32_t n_entries, std::initializer_list<Bytes> parts) {
  Bytes bytes;
  bytes.put(n_entries);
  for (const Bytes& part : parts) {
    bytes.data.insert(bytes.data.end(), part.data.begin(), part.data.end());
  }
  return bytes;
}

Bytes legacy_tail(int32_t chunks, std::string_view dataset) {
  Bytes bytes;
  bytes.put(chunks).put(static_cast<int32_t>(dataset.size())).raw(dataset);
  return bytes;
}

TEST(ImatrixLegacy, ReadsAFilePutTogetherByHand) {
  auto parsed = parse(
      legacy(2, {legacy_entry("blk.0.attn_q.weight", 4, {1.0F, 2.0F, 6.0F}),
                 legacy_entry("blk.1.attn_q.weight", 0, {5.0F}), legacy_tail(9, "wiki.txt")}));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Imatrix& imatrix = parsed.value();
  EXPECT_THAT(importance_for(imatrix, "blk.0.attn_q.weight", 3, 1).value(),
              ElementsAre(0.25F, 0.5F, 1.5F));
  // Stored as it is when there were no calls.
  EXPECT_THAT(importance_for(imatrix, "blk.1.attn_q.weight", 1, 1).value(), ElementsAre(5.0F));
  EXPECT_THAT(imatrix.datasets, ElementsAre("wiki.txt"));
  EXPECT_EQ(imatrix.chunk_count, 9U);
  EXPECT_EQ(imatrix.chunk_size, 0U);
}

TEST(ImatrixLegacy, BecomesAGgufFileWithTheSameImportance) {
  const Imatrix old = parse(legacy(1, {legacy_entry("x.weight", 3, {1.0F, 2.0F})})).value();
  const std::string path = testing::TempDir() + "from_legacy.imatrix.gguf";
  ASSERT_TRUE(write_imatrix(path, old).ok());
  auto read = read_imatrix(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(importance_for(read.value(), "x.weight", 2, 1).value(),
            importance_for(old, "x.weight", 2, 1).value());
  EXPECT_TRUE(read.value().datasets.empty());
}

TEST(ImatrixLegacy, EveryTruncationIsRefused) {
  const Bytes entries =
      legacy(2, {legacy_entry("a.weight", 4, {1.0F, 2.0F}), legacy_entry("bc.weight", 4, {1.0F})});
  Bytes whole = entries;
  const Bytes tail = legacy_tail(3, "wiki");
  whole.data.insert(whole.data.end(), tail.data.begin(), tail.data.end());
  for (size_t n = 0; n < whole.data.size(); ++n) {
    Bytes cut;
    cut.data.assign(whole.data.begin(), whole.data.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_EQ(parse(cut).ok(), n == entries.data.size()) << n;  // the tail may be absent
  }
  EXPECT_TRUE(parse(whole).ok());
}

TEST(ImatrixLegacy, HostileNumbersAreRefused) {
  const Bytes good = legacy_entry("a.weight", 1, {1.0F});
  for (const int32_t n : {0, -1, std::numeric_limits<int32_t>::min(), 1 << 30}) {
    expect_refused(legacy(n, {good}), "number of entries");
  }
  expect_refused(legacy(2, {good, Bytes().put(1).raw("b").put(1).put(9).put(1.0F)}),
                 "b: 1 to 1 expected, found 9");
  for (const int32_t n : {0, -4, 1 << 30, std::numeric_limits<int32_t>::max()}) {
    expect_refused(legacy(1, {Bytes().put(1).raw("b").put(1).put(n).put(1.0F)}), "b: 1 to 1");
    expect_refused(legacy(1, {Bytes().put(n).raw("blk.0.attn_q.weight")}), "entry 0: 1 to 19");
  }
  expect_refused(legacy(1, {good, Bytes().put(3).put(-1)}), "name of the data set: 0 to 0");
  expect_refused(legacy(1, {good, Bytes().put(3).put(8).raw("wiki")}), "name of the data set");
  expect_refused(legacy(1, {good, legacy_tail(3, "wiki"), Bytes().put('x')}), "found 1 bytes");
}

TEST(ImatrixLegacy, BadEntriesAreRefusedByName) {
  const std::string longest(63, 'n');
  EXPECT_TRUE(parse(legacy(1, {legacy_entry(longest, 1, {1.0F})})).ok());
  expect_refused(legacy(1, {legacy_entry(longest + "n", 1, {1.0F})}),
                 "entry 0: a name of at most 63 bytes expected, found 64");
  expect_refused(legacy(1, {legacy_entry("a\x1b[2J", 1, {1.0F})}), "without control characters");
  expect_refused(
      legacy(2, {legacy_entry("a.weight", 1, {1.0F}), legacy_entry("a.weight", 1, {2.0F})}),
      "a.weight: one entry expected, found two");
  for (const float bad : {kNan, kInfinity, -kInfinity, -1.0F}) {
    expect_refused(legacy(1, {legacy_entry("a.weight", 1, {1.0F, bad})}),
                   "a.weight: finite values from 0 expected");
  }
}

// ---- several files

TEST(ImatrixFiles, AreAdded) {
  const std::vector<std::string> paths = {
      write_file("one.imatrix", gguf_bytes(good_file()).data),
      write_file("two.imatrix", gguf_bytes(good_file()).data),
      write_file("three.imatrix",
                 legacy(1, {legacy_entry("blk.0.attn_q.weight", 2, {1.0F, 1.0F})}).data),
  };
  auto sum = read_imatrices(paths);
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_THAT(sum.value().entries.at("blk.0.attn_q.weight").sums, ElementsAre(4.0F, 6.0F));
  EXPECT_THAT(sum.value().entries.at("blk.0.attn_q.weight").counts, ElementsAre(10));
  EXPECT_THAT(sum.value().entries.at("blk.0.ffn_down_exps.weight").counts, ElementsAre(2, 0, 18));
  EXPECT_EQ(sum.value().chunk_count, 14U);
}

TEST(ImatrixFiles, OfAnotherShapeOrMissingAreRefusedByPath) {
  const std::string good = write_file("good.imatrix", gguf_bytes(good_file()).data);
  const std::string other =
      write_file("other.imatrix", legacy(1, {legacy_entry("blk.0.attn_q.weight", 2, {1.0F})}).data);
  for (const auto& [path, message] : std::vector<std::pair<std::string, std::string>>{
           {other, "blk.0.attn_q.weight: 2 sums"}, {testing::TempDir() + "absent.imatrix", ""}}) {
    const std::vector<std::string> paths = {good, path};
    auto sum = read_imatrices(paths);
    ASSERT_FALSE(sum.ok());
    EXPECT_THAT(sum.error().message, HasSubstr(path));
    EXPECT_THAT(sum.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace hf2q
