#include "engine/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "engine/test_engine.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::value_of;

constexpr size_t kHidden = 128;

SoftRows soft_rows(uint32_t position, uint32_t n_rows, float value = 0.5F) {
  return {position, n_rows, std::vector<float>(n_rows * kHidden, value), false};
}

std::string complaint(const std::vector<SoftRows>& soft, size_t n_prompt = 10) {
  const Status status = check_soft_rows(soft, n_prompt, kHidden, 8);
  if (status.ok()) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  return status.error().message;
}

TEST(SoftRowsCheck, NoneAndRowsThatFit) {
  EXPECT_EQ(complaint({}), "");
  EXPECT_EQ(complaint({soft_rows(0, 10)}), "");
  EXPECT_EQ(complaint({soft_rows(9, 1)}), "");
  EXPECT_EQ(complaint({soft_rows(5, 2), soft_rows(2, 3)}), "") << "neighbours, in any order";
}

TEST(SoftRowsCheck, PastTheEnd) {
  EXPECT_THAT(complaint({soft_rows(8, 3)}), HasSubstr("[8, 11): positions below 10"));
  EXPECT_THAT(complaint({soft_rows(10, 1)}), HasSubstr("[10, 11): positions below 10"));
  // 2^32 - 1 + 2 does not wrap around to 1.
  EXPECT_THAT(complaint({soft_rows(UINT32_MAX, 2)}), HasSubstr("[4294967295, 4294967297)"));
}

TEST(SoftRowsCheck, NoRows) {
  EXPECT_THAT(complaint({soft_rows(4, 0)}), HasSubstr("soft rows at 4: at least one row"));
}

TEST(SoftRowsCheck, TooFewValues) {
  SoftRows rows = soft_rows(2, 3);
  rows.values.pop_back();
  EXPECT_THAT(complaint({rows}), HasSubstr("[2, 5): 384 values expected, found 383"));
  rows.values.clear();
  EXPECT_THAT(complaint({rows}), HasSubstr("384 values expected, found 0"));
}

TEST(SoftRowsCheck, Overlaps) {
  EXPECT_THAT(complaint({soft_rows(2, 3), soft_rows(4, 2)}), HasSubstr("at 2 and at 4 overlap"));
  EXPECT_THAT(complaint({soft_rows(4, 2), soft_rows(2, 3)}), HasSubstr("at 4 and at 2 overlap"));
  EXPECT_THAT(complaint({soft_rows(2, 5), soft_rows(0, 1), soft_rows(3, 1)}),
              HasSubstr("at 2 and at 3 overlap"))
      << "one inside of the other";
}

class ReadPrompt : public testing::Test {
 protected:
  static Engine& engine() {
    static const std::unique_ptr<Engine> engine = [] {
      EngineOptions options;
      options.n_ctx = 32;
      options.max_rows = 8;
      options.n_threads = 2;
      return load_test_engine(HF2Q_TEST_DATA "/micro-ple", FileType::kF32, options);
    }();
    return *engine;
  }
  static std::vector<int32_t> prompt(size_t n) {
    std::vector<int32_t> ids(n);
    std::iota(ids.begin(), ids.end(), 300);
    return ids;
  }
  // The message, or "" when the prompt was read; the sequence is as long as it should be.
  static std::string read(const std::vector<int32_t>& ids, const std::vector<SoftRows>& soft = {}) {
    Sequence sequence = engine().new_sequence();
    const Status status = read_prompt(engine(), sequence, ids, Wants::kLogits, soft);
    EXPECT_EQ(sequence.length(), status.ok() ? ids.size() : 0);
    if (status.ok()) return "";
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    return status.error().message;
  }
  static std::vector<float> logits() {
    return {engine().logits().begin(), engine().logits().end()};
  }
};

TEST_F(ReadPrompt, Empty) {
  EXPECT_EQ(read({}), "prompt: at least one token expected, found none");
}

TEST_F(ReadPrompt, IdsOutsideOfTheVocabulary) {
  EXPECT_EQ(read({2, 8192, 5}), "prompt: token ids from 0 to 8191 expected, found 8192");
  EXPECT_EQ(read({2, -1}), "prompt: token ids from 0 to 8191 expected, found -1");
  EXPECT_EQ(read({0, 8191}), "");
}

TEST_F(ReadPrompt, AsLongAsTheContextAndOneMore) {
  EXPECT_EQ(read(prompt(32)), "");
  EXPECT_EQ(read(prompt(33)), "prompt: at most 32 tokens expected (the context), found 33");
}

TEST_F(ReadPrompt, WhatTheSequenceHoldsCountsToo) {
  Sequence sequence = engine().new_sequence();
  ASSERT_TRUE(read_prompt(engine(), sequence, prompt(20), Wants::kLogits).ok());
  const Status status = read_prompt(engine(), sequence, prompt(13), Wants::kLogits);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "prompt: at most 12 tokens expected (the context), found 13");
  EXPECT_EQ(sequence.length(), 20U);
  EXPECT_TRUE(read_prompt(engine(), sequence, prompt(12), Wants::kLogits).ok());
}

