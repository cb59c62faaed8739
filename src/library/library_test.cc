#include <gtest/gtest.h>

#include <algorithm>

#include "engine/conversation.h"
#include "engine/test_engine.h"
#include "hf2q/hf2q.h"

namespace hf2q {
namespace {

// The public face against the engine below it, on the bundled model.
class LibraryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    work_ = std::make_unique<testing_support::TempFolder>();
    path_ = *work_ / "model.gguf";
    convert_to(HF2Q_MODELS "/tiny-gemma4", FileType::kQ8_0, path_);
    v1::ModelOptions options;
    options.context_tokens = 256;
    options.sequences = 2;
    model_ = std::make_unique<v1::Model>(loaded(options));
    EngineOptions ours;
    ours.n_ctx = 256;
    engine_ = testing_support::value_of(Engine::load(path_, ours));
  }
  static void TearDownTestSuite() {
    model_.reset();
    engine_.reset();
    work_.reset();
  }
  static v1::Model loaded(const v1::ModelOptions& options) {
    auto model = v1::Model::load(path_, options);
    EXPECT_TRUE(model) << model.error().message;
    return std::move(model.value());
  }
  std::vector<float> engine_logits(std::span<const int32_t> ids) {
    Sequence sequence = engine_->new_sequence();
    EXPECT_TRUE(read_prompt(*engine_, sequence, ids, Wants::kLogits).ok());
    return {engine_->logits().begin(), engine_->logits().end()};
  }
  static std::vector<float> copy(std::span<const float> values) {
    return {values.begin(), values.end()};
  }

  static inline std::unique_ptr<testing_support::TempFolder> work_;
  static inline std::string path_;
  static inline std::unique_ptr<v1::Model> model_;
  static inline std::unique_ptr<Engine> engine_;
  const std::vector<int32_t> a_ = {2, 2787, 4178, 300, 301};
  const std::vector<int32_t> b_ = {2, 999, 1000};
};

TEST_F(LibraryTest, ReadsInStepsAndInBatches) {
  v1::Sequence one = model_->new_sequence();
  EXPECT_TRUE(one.logits().empty());
  ASSERT_TRUE(one.read(std::span(a_).first(2)));
  ASSERT_TRUE(one.read(std::span(a_).subspan(2)));
  EXPECT_EQ(copy(one.logits()), engine_logits(a_));

  v1::Sequence two = model_->new_sequence();
  v1::Sequence three = model_->new_sequence();
  const v1::Part parts[] = {{&two, a_}, {&three, b_}};
  ASSERT_TRUE(model_->run(parts));
  EXPECT_EQ(copy(two.logits()), engine_logits(a_));
  EXPECT_EQ(copy(three.logits()), engine_logits(b_));
  EXPECT_TRUE(std::ranges::equal(three.tokens(), b_));
}

TEST_F(LibraryTest, ForksAndTruncates) {
  v1::Sequence one = model_->new_sequence();
  ASSERT_TRUE(one.read(a_));
  v1::Sequence two = one.fork();
  ASSERT_TRUE(one.truncate(2));
  EXPECT_TRUE(one.logits().empty());
  ASSERT_TRUE(one.read(std::span(b_).subspan(1)));
  EXPECT_EQ(copy(one.logits()), engine_logits(std::vector<int32_t>{2, 2787, 999, 1000}));
  ASSERT_TRUE(two.read(std::span(b_).subspan(1)));
  EXPECT_EQ(copy(two.logits()),
            engine_logits(std::vector<int32_t>{2, 2787, 4178, 300, 301, 999, 1000}));
  EXPECT_EQ(one.truncate(99).error().kind, v1::ErrorKind::kInvalidArgument);
}

