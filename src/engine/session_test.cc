#include "engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/test_engine.h"

namespace hf2q {
namespace {

using testing::HasSubstr;
using testing_support::value_of;

struct SessionModel {
  const char* name;
  std::string folder;
  KvFormat format;
};

// micro-moe has windows of 32 tokens, which prompt and answer leave.
std::unique_ptr<Engine> session_engine(const SessionModel& model, uint64_t budget = 0) {
  EngineOptions options;
  options.n_ctx = 400;
  options.n_sequences = 2;
  options.max_rows = 32;
  options.n_threads = 2;
  options.kv_budget_bytes = budget;
  options.kv_formats = {model.format, model.format, model.format, model.format};
  return load_test_engine(model.folder, FileType::kQ8_0, options);
}

std::vector<int32_t> session_prompt(size_t n) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(300 + static_cast<int32_t>(i * 37 % 1000));
  return ids;
}

GenerateOptions sampled(int64_t n) {
  GenerateOptions options;
  options.sampling.temperature = 1.5F;
  options.sampling.seed = 77;
  options.sampling.repeat_penalty = 1.2F;
  options.n_predict = n;
  options.ignore_eos = true;
  return options;
}

class SessionTest : public testing::TestWithParam<SessionModel> {
 protected:
  struct Outcome {
    std::vector<int32_t> answer;
    std::vector<float> logits;  // behind the last token that was read
    size_t n_reused;
    size_t n_read;
    std::optional<Error> refusal;
  };
  // One run of a program: loads the session, answers, saves it.
  Outcome run(Engine& engine, std::span<const int32_t> prompt, const GenerateOptions& given) {
    const SessionLoad load = load_session(engine, file_);
    Session session = load.session.value_or(Session());
    GenerateOptions options = given;
    const SamplerState sampler = {options.sampling, ""};
    options.begun = begun_answer(session, prompt_keys(prompt), sampler);
    Conversation conversation(engine);
    const Generation generation = value_of(conversation.answer(prompt, options));
    session.n_prompt = static_cast<uint32_t>(prompt.size());
    session.answer = generation.token_ids;
    const Status saved = save_session(engine, conversation, session, sampler, file_);
    EXPECT_TRUE(saved.ok()) << saved.error().message;
    return {generation.token_ids,
            {engine.logits().begin(), engine.logits().end()},
            conversation.n_reused(),
            conversation.ids().size() - conversation.n_reused(),
            load.refusal};
  }

  const SessionModel model_ = GetParam();
  testing_support::TempFolder folder_;
  std::string file_ = folder_ / "session";
};

TEST_P(SessionTest, InterruptedRunsGiveTheBitsOfOne) {
  const std::vector<int32_t> prompt = session_prompt(75);
  const Outcome whole = run(*session_engine(model_), prompt, sampled(120));
  EXPECT_EQ(whole.n_reused, 0U);
  std::filesystem::remove(file_);

  const Outcome first = run(*session_engine(model_), prompt, sampled(10));
  EXPECT_EQ(first.n_read, 84U);  // the last token of an answer is not read
  const auto engine = session_engine(model_);
  const Outcome second = run(*engine, prompt, sampled(90));
  EXPECT_EQ(second.n_reused, 84U);
  EXPECT_EQ(second.n_read, 80U);
  const Outcome third = run(*session_engine(model_), prompt, sampled(120));
  EXPECT_EQ(third.n_reused, 164U);
  EXPECT_EQ(third.n_read, 30U);
  EXPECT_EQ(third.answer, whole.answer);
  EXPECT_EQ(third.logits, whole.logits);

  // A prompt that goes on behind the answer, and one that leaves at the first prompt's end.
  std::vector<int32_t> longer = prompt;
  longer.insert(longer.end(), whole.answer.begin(), whole.answer.end());
  longer.push_back(5);
  std::filesystem::copy_file(file_, folder_ / "copy");
  EXPECT_EQ(run(*session_engine(model_), longer, sampled(3)).n_reused, 194U);
  std::filesystem::rename(folder_ / "copy", file_);
  longer = session_prompt(80);
  EXPECT_EQ(run(*session_engine(model_), longer, sampled(3)).n_reused, 75U);
}

TEST_P(SessionTest, AnotherSamplerReadsThePromptsLastTokenOnly) {
  const std::vector<int32_t> prompt = session_prompt(75);
  (void)run(*session_engine(model_), prompt, sampled(30));
  GenerateOptions greedy = sampled(30);
  greedy.sampling.temperature = 0;
  const Outcome again = run(*session_engine(model_), prompt, greedy);
  EXPECT_EQ(again.n_reused, 74U);
  std::filesystem::remove(file_);
  EXPECT_EQ(run(*session_engine(model_), prompt, greedy).answer, again.answer);
}

TEST_P(SessionTest, RefusedFilesAreReadAgain) {
  const std::vector<int32_t> prompt = session_prompt(40);
  const auto engine = session_engine(model_);
  const Outcome good = run(*engine, prompt, sampled(5));
  std::ifstream in(file_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  in.close();
  const auto write = [&](const std::string& content) {
    engine->prefixes().clear();
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << content;
  };
  // In header, description, words and rows.
  for (const size_t i : {0UL, 20UL, 100UL, text.size() / 2, text.size() - 1}) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 4);
    write(flipped);
    const Outcome outcome = run(*engine, prompt, sampled(5));
    ASSERT_TRUE(outcome.refusal) << i;
    EXPECT_EQ(outcome.n_reused, 0U);
    EXPECT_EQ(outcome.answer, good.answer);
  }
  write(text.substr(0, text.size() / 2));
  EXPECT_THAT(run(*engine, prompt, sampled(5)).refusal->message, HasSubstr("bytes expected"));
  // The file that took its place is good again.
  engine->prefixes().clear();
  EXPECT_FALSE(run(*engine, prompt, sampled(5)).refusal);

