// A forward pass allocates nothing: every operator new of this program is counted while one runs.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "forward/test_model.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<size_t> n_allocations = 0;

void* counted(size_t bytes, size_t alignment) {
  if (counting) ++n_allocations;
  const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace hf2q {
namespace {

TEST(Counter, SeesAllocationsOfAllThreads) {
  Exec exec(2);
  n_allocations = 0;
  counting = true;
  exec.parallel_for(8, 1, [](size_t, size_t) { std::vector<int>(100).at(5) = 1; });
  counting = false;
  EXPECT_EQ(n_allocations.exchange(0), 8U);
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

class ForwardAllocations : public testing::TestWithParam<Case> {
 protected:
  ForwardAllocations()
      : model_(GetParam().folder,
               {GetParam().file_type, {GetParam().k, GetParam().v, GetParam().k, GetParam().v}}),
        sequence_(model_.new_sequence()) {}

  // Allocations of a pass over `n` rows behind what the sequence holds.
  size_t allocations(uint32_t n, Wants last) {
    Batch batch;
    for (uint32_t i = 0; i < n; ++i) {
      const auto token = static_cast<int32_t>(300 + i * 37 % 7000);
      batch.rows.push_back({0, sequence_.length() + i, token, -1, -1, Wants::kNothing});
    }
    batch.rows.back().wants = last;
    EXPECT_FALSE(sequence_.reserve(n));
    Sequence* one[] = {&sequence_};
    const CacheView cache = model_.view(one);
    counting = true;
    const bool bad = model_.forward(batch, cache).has_value();
    counting = false;
    EXPECT_FALSE(bad);
    sequence_.commit(n);
    return n_allocations.exchange(0);
  }

  TestModel model_;
  Sequence sequence_;
};

TEST_P(ForwardAllocations, None) {
  (void)allocations(64, Wants::kLogits);  // what is made once, on the first pass
  EXPECT_EQ(allocations(64, Wants::kLogits), 0U) << "prompt";
  EXPECT_EQ(allocations(1, Wants::kLogits), 0U) << "decode";
  EXPECT_EQ(allocations(7, Wants::kHidden), 0U) << "hidden states";
  EXPECT_EQ(allocations(512, Wants::kNothing), 0U) << "the largest batch, never seen before";
}

const std::string kDense = HF2Q_MODELS "/tiny-gemma4";
const Case kCases[] = {
    {"dense_q4_k_m_f16", kDense, FileType::kQ4_K_M, KvFormat::kF16, KvFormat::kF16},
    {"dense_f32_q8_0", kDense, FileType::kF32, KvFormat::kQ8_0, KvFormat::kQ8_0},
    {"moe_q8_0_f16_tq8", HF2Q_TEST_DATA "/micro-moe", FileType::kQ8_0, KvFormat::kF16,
     KvFormat::kTq8},
    {"ple_q5_1_tq3_5", HF2Q_TEST_DATA "/micro-ple", FileType::kQ5_1, KvFormat::kTq3Half,
     KvFormat::kTq2Half},
};
INSTANTIATE_TEST_SUITE_P(All, ForwardAllocations, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hf2q