TEST_F(LibraryTest, GeneratesWhatItsOwnLoopWouldSample) {
  const auto prompt = model_->chat_tokens({{"user", "What is the capital of Norway?"}});
  ASSERT_TRUE(prompt);
  v1::Sampling sampling;
  sampling.temperature = 0.8F;
  sampling.repeat_penalty = 1.1F;
  sampling.seed = 7;
  std::string streamed;
  v1::GenerateOptions options;
  options.sampling = sampling;
  options.max_tokens = 12;
  options.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  v1::Sequence whole = model_->new_sequence();
  const auto answer = whole.generate(prompt.value(), options);
  ASSERT_TRUE(answer);
  EXPECT_EQ(streamed, answer.value().text);

  v1::Sequence steps = model_->new_sequence();
  ASSERT_TRUE(steps.read(prompt.value()));
  std::vector<int32_t> tokens;
  while (tokens.size() < 12) {
    const auto token = steps.sample(sampling, prompt.value().size());
    ASSERT_TRUE(token);
    tokens.push_back(token.value());
    if (model_->is_end(token.value())) break;
    ASSERT_TRUE(steps.read(std::span(tokens).last(1)));
  }
  EXPECT_EQ(tokens, answer.value().tokens);
}

TEST_F(LibraryTest, ReusesTheConversation) {
  const v1::Model model = loaded({});
  v1::Sequence sequence = model.new_sequence();
  std::vector<v1::Message> messages = {{"user", "What is the capital of Norway?"}};
  v1::GenerateOptions options;
  options.sampling.temperature = 0;
  const auto first = sequence.generate(model_->chat_tokens(messages).value(), options);
  ASSERT_TRUE(first);
  EXPECT_EQ(first.value().text, "The capital of Norway is Oslo.");
  EXPECT_EQ(first.value().finish, v1::Finish::kStop);
  EXPECT_EQ(first.value().reused_tokens, 0);
  const size_t held = sequence.tokens().size();
  messages.push_back({"assistant", first.value().text});
  messages.push_back({"user", "And of Sweden?"});
  const auto prompt = model_->chat_tokens(messages).value();
  const auto second = sequence.generate(prompt, options);
  ASSERT_TRUE(second);
  EXPECT_EQ(second.value().reused_tokens, held);
  v1::Sequence other = model.new_sequence();
  EXPECT_EQ(other.generate(prompt, options).value().reused_tokens, prompt.size() - 1);
  v1::Sequence fresh = model_->new_sequence();
  EXPECT_EQ(second.value().tokens, fresh.generate(prompt, options).value().tokens);
}

// "The" is the first token; its "e" may begin the stop string and is held back when on_text
// refuses.
TEST_F(LibraryTest, ShowsNothingMoreAfterOnTextRefused) {
  std::vector<std::string> shown;
  v1::GenerateOptions options;
  options.sampling.temperature = 0;
  options.stop = {"e!"};
  options.on_text = [&](std::string_view text) {
    shown.emplace_back(text);
    return false;
  };
  v1::Sequence sequence = model_->new_sequence();
  const auto answer = sequence.generate(
      model_->chat_tokens({{"user", "What is the capital of Norway?"}}).value(), options);
  ASSERT_TRUE(answer);
  EXPECT_EQ(shown, std::vector<std::string>{"Th"});
  EXPECT_EQ(answer.value().text, "Th");
  EXPECT_EQ(answer.value().finish, v1::Finish::kCancelled);
}

TEST_F(LibraryTest, APromptCanBeCancelledBetweenBatches) {
  v1::ModelOptions small_batches;
  small_batches.batch_tokens = 4;
  const v1::Model model = loaded(small_batches);
  v1::Sequence sequence = model.new_sequence();
  v1::GenerateOptions options;
  int asked = 0;
  options.on_prompt = [&] { return ++asked < 3; };
  const std::vector<int32_t> prompt(20, 300);
  const auto answer = sequence.generate(prompt, options);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer.value().finish, v1::Finish::kCancelled);
  EXPECT_TRUE(answer.value().tokens.empty());
  EXPECT_EQ(sequence.tokens().size(), 8);
}

