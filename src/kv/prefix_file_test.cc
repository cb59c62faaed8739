#include "kv/prefix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kv/test_cache.h"
#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::value_of;

constexpr uint32_t kFileT = 4;
constexpr Digest kModel = {11, 22};
constexpr uint32_t kPrompt = 21;  // ends inside of a page, as does the whole
constexpr uint32_t kLength = 34;

// A pool with a tree, as a process has one.
struct SavedCache {
  explicit SavedCache(std::vector<KvGroup> groups = cache_groups(kFileT), uint64_t positions = 400)
      : pool(value_of(Pool::create(groups, {budget(groups, positions), true}))), tree(*pool) {}

  static uint64_t budget(const std::vector<KvGroup>& groups, uint64_t positions) {
    uint64_t bytes = 0;
    for (const KvGroup& group : groups) bytes += group.layout.page_bytes();
    return bytes * (positions / kFileT);
  }
  Sequence sequence() { return Sequence(*pool, {1000, 0}); }

  // Reads `keys` with resume points at kPrompt (if it is that long) and at the end.
  void read(const History& history, Sequence& sequence) const {
    while (sequence.length() < history.size()) {
      const uint32_t p = sequence.length();
      ASSERT_FALSE(sequence.reserve(1).has_value());
      write_position(*pool, sequence, p, history.hashes[p]);
      sequence.commit(1, std::span(history.keys).subspan(p, 1));
      const bool is_point = p + 1 == kPrompt || p + 1 == history.size();
      EXPECT_TRUE(!is_point || sequence.mark(p + 1));
    }
  }
  uint32_t reuse(std::span<const TokenKey> keys) {
    Sequence one = sequence();
    one.attach(tree, "", keys);
    expect_holds(*pool, one, history_of(keys.first(one.length())));
    return one.length();
  }

  std::unique_ptr<Pool> pool;
  PrefixTree tree;
};

std::vector<TokenKey> saved_keys() {
  return joined(joined(count_keys(0, 9), image_keys(5, 6)), count_keys(100, kLength - 15));
}

class PrefixFileTest : public testing::Test {
 protected:
  void SetUp() override {
    Sequence sequence = cache_.sequence();
    sequence.attach(cache_.tree, "", keys_);
    cache_.read(history_of(keys_), sequence);
    write(keys_);
  }
  void write(std::span<const TokenKey> keys) {
    const uint32_t points[] = {kPrompt, kLength};
    const PrefixPath path = cache_.tree.path_to("", keys, points);
    ASSERT_EQ(path.points, std::vector<uint32_t>(std::begin(points), std::end(points)));
    const Status written = write_prefix_file(file_, cache_.tree, path, kModel, "words");
    ASSERT_TRUE(written.ok());
  }
  std::string content() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // "" or why the bytes are refused; a tree that refuses them has nothing of them.
  static std::string refusal(std::string_view text, const Digest& model = kModel,
                             const std::vector<KvGroup>& groups = cache_groups(kFileT)) {
    SavedCache other(groups);
    const auto file = PrefixFile::parse(std::as_bytes(std::span(text)), "saved");
    if (!file.ok()) return file.error().message;
    const Status status = file.value().restore(model, other.tree, "");
    EXPECT_TRUE(status.ok() || other.pool->used_bytes() == 0);
    return status.ok() ? "" : status.error().message;
  }

  const std::vector<TokenKey> keys_ = saved_keys();
  SavedCache cache_;
  testing_support::TempFolder folder_;
  const std::string file_ = folder_ / "saved";
};

TEST_F(PrefixFileTest, ALaterTreeGoesOnAtEveryResumePoint) {
  SavedCache later;
  const PrefixFile file = value_of(PrefixFile::open(file_));
  EXPECT_EQ(file.extra(), "words");
  EXPECT_EQ(file.path().keys, keys_);
  ASSERT_TRUE(file.restore(kModel, later.tree, "").ok());
  EXPECT_EQ(later.reuse(joined(keys_, count_keys(7, 3))), kLength);
  EXPECT_EQ(later.reuse(keys_), kLength - 1);
  const auto other_answer =
      joined(std::vector(keys_.begin(), keys_.begin() + kPrompt), count_keys(7, 3));
  EXPECT_EQ(later.reuse(other_answer), kPrompt);
  // What is read on is what one tree would hold.
  const auto longer = joined(keys_, count_keys(7, 30));
  Sequence sequence = later.sequence();
  sequence.attach(later.tree, "", longer);
  later.read(history_of(longer), sequence);
  expect_holds(*later.pool, sequence, history_of(longer));
  sequence.drop();
  later.tree.clear();
  EXPECT_EQ(later.pool->used_bytes(), 0U);
}

// [layer][head][row] of K and V in F32: 16 values each, and the last W rows of a point with a
// window.
TEST_F(PrefixFileTest, HoldsTheRowsOfResumePointsAndNoOthers) {
  const uint64_t row = 2 * 2 * 16 * sizeof(float);  // K and V, two heads
  const uint64_t full = row * kLength;
  // Pages of 4: rows [17, 21) and [30, 34) with a window of 4, [12, 21) and [25, 34) with one of 9.
  const uint64_t window4 = 2 * row * ((20 - 16) + 4 + (32 - 28) + 2);
  const uint64_t window9 = row * (kLength - 12);
  const uint64_t described = 64 + 48 + 3 * 32 + 4 * kLength + 32 + 4 * 2 + 16 * (9 + 4 + 6) + 5;
  EXPECT_EQ(content().size(), described + full + window4 + window9);
}

