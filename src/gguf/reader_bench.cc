// Opening a file with a vocabulary of the size of a real one (262,144 tokens, 514,906 merges), and
// one with as many keys as a file may have.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "gguf/reader.h"
#include "gguf/test_file.h"
#include "gguf/writer.h"

namespace hf2q {
namespace {

constexpr size_t kTokens = 262144;
constexpr size_t kMerges = 514906;

// `count` strings of 2 to 15 bytes.
std::vector<std::string> strings(size_t count) {
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back(std::string(2 + i * 7919 % 14, static_cast<char>('a' + i % 26)));
  }
  return all;
}

void set_strings(GgufMetadata& metadata, std::string_view key, size_t count) {
  const std::vector<std::string> owned = strings(count);
  metadata.set_strings(key, std::vector<std::string_view>(owned.begin(), owned.end()));
}

class VocabularyFile {
 public:
  VocabularyFile() {
    path_ = std::filesystem::temp_directory_path() / ("hf2q_bench_" + std::to_string(getpid()));
    GgufMetadata metadata;
    metadata.set_string("general.architecture", "gemma4");
    set_strings(metadata, "tokenizer.ggml.tokens", kTokens);
    metadata.set_f32s("tokenizer.ggml.scores", std::vector<float>(kTokens, -1000.0F));
    metadata.set_integers("tokenizer.ggml.token_type", std::vector<int32_t>(kTokens, 1));
    set_strings(metadata, "tokenizer.ggml.merges", kMerges);
    auto writer = GgufWriter::create(path_, metadata, {});
    CHECK(writer.ok() && writer.value().commit().ok());
  }
  ~VocabularyFile() { std::filesystem::remove(path_); }
  VocabularyFile(const VocabularyFile&) = delete;
  VocabularyFile& operator=(const VocabularyFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void open_file(benchmark::State& state) {
  const VocabularyFile vocabulary;
  uint64_t bytes = 0;
  for (auto _ : state) {
    const auto file = GgufFile::open(vocabulary.path());
    CHECK(file.ok());
    bytes += file.value().file_bytes();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(open_file)->Name("gguf/open/tokens_262144_merges_514906")->Unit(benchmark::kMillisecond);

void get_strings(benchmark::State& state) {
  const VocabularyFile vocabulary;
  const auto file = GgufFile::open(vocabulary.path());
  CHECK(file.ok());
  for (auto _ : state) {
    benchmark::DoNotOptimize(file.value().get_strings("tokenizer.ggml.merges"));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kMerges));
}
BENCHMARK(get_strings)->Name("gguf/get_strings/514906")->Unit(benchmark::kMillisecond);

void parse_most_keys(benchmark::State& state) {
  constexpr uint64_t kKeys = uint64_t{1} << 20;
  test::TestFile most;
  for (uint64_t i = 0; i < kKeys; ++i) {
    most.key(std::to_string(i * 7919 % kKeys), test::kU32, test::bytes_of(1U));
  }
  const std::vector<std::byte> bytes = most.bytes();
  for (auto _ : state) CHECK(GgufFile::parse(bytes, "most").ok());
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kKeys));
}
BENCHMARK(parse_most_keys)->Name("gguf/parse/keys_1048576")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hf2q
