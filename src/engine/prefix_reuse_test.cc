// What a request takes from the prefix tree changes no bit of what it computes.

#include <gtest/gtest.h>

#include <cstring>

#include "engine/generate.h"
#include "engine/test_engine.h"
#include "forward/test_model.h"

namespace hf2q {
namespace {

using testing_support::value_of;

struct Model {
  const char* name;
  std::string folder;
  FileType file_type;
  KvFormat kv_format;
};

void PrintTo(const Model& model, std::ostream* out) {
  *out << model.name;
}

std::unique_ptr<Engine> load(const Model& model, uint64_t budget_bytes = 0) {
  EngineOptions options;
  options.n_ctx = 1024;
  options.n_sequences = 8;
  options.max_rows = 64;
  options.max_outputs = 64;
  const KvFormat f = model.kv_format;
  options.kv_formats = {f, f, f, f};
  options.kv_budget_bytes = budget_bytes;
  return load_test_engine(model.folder, model.file_type, options);
}

std::vector<int32_t> some_ids(size_t n, int32_t seed) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = 300 + (seed * 7919 + static_cast<int32_t>(i) * 37) % 1000;
  return ids;
}

std::vector<int32_t> with_tail(const std::vector<int32_t>& ids, size_t k, size_t n, int32_t seed) {
  std::vector<int32_t> other(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(k));
  const std::vector<int32_t> tail = some_ids(n, seed);
  other.insert(other.end(), tail.begin(), tail.end());
  if (k < ids.size() && other[k] == ids[k]) ++other[k];
  return other;
}

// The logits of all positions from the first that the sequence does not hold.
std::vector<float> read(Engine& engine, Sequence& sequence, std::span<const int32_t> ids,
                        std::span<const SoftRows> soft = {}) {
  std::vector<float> logits;
  PromptHooks hooks;
  hooks.n_held = sequence.length();
  hooks.every_row = true;
  hooks.after_batch = [&] {
    logits.insert(logits.end(), engine.logits().begin(), engine.logits().end());
  };
  const Status status = read_prompt(engine, sequence, ids, Wants::kLogits, soft, hooks);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return logits;
}

// Every bit of the logits behind position k is that of a sequence that took nothing from a tree.
void expect_cold_bits(Engine& engine, const std::vector<float>& warm, std::span<const int32_t> ids,
                      std::span<const SoftRows> soft = {}) {
  Sequence sequence = engine.new_sequence();
  const std::vector<float> cold = read(engine, sequence, ids, soft);
  ASSERT_LE(warm.size(), cold.size());
  ASSERT_EQ(std::memcmp(warm.data(), cold.data() + (cold.size() - warm.size()),
                        warm.size() * sizeof(float)),
            0);
}

// A request: attaches, reads the rest, leaves a resume point.
PrefixMatch request(Engine& engine, std::span<const int32_t> ids, const char* name_space = "",
                    std::span<const SoftRows> soft = {}) {
  Sequence sequence = engine.new_sequence();
  const PrefixMatch match = sequence.attach(engine.prefixes(), name_space,
                                            prompt_keys(ids, soft, engine.config().hidden_dim));
  const std::vector<float> warm = read(engine, sequence, ids, soft);
  EXPECT_TRUE(sequence.mark(sequence.length()));
  EXPECT_EQ(warm.size(), (ids.size() - match.k) * engine.config().vocab_size);
  expect_cold_bits(engine, warm, ids, soft);
  return match;
}

class PrefixReuse : public testing::TestWithParam<Model> {
 protected:
  std::unique_ptr<Engine> engine_ = load(GetParam());
  uint32_t window() const { return engine_->config().sliding_window; }
};

TEST_P(PrefixReuse, AtEveryPositionOfTwoPages) {
  const std::vector<int32_t> ids = some_ids(70, 1);
  EXPECT_EQ(request(*engine_, ids).k, 0U);
  EXPECT_EQ(request(*engine_, ids).k, 69U);
  for (uint32_t k = 1; k < 70; ++k) {
    EXPECT_EQ(request(*engine_, with_tail(ids, k, 3, 40 + static_cast<int32_t>(k))).k, k);
  }
}

TEST_P(PrefixReuse, AfterAFork) {
  const std::vector<int32_t> ids = some_ids(50, 2);
  const std::vector<int32_t> longer = with_tail(ids, 50, 30, 3);
  {
    Sequence one = engine_->new_sequence();
    one.attach(engine_->prefixes(), "", prompt_keys(ids));
    (void)read(*engine_, one, ids);
    Sequence two = one.fork();
    expect_cold_bits(*engine_, read(*engine_, two, longer), longer);
    const std::vector<int32_t> other = with_tail(ids, 50, 40, 4);
    expect_cold_bits(*engine_, read(*engine_, one, other), other);
    two.mark(two.length());
  }
  EXPECT_EQ(request(*engine_, longer).k, longer.size() - 1);
}

TEST_P(PrefixReuse, AnEditPastTheWindow) {
  const std::vector<int32_t> ids = some_ids(size_t{3} * window(), 5);
  request(*engine_, ids);
  const uint32_t edit = window() * 5 / 2;
  const std::vector<int32_t> edited = with_tail(ids, edit, window() / 2, 6);
  EXPECT_EQ(request(*engine_, edited).k, edit);
  EXPECT_EQ(request(*engine_, edited).k, edited.size() - 1);
  EXPECT_EQ(request(*engine_, ids).k, ids.size() - 1);
}

TEST_P(PrefixReuse, NothingAcrossNamespaces) {
  const std::vector<int32_t> ids = some_ids(70, 7);
  request(*engine_, ids, "a");
  EXPECT_EQ(request(*engine_, ids, "b").k, 0U);
  EXPECT_EQ(request(*engine_, ids, "a").k, 69U);
}

// The cache has no room for all of these prompts.
TEST_P(PrefixReuse, WhilePagesAreGivenUp) {
  const std::unique_ptr<Engine> roomy = load(GetParam());
  uint64_t page_bytes = 0;
  for (const KvGroup& group : roomy->kv().groups) page_bytes += group.layout.page_bytes();
  const std::unique_ptr<Engine> engine = load(GetParam(), page_bytes * 24);
  uint64_t reused = 0;
  for (int32_t turn = 0; turn < 12; ++turn) {
    const std::vector<int32_t> ids = with_tail(some_ids(60, 8), 60, 60, turn % 4);
    reused += request(*engine, with_tail(ids, 120, static_cast<size_t>(turn) * 10, 9)).k;
    EXPECT_LE(engine->pool().committed_bytes(), engine->pool().budget_bytes());
  }
  EXPECT_GT(reused, 600U);
  EXPECT_GT(engine->prefixes().stats().evicted_pages, 0U);
  engine->prefixes().clear();
  EXPECT_EQ(engine->pool().used_bytes(), 0U);
}

const Model kModels[] = {
    {"dense_f32", HF2Q_MODELS "/tiny-gemma4", FileType::kF32, KvFormat::kF32},
    {"moe_q8_0_bf16", HF2Q_TEST_DATA "/micro-moe", FileType::kQ8_0, KvFormat::kBF16},
    {"ple_q5_1_f16", HF2Q_TEST_DATA "/micro-ple", FileType::kQ5_1, KvFormat::kF16},
};
INSTANTIATE_TEST_SUITE_P(All, PrefixReuse, testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PrefixReuseOfImages, StopsBeforeAnotherImage) {
  const std::unique_ptr<Engine> engine = load(kModels[1]);
  const Golden golden(kModels[1].folder);
  const nlohmann::json& vision = golden.json()["vision"];
  const auto ids = vision["token_ids"].get<std::vector<int32_t>>();
  const std::vector<float> values = golden.tensor("vision.soft_tokens");
  const auto begin = vision["image_block"][0].get<uint32_t>();
  const auto n_rows = static_cast<uint32_t>(values.size() / engine->config().hidden_dim);
  const std::vector<SoftRows> image = {{begin, n_rows, values, /*block=*/true, {}}};
  std::vector<SoftRows> other = image;
  other[0].values.back() += 1;

  request(*engine, ids, "", image);
  EXPECT_EQ(request(*engine, ids, "", other).k, begin);
  EXPECT_EQ(request(*engine, ids, "", image).k, ids.size() - 1);
  // The same rows as causal ones are another prompt too; so is what their positions hold as text.
  other = image;
  other[0].block = false;
  EXPECT_EQ(request(*engine, ids, "", other).k, begin);
  EXPECT_EQ(request(*engine, ids).k, begin);
  // A prompt that parts from this one inside of the image would begin before it.
  std::vector<int32_t> shorter(ids.begin(), ids.begin() + begin + n_rows);
  EXPECT_EQ(request(*engine, shorter, "", image).k, begin);
}

}  // namespace
}  // namespace hf2q