TEST_F(PrefixFileTest, RefusesEveryTruncationAndEveryAddition) {
  const std::string text = content();
  ASSERT_EQ(refusal(text), "");
  for (size_t n = 0; n < text.size(); ++n) ASSERT_NE(refusal(text.substr(0, n)), "") << n;
  EXPECT_THAT(refusal(text + "x"), HasSubstr("bytes expected, the file has"));
  EXPECT_THAT(refusal(text.substr(0, text.size() - 1)), HasSubstr("bytes expected, the file has"));
  EXPECT_THAT(refusal(""), HasSubstr("a header of 64 bytes expected, the file has 0"));
}

TEST_F(PrefixFileTest, RefusesAFlippedBitInAnyByte) {
  std::string text = content();
  for (size_t i = 0; i < text.size(); ++i) {
    const char flipped = static_cast<char>(1 << (i % 8));
    text[i] = static_cast<char>(text[i] ^ flipped);
    ASSERT_NE(refusal(text), "") << i;
    text[i] = static_cast<char>(text[i] ^ flipped);
  }
}

TEST_F(PrefixFileTest, RefusesAnotherModelAndOtherFormats) {
  const std::string text = content();
  EXPECT_THAT(refusal(text, {11, 23}), HasSubstr("found another model's"));
  std::vector<KvGroup> groups = cache_groups(kFileT);
  groups[1].layout.v_format = KvFormat::kTq4;
  EXPECT_EQ(refusal(text, kModel, groups),
            "saved: K f32 and V tq4 expected (cache group 1), found f32 and f32");
  groups = cache_groups(kFileT);
  groups[0].window = 5;
  EXPECT_THAT(refusal(text, kModel, groups), HasSubstr("other cache groups"));
  EXPECT_THAT(refusal(text, kModel, cache_groups(2 * kFileT)), HasSubstr("other cache groups"));
}

TEST_F(PrefixFileTest, WhatWasReadInAnotherFormatIsCountedAsThat) {
  std::vector<KvGroup> groups = cache_groups(kFileT);
  groups[0].layout.k_format = KvFormat::kF16;
  SavedCache other(groups);
  EXPECT_EQ(other.tree.match("", keys_).limit, ReuseLimit::kNoMatch);
  EXPECT_FALSE(value_of(PrefixFile::open(file_)).restore({1, 2}, other.tree, "").ok());
  EXPECT_EQ(other.tree.match("", keys_).limit, ReuseLimit::kNoMatch);  // another model's
  EXPECT_FALSE(value_of(PrefixFile::open(file_)).restore(kModel, other.tree, "").ok());
  EXPECT_EQ(other.tree.match("", keys_).limit, ReuseLimit::kFormat);
  EXPECT_EQ(other.tree.match("b", keys_).limit, ReuseLimit::kNoMatch);
  EXPECT_EQ(other.tree.match("", count_keys(90, 9)).limit, ReuseLimit::kNoMatch);
  Sequence sequence = other.sequence();
  sequence.attach(other.tree, "", keys_);
  EXPECT_EQ(other.tree.stats().limits[static_cast<size_t>(ReuseLimit::kFormat)], 1U);
  EXPECT_EQ(name_of(ReuseLimit::kFormat), "format");
}

TEST_F(PrefixFileTest, RefusesRowsForWhichThereIsNoRoom) {
  SavedCache small(cache_groups(kFileT), 2 * kFileT);
  const Status status = value_of(PrefixFile::open(file_)).restore(kModel, small.tree, "");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(small.pool->used_bytes(), 0U);
}

// A tree that has some of it keeps its own pages and gets the rest.
TEST_F(PrefixFileTest, JoinsWhatATreeHasAlready) {
  for (const size_t n : {2U, 8U, 30U, 34U}) {
    SavedCache later;
    const auto begun = joined(std::vector(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(n)),
                              count_keys(500, 20));
    Sequence sequence = later.sequence();
    sequence.attach(later.tree, "", begun);
    later.read(history_of(begun), sequence);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(value_of(PrefixFile::open(file_)).restore(kModel, later.tree, "").ok());
    }
    EXPECT_EQ(later.reuse(joined(keys_, count_keys(7, 3))), kLength);
    EXPECT_EQ(later.reuse(begun), begun.size() - 1);
    expect_holds(*later.pool, sequence, history_of(begun));
    sequence.drop();
    later.tree.clear();
    EXPECT_EQ(later.pool->used_bytes(), 0U);
  }
}

TEST_F(PrefixFileTest, TellsItsFilesFromOthers) {
  EXPECT_TRUE(PrefixFile::is_likely(file_));
  const auto likely = [&](const std::string& text) {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << text;
    return PrefixFile::is_likely(file_);
  };
  EXPECT_TRUE(likely(""));
  EXPECT_TRUE(likely("HF2Q"));
  EXPECT_TRUE(likely("HG2Q-KV\nx"));
  EXPECT_FALSE(likely("GGUF and so on"));
  EXPECT_FALSE(PrefixFile::is_likely(folder_ / "none"));
}

}  // namespace
}  // namespace hf2q
