#include "convert/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/parallel.h"
#include "gguf/reader.h"
#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {
namespace {

using testing_support::read_text;
using testing_support::TempFolder;

uint64_t bytes_of(const PipelineSize& size, uint64_t widest_row) {
  return 4 * (size.n_slots * size.chunk_elements + size.n_threads * widest_row);
}

TEST(PipelineSize, FewThreadsHaveLargeChunks) {
  const PipelineSize size = pipeline_size(2, 2816);
  EXPECT_EQ(size.n_threads, 2U);
  EXPECT_EQ(size.n_slots, 6U);
  EXPECT_EQ(size.chunk_elements, 1U << 20);
}

TEST(PipelineSize, MemoryIsBoundedWhateverTheThreads) {
  constexpr uint64_t kBudget = uint64_t{256} << 20;
  for (const size_t n_threads : {1, 2, 16, 21, 22, 64, 511, 512}) {
    for (const uint64_t row : {1, 32, 10752, 43690, 1 << 20, (1 << 24) - 1, 1 << 24}) {
      const PipelineSize size = pipeline_size(n_threads, row);
      EXPECT_LE(bytes_of(size, row), kBudget) << n_threads << " threads, rows of " << row;
      EXPECT_GE(size.n_threads, 1U);
      EXPECT_LE(size.n_threads, n_threads);
      EXPECT_GE(size.n_slots, size.n_threads);
      EXPECT_GE(size.chunk_elements, row);
    }
  }
}

TEST(PipelineSize, AllThreadsWorkOnRowsOfRealModels) {
  for (const uint64_t row : {2816, 10752, 21504}) {
    EXPECT_EQ(pipeline_size(512, row).n_threads, 512U) << row;
  }
}

TEST(PipelineSize, ARowBeyondTheBudgetIsEncodedByOneThread) {
  const uint64_t row = uint64_t{1} << 30;
  const PipelineSize size = pipeline_size(512, row);
  EXPECT_EQ(size.n_threads, 1U);
  EXPECT_EQ(size.chunk_elements, row);
}

// Some matrices with rows of several lengths; what is written is F32 as it was.
struct Matrices {
  std::vector<float> values;
  std::vector<OutputTensor> tensors;

  Matrices() : values(300000) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 977) - 400.0F;
    for (const uint64_t columns : {1, 96, 1000, 300000}) {
      OutputTensor& tensor = tensors.emplace_back();
      tensor.name = fmt::format("of_{}.weight", columns);
      tensor.dims = {columns, values.size() / columns};
      tensor.type = TensorType::kF32;
      tensor.segments = {{TensorType::kF32, std::as_bytes(std::span(values)), false, "in", "x"}};
    }
  }
};

void expect_all_values(const std::string& path, const Matrices& expected) {
  const GgufFile file = testing_support::value_of(GgufFile::open(path));
  ASSERT_EQ(file.tensors().size(), expected.tensors.size());
  for (const GgufTensor& tensor : file.tensors()) {
    EXPECT_TRUE(std::ranges::equal(tensor.data, std::as_bytes(std::span(expected.values))))
        << tensor.name;
  }
}

TEST(Pipeline, RowsOfAnyLengthAndManyThreads) {
  const TempFolder work;
  const Matrices matrices;
  for (const size_t n_threads : {1, 3, 512}) {
    const std::string path = work / fmt::format("{}.gguf", n_threads);
    const Status status = write_gguf(path, {}, matrices.tensors, {n_threads, {}});
    ASSERT_TRUE(status.ok()) << status.error().message;
    expect_all_values(path, matrices);
  }
}

// In a process of its own, in which no thread can start: the stack of one would be 64 TiB.
TEST(Pipeline, DoesWithoutThreadsWhereThereAreNone) {
  const TempFolder work;
  const Matrices matrices;
  const pid_t child = fork();
  if (child == 0) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const bool set = pthread_attr_setstacksize(&attributes, size_t{1} << 46) == 0 &&
                     pthread_setattr_default_np(&attributes) == 0;
    std::vector<std::thread> threads;
    start_threads(threads, 1, [] {});
    if (!set || !threads.empty()) _exit(2);
    _exit(write_gguf(work / "out.gguf", {}, matrices.tensors, {64, {}}).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  expect_all_values(work / "out.gguf", matrices);
}

}  // namespace
}  // namespace hf2q