TEST_F(ReadPrompt, SoftRowsAreChecked) {
  EXPECT_THAT(read(prompt(4), {soft_rows(3, 2)}), HasSubstr("positions below 4"));
  EXPECT_THAT(read(prompt(4), {soft_rows(1, 2), soft_rows(2, 1)}), HasSubstr("overlap"));
}

TEST_F(ReadPrompt, ABlockIsNeverSplit) {
  SoftRows block = soft_rows(2, 8);
  block.block = true;
  EXPECT_EQ(read(prompt(12), {block}), "") << "cut before the block";
  block = soft_rows(12, 9);
  block.block = true;
  EXPECT_EQ(read(prompt(24), {block}),
            "soft rows at 12: blocks of at most 8 rows expected (-b), found 9");
  block.block = false;
  EXPECT_EQ(read(prompt(24), {block}), "") << "causal rows may be split";
}

// Tokens under soft rows do not matter, neither does what stands behind a range's values.
TEST_F(ReadPrompt, SoftRowsAloneCount) {
  std::vector<int32_t> ids = prompt(12);
  std::vector<SoftRows> soft = {soft_rows(2, 3, 0.25F), soft_rows(7, 1, -0.5F)};
  ASSERT_EQ(read(ids, soft), "");
  const std::vector<float> expected = logits();
  for (const size_t i : {2, 3, 4, 7}) ids[i] = 7000;
  soft[0].values.resize(5 * kHidden, 99);
  ASSERT_EQ(read(ids, soft), "");
  EXPECT_EQ(std::memcmp(logits().data(), expected.data(), expected.size() * sizeof(float)), 0);
  std::swap(soft[0], soft[1]);
  ASSERT_EQ(read(ids, soft), "");
  EXPECT_EQ(std::memcmp(logits().data(), expected.data(), expected.size() * sizeof(float)), 0);
  soft[0].values[0] += 1;
  ASSERT_EQ(read(ids, soft), "");
  EXPECT_NE(std::memcmp(logits().data(), expected.data(), expected.size() * sizeof(float)), 0);
}

TEST_F(ReadPrompt, AnAnswerCancelledBetweenBatchesHasNoTokens) {
  Sequence sequence = engine().new_sequence();
  GenerateOptions options;
  int asked = 0;
  options.cancelled = [&] { return ++asked == 2; };
  options.on_token = [](int32_t) { return ADD_FAILURE() << "a token", true; };
  const Generation generation = value_of(generate(engine(), sequence, prompt(20), options));
  EXPECT_EQ(generation.finish_reason, "cancelled");
  EXPECT_TRUE(generation.token_ids.empty());
  EXPECT_EQ(sequence.length(), 8U);  // one batch
}

// Blocks are told apart by their numbers, in each sequence on its own.
TEST_F(ReadPrompt, ABlockThatGoesOnInTheNextBatchIsRefused) {
  Sequence a = engine().new_sequence();
  Sequence b = engine().new_sequence();
  Sequence* both[] = {&a, &b};
  const auto run = [&](uint32_t sequence, std::vector<int32_t> blocks) {
    Batch batch;
    for (const int32_t block : blocks) {
      BatchRow& row = batch.rows.emplace_back();
      row.sequence = sequence;
      row.position = both[sequence]->length() + static_cast<uint32_t>(batch.rows.size()) - 1;
      row.token = 300;
      row.block = block;
    }
    const Status status = engine().run(batch, both);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(run(0, {-1, 0, 0}), "");
  EXPECT_EQ(run(0, {0, -1}),
            "block 0: all rows in one batch expected, found one more at position 3");
  EXPECT_EQ(a.length(), 3U);
  EXPECT_EQ(run(1, {0, 0}), "") << "another sequence";
  EXPECT_EQ(run(0, {1, 1, -1}), "") << "another block";
  EXPECT_EQ(run(0, {1, 1}), "") << "behind a row of none";
  b.drop();
  Sequence fork = a.fork();
  both[1] = &fork;
  EXPECT_NE(run(1, {1}), "");
  fork.drop();
  ASSERT_FALSE(a.truncate(7));
  EXPECT_EQ(run(0, {2}), "");
}

TEST(CheckFinite, NamesTheFirstBadValue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto said = [](std::vector<float> values) {
    const Status status = check_finite("logits", values);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({0, -3e38F, 3e38F}), "");
  EXPECT_EQ(said({1, std::nanf(""), kInfinity}), "logits: finite numbers expected, value 1 is nan");
  EXPECT_EQ(said({-kInfinity}), "logits: finite numbers expected, value 0 is -inf");
}

}  // namespace
}  // namespace hf2q