TEST_F(LibraryTest, AnAnswerOfNoTokensStillReadsItsPrompt) {
  v1::GenerateOptions options;
  options.max_tokens = 0;
  v1::Sequence sequence = model_->new_sequence();
  const auto answer = sequence.generate(a_, options);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer.value().tokens.empty());
  EXPECT_GT(answer.value().prompt_seconds, 0);
}

TEST_F(LibraryTest, TextGoesToTokensAndBack) {
  const std::string text = "Hello \U0001F9D9 <|turn>";
  const std::vector<int32_t> ids = model_->tokenize(text, true, false);
  EXPECT_EQ(ids.front(), 2);
  EXPECT_EQ(model_->detokenize(std::span(ids).subspan(1)), text);
  v1::Decoder decoder(*model_);
  std::string pieces;
  for (const int32_t id : std::span(ids).subspan(1)) pieces += decoder.push(id);
  EXPECT_EQ(pieces + decoder.finish(), text);
  EXPECT_LT(model_->tokenize(text, true, true).size(), ids.size());
  const auto chat = model_->render_chat(std::vector<v1::Message>{{"user", "Hi"}});
  EXPECT_EQ(chat.value(), "<bos><|turn>user\nHi<turn|>\n<|turn>model\n");
}

TEST_F(LibraryTest, InfoNamesTheFile) {
  const v1::ModelInfo info = model_->info();
  EXPECT_EQ(info.name, "Checkpoint");  // the folder that convert_to gives it
  EXPECT_EQ(info.context_tokens, 256);
  EXPECT_EQ(info.trained_tokens, 32768);
  EXPECT_EQ(info.vocabulary, 8192);
}

TEST_F(LibraryTest, ErrorsAreTyped) {
  EXPECT_EQ(v1::Model::load(*work_ / "none.gguf").error().kind, v1::ErrorKind::kNotFound);
  EXPECT_EQ(v1::Model::load(HF2Q_MODELS "/tiny-gemma4/config.json").error().kind,
            v1::ErrorKind::kCorrupt);
  v1::ModelOptions options;
  options.cache_k = "f8";
  EXPECT_EQ(v1::Model::load(path_, options).error().message,
            "cache_k: one of f32 f16 bf16 q8_0 tq8 tq6 tq5 tq4 tq3 tq2 tq3.5 tq2.5 expected, found "
            "\"f8\"");
  options = {};
  options.threads = 100000;
  EXPECT_EQ(v1::Model::load(path_, options).error().message,
            "threads: 1 to 1024 expected, found 100000");
  v1::Sequence sequence = model_->new_sequence();
  const std::vector<int32_t> none;
  const std::vector<int32_t> unknown = {8192};
  EXPECT_EQ(sequence.read(none).error().kind, v1::ErrorKind::kInvalidArgument);
  EXPECT_EQ(sequence.read(unknown).error().kind, v1::ErrorKind::kInvalidArgument);
  EXPECT_EQ(sequence.read(std::vector<int32_t>(257, 5)).error().message,
            "prompt: at most 256 tokens expected (the context), found 257");
  EXPECT_EQ(sequence.generate(none).error().message,
            "prompt: at least one token expected, found none");
  EXPECT_FALSE(sequence.sample({}, 0));
  v1::GenerateOptions bad;
  bad.sampling.top_p = 2;
  EXPECT_EQ(sequence.generate(a_, bad).error().message, "top_p: 0 to 1 expected, found 2");
  const v1::Part twice[] = {{&sequence, a_}, {&sequence, b_}};
  EXPECT_EQ(model_->run(twice).error().kind, v1::ErrorKind::kInvalidArgument);
  EXPECT_EQ(model_->run({}).error().kind, v1::ErrorKind::kInvalidArgument);
  v1::ChatOptions chat;
  chat.chat_template = "{% if";
  EXPECT_EQ(model_->chat_tokens({{"user", "x"}}, chat).error().kind, v1::ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace hf2q
