#include "engine/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/test_engine.h"

namespace hf2q {
namespace {

using testing_support::value_of;

// A model whose window has 24 tokens: an answer of 100 leaves it, and what may be taken back (64).
class ConversationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineOptions options;
    options.n_ctx = 512;
    options.n_sequences = 4;
    options.max_rows = 16;
    engine_ = load_test_engine(HF2Q_TEST_DATA "/micro-ple", FileType::kF32, options);
  }
  static void TearDownTestSuite() { engine_.reset(); }
  void SetUp() override { engine_->prefixes().clear(); }

  static GenerateOptions greedy(int64_t n) {
    GenerateOptions options;
    options.sampling.temperature = 0;
    // Looks back over prompt and answer alike.
    options.sampling.repeat_penalty = 1.3F;
    options.n_predict = n;
    options.ignore_eos = true;
    return options;
  }
  static std::vector<int32_t> some_ids(size_t n, int32_t first) {
    std::vector<int32_t> ids(n);
    for (size_t i = 0; i < n; ++i) ids[i] = 300 + (first + static_cast<int32_t>(i) * 37) % 1000;
    return ids;
  }
  // What a sequence that holds nothing answers.
  static std::vector<int32_t> fresh_answer(std::span<const int32_t> prompt, int64_t n) {
    Sequence sequence = engine_->new_sequence();
    return value_of(generate(*engine_, sequence, prompt, greedy(n))).token_ids;
  }
  static std::vector<int32_t> joined(std::vector<int32_t> a, std::span<const int32_t> b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  static inline std::unique_ptr<Engine> engine_;
};

TEST_F(ConversationTest, ReusesWhatItHolds) {
  Conversation conversation(*engine_);
  const std::vector<int32_t> first = some_ids(50, 1);
  const auto answer = value_of(conversation.answer(first, greedy(20))).token_ids;
  EXPECT_EQ(answer, fresh_answer(first, 20));
  EXPECT_EQ(conversation.n_reused(), 0);
  EXPECT_EQ(conversation.ids().size(), 69);  // the last token of the answer is not read

  const std::vector<int32_t> second = joined(joined(first, answer), some_ids(30, 5));
  EXPECT_EQ(value_of(conversation.answer(second, greedy(20))).token_ids, fresh_answer(second, 20));
  EXPECT_EQ(conversation.n_reused(), 69);
  EXPECT_EQ(conversation.sequence().length(), conversation.ids().size());
}

TEST_F(ConversationTest, TheSamePromptReadsItsLastToken) {
  Conversation conversation(*engine_);
  const std::vector<int32_t> prompt = some_ids(40, 2);
  (void)value_of(conversation.answer(prompt, greedy(1)));
  EXPECT_EQ(value_of(conversation.answer(prompt, greedy(9))).token_ids, fresh_answer(prompt, 9));
  EXPECT_EQ(conversation.n_reused(), 39);
}

TEST_F(ConversationTest, TakesAnAnswerBackBehindTheWindow) {
  Conversation conversation(*engine_);
  const std::vector<int32_t> first = some_ids(50, 3);
  const auto answer = value_of(conversation.answer(first, greedy(120))).token_ids;
  // As when a thought is dropped: the prompt goes on otherwise right behind the first one.
  const std::vector<int32_t> second =
      joined(joined(first, std::span(answer).subspan(100)), some_ids(9, 7));
  EXPECT_EQ(value_of(conversation.answer(second, greedy(20))).token_ids, fresh_answer(second, 20));
  EXPECT_EQ(conversation.n_reused(), 50);
}

TEST_F(ConversationTest, AnEditIsReadFromWhereItBegins) {
  Conversation conversation(*engine_);
  (void)value_of(conversation.answer(some_ids(150, 3), greedy(2)));
  std::vector<int32_t> other = some_ids(150, 3);
  other[100] = 999;
  EXPECT_EQ(value_of(conversation.answer(other, greedy(20))).token_ids, fresh_answer(other, 20));
  EXPECT_EQ(conversation.n_reused(), 100);
}

TEST_F(ConversationTest, ConversationsOfANamespaceShareWhatTheyRead) {
  const std::vector<int32_t> ids = some_ids(120, 6);
  Conversation one(*engine_, "a");
  (void)value_of(one.answer(ids, greedy(3)));
  Conversation two(*engine_, "a");
  EXPECT_EQ(value_of(two.answer(ids, greedy(9))).token_ids, fresh_answer(ids, 9));
  EXPECT_EQ(two.n_reused(), 119);
  Conversation three(*engine_, "b");
  EXPECT_EQ(value_of(three.answer(ids, greedy(9))).token_ids, fresh_answer(ids, 9));
  EXPECT_EQ(three.n_reused(), 0);
}

TEST_F(ConversationTest, ForksAndTruncates) {
  Conversation conversation(*engine_);
  const std::vector<int32_t> ids = some_ids(60, 4);
  ASSERT_TRUE(conversation.append(ids).ok());
  Conversation other = conversation.fork();
  ASSERT_TRUE(conversation.truncate(30).ok());
  EXPECT_EQ(conversation.ids().size(), 30);
  EXPECT_FALSE(conversation.truncate(31).ok());
  const std::vector<int32_t> longer = joined(ids, some_ids(5, 9));
  EXPECT_EQ(value_of(other.answer(longer, greedy(5))).token_ids, fresh_answer(longer, 5));
  EXPECT_EQ(other.n_reused(), 60);
}

TEST_F(ConversationTest, RefusesAPromptBeyondTheContextAndKeepsTheRest) {
  Conversation conversation(*engine_);
  const std::vector<int32_t> ids = some_ids(20, 4);
  ASSERT_TRUE(conversation.append(ids).ok());
  const auto refused = conversation.answer(some_ids(513, 4), greedy(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "prompt: at most 512 tokens expected (the context), found 513");
  EXPECT_EQ(conversation.ids().size(), 20);
}

TEST_F(ConversationTest, CancelsBetweenBatches) {
  Conversation conversation(*engine_);
  int asked = 0;
  GenerateOptions options = greedy(1);
  options.cancelled = [&] { return ++asked == 3; };
  const auto stopped = value_of(conversation.answer(some_ids(100, 4), options));
  EXPECT_EQ(stopped.finish_reason, "cancelled");
  EXPECT_TRUE(stopped.token_ids.empty());
  EXPECT_EQ(conversation.ids().size(), 32);  // two batches of 16
}

}  // namespace
}  // namespace hf2q
