// A row's bits depend on that row and its own sequence alone: not on the chunks in which a prompt
// is read, on who else is in the batch, on threads, on the size of a page, on forks and rollbacks.

#include <gtest/gtest.h>

#include <cstring>

#include "forward/test_model.h"

namespace hf2q {
namespace {

const std::string kDense = HF2Q_MODELS "/tiny-gemma4";
const std::string kMoe = HF2Q_TEST_DATA "/micro-moe";
const std::string kPle = HF2Q_TEST_DATA "/micro-ple";

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<int32_t> tokens(size_t n, uint32_t seed) {
  std::vector<int32_t> ids = {2};
  for (uint32_t x = seed; ids.size() < n;) {
    x = x * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>(300 + (x >> 8) % 7000));
  }
  return ids;
}

struct Case {
  const char* name;
  std::string folder;
  FileType file_type;
  KvFormat k;
  KvFormat v;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

// The same logits for every page size, number of threads and chunk.
void expect_same_however_run(const std::string& folder, const TestSetup& setup,
                             const std::vector<int32_t>& ids, RunOptions options,
                             const std::vector<float>& expected) {
  for (const uint32_t page_positions : {1U, 4U, 32U}) {
    for (const size_t n_threads : {1, 2}) {
      TestSetup changed = setup;
      changed.page_positions = page_positions;
      changed.n_threads = n_threads;
      TestModel model(folder, changed);
      for (const size_t chunk : {1, 7, 64, 512}) {
        options.chunk = chunk;
        EXPECT_TRUE(same_bits(model.run(ids, options), expected))
            << "pages of " << page_positions << ", " << n_threads << " threads, chunks of "
            << chunk;
      }
    }
  }
}

class Invariance : public testing::TestWithParam<Case> {
 protected:
  TestSetup setup() const {
    TestSetup setup;
    setup.file_type = GetParam().file_type;
    setup.kv_formats = {GetParam().k, GetParam().v, GetParam().k, GetParam().v};
    return setup;
  }
  // The logits of every position of a prompt over several windows, read at once.
  std::vector<float> baseline() const {
    TestModel model(GetParam().folder, setup());
    return model.run(tokens(90, 1));
  }
};

TEST_P(Invariance, ChunksThreadsAndPages) {
  const std::vector<float> expected = baseline();
  expect_same_however_run(GetParam().folder, setup(), tokens(90, 1), {}, expected);
}

TEST_P(Invariance, OthersInTheBatch) {
  TestModel model(GetParam().folder, setup());
  const std::vector<std::vector<int32_t>> prompts = {tokens(40, 1), tokens(13, 2), tokens(1, 3),
                                                     tokens(29, 4), tokens(40, 5)};
  std::vector<float> expected;
  Batch batch;
  std::vector<Sequence> sequences;
  for (uint32_t s = 0; s < prompts.size(); ++s) {
    const std::vector<float> alone = model.run(prompts[s]);
    expected.insert(expected.end(), alone.begin(), alone.end());
    sequences.push_back(model.new_sequence());
    for (uint32_t i = 0; i < prompts[s].size(); ++i) {
      BatchRow row;
      row.sequence = s;
      row.position = i;
      row.token = prompts[s][i];
      row.wants = Wants::kLogits;
      batch.rows.push_back(row);
    }
  }
  std::vector<Sequence*> pointers;
  for (Sequence& sequence : sequences) pointers.push_back(&sequence);
  EXPECT_TRUE(same_bits(model.step(batch, pointers), expected));
}

TEST_P(Invariance, ForkAndTruncate) {
  TestModel model(GetParam().folder, setup());
  const std::vector<int32_t> ids = tokens(90, 1);
  const std::vector<int32_t> head(ids.begin(), ids.begin() + 50);
  const std::vector<int32_t> tail(ids.begin() + 50, ids.end());
  const std::vector<float> whole = model.run(ids);
  const std::vector<float> expected(
      whole.end() - static_cast<ptrdiff_t>(tail.size() * model.config().vocab_size), whole.end());
  Sequence sequence = model.new_sequence();
  (void)model.run(head, sequence);
  Sequence forked = sequence.fork();
  (void)model.run(tokens(30, 9), sequence);  // the original goes another way, and comes back
  EXPECT_TRUE(same_bits(model.run(tail, forked), expected));
  ASSERT_FALSE(sequence.truncate(50));
  EXPECT_TRUE(same_bits(model.run(tail, sequence), expected));
}

// Five rows of one sequence in one batch are five decode steps.
TEST_P(Invariance, VerifyingADraft) {
  TestModel model(GetParam().folder, setup());
  const std::vector<int32_t> ids = tokens(60, 1);
  RunOptions steps;
  steps.chunk = 1;
  const std::vector<int32_t> draft(ids.begin() + 55, ids.end());
  Sequence one = model.new_sequence();
  (void)model.run({ids.begin(), ids.begin() + 55}, one);
  Sequence other = one.fork();
  EXPECT_TRUE(same_bits(model.run(draft, one), model.run(draft, other, steps)));
}

const Case kCases[] = {
    {"dense_f32", kDense, FileType::kF32, KvFormat::kF32, KvFormat::kF32},
    {"dense_q4_k_m_f16", kDense, FileType::kQ4_K_M, KvFormat::kF16, KvFormat::kF16},
    {"moe_q8_0_bf16", kMoe, FileType::kQ8_0, KvFormat::kBF16, KvFormat::kBF16},
    {"ple_f32", kPle, FileType::kF32, KvFormat::kF32, KvFormat::kF32},
    {"dense_q8_0_f16_tq8", kDense, FileType::kQ8_0, KvFormat::kF16, KvFormat::kTq8},
    {"moe_f32_tq8_tq4", kMoe, FileType::kF32, KvFormat::kTq8, KvFormat::kTq4},
    {"ple_q8_0_tq3_5_tq2_5", kPle, FileType::kQ8_0, KvFormat::kTq3Half, KvFormat::kTq2Half},
    {"ple_q5_1_f16", kPle, FileType::kQ5_1, KvFormat::kF16, KvFormat::kF16},
};
INSTANTIATE_TEST_SUITE_P(All, Invariance, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// A prompt with an image whose rows see each other.
class InvarianceOfImages : public Invariance {
 protected:
  InvarianceOfImages() {
    const Golden golden(kMoe);
    const nlohmann::json& vision = golden.json()["vision"];
    ids_ = vision["token_ids"].get<std::vector<int32_t>>();
    image_.soft_rows = golden.tensor("vision.soft_tokens");
    image_.soft_at = vision["image_block"][0].get<size_t>();
    image_.soft_block = true;
  }
  std::vector<int32_t> part(size_t begin, size_t end) const {
    return {ids_.begin() + static_cast<ptrdiff_t>(begin),
            ids_.begin() + static_cast<ptrdiff_t>(end)};
  }
  // Of `all`, the logits of the positions from `begin` on.
  std::vector<float> behind(const std::vector<float>& all, size_t begin) const {
    const size_t n_vocab = all.size() / ids_.size();
    return {all.begin() + static_cast<ptrdiff_t>(begin * n_vocab), all.end()};
  }
  // Adds the prompt, behind `before` other tokens, as a sequence of the batch.
  void add(Batch& batch, uint32_t sequence, const std::vector<int32_t>& before,
           size_t hidden_dim) const {
    const size_t n_soft = image_.soft_rows.size() / hidden_dim;
    for (size_t i = 0; i < before.size() + ids_.size(); ++i) {
      BatchRow row;
      row.sequence = sequence;
      row.position = static_cast<uint32_t>(i);
      row.token = i < before.size() ? before[i] : ids_[i - before.size()];
      const size_t at = before.size() + image_.soft_at;
      if (i >= at && i < at + n_soft) {
        row.token = 0;
        row.soft = static_cast<int32_t>(i - at);
        row.block = 0;
      }
      row.wants = Wants::kLogits;
      batch.rows.push_back(row);
    }
  }

  std::vector<int32_t> ids_;
  RunOptions image_;
};

TEST_P(InvarianceOfImages, ChunksThreadsAndPages) {
  TestModel whole(GetParam().folder, setup());
  const std::vector<float> expected = whole.run(ids_, image_);
  RunOptions causal = image_;
  causal.soft_block = false;
  EXPECT_FALSE(same_bits(whole.run(ids_, causal), expected)) << "the block has no effect";
  expect_same_however_run(GetParam().folder, setup(), ids_, image_, expected);
}

// A text, the prompt, and the prompt behind other tokens: in one batch as each alone.
TEST_P(InvarianceOfImages, OthersInTheBatch) {
  TestModel model(GetParam().folder, setup());
  const std::vector<int32_t> text = tokens(40, 1);
  const std::vector<int32_t> before = tokens(13, 2);
  std::vector<int32_t> shifted = before;
  shifted.insert(shifted.end(), ids_.begin(), ids_.end());
  RunOptions shifted_image = image_;
  shifted_image.soft_at += before.size();
  std::vector<float> expected = model.run(text);
  for (const auto& alone : {model.run(ids_, image_), model.run(shifted, shifted_image)}) {
    expected.insert(expected.end(), alone.begin(), alone.end());
  }
  Batch batch;
  batch.soft_rows = image_.soft_rows;
  for (uint32_t i = 0; i < text.size(); ++i) {
    batch.rows.push_back({0, i, text[i], -1, -1, Wants::kLogits});
  }
  add(batch, 1, {}, model.config().hidden_dim);
  add(batch, 2, before, model.config().hidden_dim);
  std::vector<Sequence> sequences;
  for (int s = 0; s < 3; ++s) sequences.push_back(model.new_sequence());
  Sequence* pointers[] = {&sequences[0], &sequences[1], &sequences[2]};
  EXPECT_TRUE(same_bits(model.step(batch, pointers), expected));
}

// Forks just before the image and behind it, while the original goes another way.
TEST_P(InvarianceOfImages, AfterAFork) {
  TestModel model(GetParam().folder, setup());
  const std::vector<float> whole = model.run(ids_, image_);
  const size_t end = image_.soft_at + image_.soft_rows.size() / model.config().hidden_dim;
  Sequence sequence = model.new_sequence();
  (void)model.run(part(0, image_.soft_at), sequence);
  Sequence before = sequence.fork();
  RunOptions rest = image_;
  rest.soft_at = 0;
  (void)model.run(part(image_.soft_at, end), sequence, rest);
  Sequence behind_image = sequence.fork();
  (void)model.run(tokens(30, 9), sequence);
  EXPECT_TRUE(same_bits(model.run(part(image_.soft_at, ids_.size()), before, rest),
                        behind(whole, image_.soft_at)));
  EXPECT_TRUE(same_bits(model.run(part(end, ids_.size()), behind_image), behind(whole, end)));
}

const Case kImageCases[] = {
    {"moe_f32", kMoe, FileType::kF32, KvFormat::kF32, KvFormat::kF32},
    {"moe_q8_0_f16_tq8", kMoe, FileType::kQ8_0, KvFormat::kF16, KvFormat::kTq8},
};
INSTANTIATE_TEST_SUITE_P(All, InvarianceOfImages, testing::ValuesIn(kImageCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hf2q
