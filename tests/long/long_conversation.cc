// One conversation that grows: nothing is read twice, memory is what the formula says, and the end
// has the bits of a run that never reused anything.
// usage: hf2q_long_conversation TOKENS TURNS

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "engine/conversation.h"
#include "engine/test_engine.h"

namespace hf2q {
namespace {

size_t n_tokens = 8000;
size_t n_turns = 40;

constexpr size_t kAnswer = 10;
constexpr uint64_t kMaxRollback = 64;  // of the engine's sequences

class LongConversation : public testing::Test {
 protected:
  LongConversation() {
    EngineOptions options;
    options.n_ctx = static_cast<uint32_t>(n_tokens) + 512;
    options.n_sequences = 2;  // the conversation, and at the end the one that reuses nothing
    engine_ = load_test_engine(HF2Q_TEST_DATA "/micro-moe", FileType::kQ8_0, options);
  }

  static GenerateOptions greedy() {
    GenerateOptions options;
    options.sampling.temperature = 0;
    options.n_predict = kAnswer;
    options.ignore_eos = true;
    return options;
  }
  std::vector<float> logits() const { return {engine_->logits().begin(), engine_->logits().end()}; }

  // Each turn is a request of its own, which finds the conversation in the prefix tree.
  std::vector<int32_t> turn(std::vector<int32_t> ids, size_t index, size_t n_held) {
    const size_t n_new = n_tokens / n_turns - kAnswer;
    for (size_t i = 0; i < n_new; ++i) {
      ids.push_back(300 + static_cast<int32_t>((index * 7919 + i * 37) % 7000));
    }
    Conversation conversation(*engine_);
    const auto answer = testing_support::value_of(conversation.answer(ids, greedy()));
    EXPECT_EQ(conversation.n_reused(), n_held);
    const Pool& pool = engine_->pool();
    EXPECT_EQ(pool.used_bytes() - pool.cached_bytes(),
              bytes_at_rest(engine_->kv().groups, conversation.sequence().length(), kMaxRollback));
    EXPECT_LE(pool.committed_bytes(), pool.budget_bytes());
    ids.insert(ids.end(), answer.token_ids.begin(), answer.token_ids.end());
    return ids;
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(LongConversation, ReadsEachTokenOnceAndKeepsItsBits) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n_turns && !HasFailure(); ++i) {
    // The last token of an answer was not read.
    ids = turn(std::move(ids), i, ids.empty() ? 0 : ids.size() - 1);
  }
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(ids.size(), n_tokens);
  Conversation warm(*engine_);
  ASSERT_TRUE(warm.append(ids).ok());
  const std::vector<float> expected = logits();
  warm.reset();
  Sequence cold = engine_->new_sequence();
  ASSERT_TRUE(read_prompt(*engine_, cold, ids, Wants::kLogits).ok());
  EXPECT_EQ(std::memcmp(logits().data(), expected.data(), expected.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace hf2q

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3) {
    hf2q::n_tokens = std::strtoul(argv[1], nullptr, 10);
    hf2q::n_turns = std::strtoul(argv[2], nullptr, 10);
  }
  if (hf2q::n_turns == 0 || hf2q::n_tokens / hf2q::n_turns <= hf2q::kAnswer) {
    std::fprintf(stderr, "usage: %s TOKENS TURNS, more than %zu tokens each turn\n", argv[0],
                 hf2q::kAnswer);
    return 2;
  }
  return RUN_ALL_TESTS();
}