  SessionModel other = model_;
  other.format = KvFormat::kTq3;
  const Outcome format = run(*session_engine(other), prompt, sampled(5));
  ASSERT_TRUE(format.refusal);
  EXPECT_THAT(format.refusal->message, HasSubstr("K tq3 and V tq3 expected"));
  EXPECT_EQ(format.n_reused, 0U);
  other.folder = HF2Q_TEST_DATA "/micro-ple";
  const Outcome model = run(*session_engine(other), prompt, sampled(5));
  ASSERT_TRUE(model.refusal);
  EXPECT_THAT(model.refusal->message, HasSubstr("another model's"));
}

TEST_P(SessionTest, SavesRowsThatAreLiveAndNoMore) {
  (void)run(*session_engine(model_), session_prompt(75), sampled(30));
  const auto engine = session_engine(model_);
  uint64_t bytes = 0;
  for (const KvGroup& group : engine->kv().groups) {
    // 104 rows; of windows those that the two resume points need, in whole pages of 32.
    const uint32_t needed = static_cast<uint32_t>(first_needed(group.window, 75, 1)) / 32 * 32;
    bytes += packed_bytes(group.layout, 104 - needed);
  }
  EXPECT_GE(std::filesystem::file_size(file_), bytes);
  EXPECT_LE(std::filesystem::file_size(file_), bytes + 3000);
}

TEST(SessionPath, OtherFilesAreNotWrittenOver) {
  const testing_support::TempFolder folder;
  std::ofstream(folder / "text") << "a letter to my aunt";
  EXPECT_FALSE(check_session_path(folder / "text").ok());
  EXPECT_TRUE(check_session_path(folder / "none").ok());
  std::ofstream(folder / "empty") << "";
  EXPECT_TRUE(check_session_path(folder / "empty").ok());
  EXPECT_FALSE(check_session_path(folder.path().string()).ok());
}

const SessionModel kSessionModels[] = {
    {"dense_f16", HF2Q_MODELS "/tiny-gemma4", KvFormat::kF16},
    {"dense_tq4", HF2Q_MODELS "/tiny-gemma4", KvFormat::kTq4},
    {"moe_f16", HF2Q_TEST_DATA "/micro-moe", KvFormat::kF16},
    {"moe_tq4", HF2Q_TEST_DATA "/micro-moe", KvFormat::kTq4},
};
INSTANTIATE_TEST_SUITE_P(All, SessionTest, testing::ValuesIn(kSessionModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hf2q
