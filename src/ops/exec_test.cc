#include "ops/exec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

namespace hf2q {
namespace {

class ExecTest : public ::testing::TestWithParam<size_t> {};

TEST_P(ExecTest, EveryItemRunsOnceWhateverTheGrain) {
  Exec exec(GetParam());
  for (size_t count : {0, 1, 2, 7, 64, 1000}) {
    for (size_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> calls(count);
      exec.parallel_for(count, grain, [&](size_t begin, size_t end) {
        EXPECT_LT(begin, end);
        EXPECT_LE(end - begin, grain);
        for (size_t i = begin; i < end; ++i) calls[i].fetch_add(1);
      });
      for (const std::atomic<int>& n : calls) ASSERT_EQ(n.load(), 1) << count << " by " << grain;
    }
  }
}

TEST_P(ExecTest, RegionsInARowSeeEachOthersPlainWrites) {
  Exec exec(GetParam());
  std::vector<uint64_t> values(257, 0);
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    // Item i reads what another thread may have written in the round before.
    exec.parallel_for(values.size(), 16, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) ++values[i];
    });
  }
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](uint64_t v) { return v == kRounds; }));
}

TEST_P(ExecTest, ThreadIndexIsNeverSharedByTwoRangesAtOnce) {
  Exec exec(GetParam());
  std::vector<std::atomic<int>> running(exec.n_threads());
  exec.parallel_for(500, 1, [&](size_t, size_t, size_t thread) {
    ASSERT_LT(thread, running.size());
    EXPECT_EQ(running[thread].fetch_add(1), 0);
    std::this_thread::yield();
    running[thread].fetch_sub(1);
  });
}

TEST_P(ExecTest, WorkersThatFellAsleepJoinTheNextRegion) {
  Exec exec(GetParam());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::atomic<size_t> arrived{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  // Each range waits until all threads are inside, which only ends if every sleeper woke.
  exec.parallel_for(exec.n_threads(), 1, [&](size_t, size_t) {
    arrived.fetch_add(1);
    while (arrived.load() < exec.n_threads() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(arrived.load(), exec.n_threads());
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

INSTANTIATE_TEST_SUITE_P(Threads, ExecTest, ::testing::Values(1, 2, 3, 8));

TEST(CpuIsa, NamesComeBack) {
  for (Isa isa : usable_isas()) EXPECT_EQ(parse_isa(name_of(isa)), isa);
  EXPECT_EQ(usable_isas().back(), cpu_isa());
  EXPECT_FALSE(parse_isa("avx9000"));
}

TEST(Exec, TakesALowerIsa) {
  EXPECT_EQ(Exec(1, Isa::kScalar).isa(), Isa::kScalar);
  EXPECT_EQ(Exec(1).isa(), cpu_isa());
}

TEST(Exec, RefusesMoreThreadsThanItsBound) {
  const auto refused = Exec::create(Exec::kMaxThreads + 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "threads: 1 to 1024 expected, found 1025");
}

// A stack that no machine has room for: the system refuses the first worker.
TEST(Exec, SaysWhenTheSystemGivesFewerThreads) {
  pthread_attr_t usual;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  pthread_attr_t huge = usual;
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 46), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const auto refused = Exec::create(3);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(refused.error().message,
              testing::StartsWith("threads: 3 expected, the system gives 1 ("));
}

}  // namespace
}  // namespace hf2q
