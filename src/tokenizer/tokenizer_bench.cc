// Benchmarks of the tokenizer. With HF2Q_GEMMA3_TOKENIZER set to the tokenizer.json of Gemma 3 they
// use its 262,144 tokens, else the small one of models/.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "base/check.h"
#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace hf2q {
namespace {

std::string json_path() {
  const char* path = std::getenv("HF2Q_GEMMA3_TOKENIZER");
  return path != nullptr ? path : HF2Q_MODELS "/tiny-gemma4/tokenizer.json";
}

Vocabulary read_vocabulary() {
  Result<Vocabulary> vocabulary = read_tokenizer_json(json_path());
  CHECK(vocabulary.ok());
  return std::move(vocabulary.value());
}

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = [] {
    Result<Tokenizer> made = Tokenizer::create(read_vocabulary());
    CHECK(made.ok());
    return std::move(made.value());
  }();
  return kTokenizer;
}

constexpr size_t kBytes = size_t{1} << 20;

// Sentences of words drawn from a list by a falling frequency, as in prose.
std::string english() {
  static constexpr std::string_view kProse =
      "It was the best of times, it was the worst of times, it was the age of wisdom, it was the "
      "age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the "
      "season of Light, it was the season of Darkness, it was the spring of hope, it was the "
      "winter "
      "of despair, we had everything before us, we had nothing before us, we were all going direct "
      "to Heaven, we were all going direct the other way - in short, the period was so far like "
      "the "
      "present period, that some of its noisiest authorities insisted on its being received, for "
      "good or for evil, in the superlative degree of comparison only.\n\nThere were a king with a "
      "large jaw and a queen with a plain face, on the throne of England; there were a king with a "
      "large jaw and a queen with a fair face, on the throne of France.\n";
  std::string text;
  while (text.size() < kBytes) text += kProse;
  text.resize(kBytes);
  return text;
}

std::string random_bytes() {
  std::mt19937 random(1);
  std::string text(kBytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string one_word() {
  std::mt19937 random(2);
  std::string text(kBytes, '\0');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

void encode(benchmark::State& state, const std::string& text) {
  const Tokenizer& subject = tokenizer();
  size_t n_tokens = 0;
  for (auto _ : state) n_tokens = subject.encode(text).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(n_tokens);
}

BENCHMARK_CAPTURE(encode, english_1MiB, english());
BENCHMARK_CAPTURE(encode, one_character_1MiB, std::string(kBytes, 'a'));
BENCHMARK_CAPTURE(encode, one_character_64KiB, std::string(kBytes / 16, 'a'));
BENCHMARK_CAPTURE(encode, random_letters_1MiB, one_word());
BENCHMARK_CAPTURE(encode, random_letters_64KiB, one_word().substr(0, kBytes / 16));
BENCHMARK_CAPTURE(encode, random_bytes_1MiB, random_bytes());

void load_json(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::create(read_vocabulary()));
}
BENCHMARK(load_json)->Unit(benchmark::kMillisecond);

// From a file in the page cache to a tokenizer.
void load_gguf(benchmark::State& state) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("hf2q_bench_{}.gguf", getpid()))
          .string();
  GgufMetadata metadata;
  write_vocabulary(read_vocabulary(), metadata);
  Result<GgufWriter> writer = GgufWriter::create(path, metadata, {});
  CHECK(writer.ok() && writer.value().commit().ok());
  for (auto _ : state) {
    const Result<GgufFile> file = GgufFile::open(path);
    CHECK(file.ok());
    Result<Vocabulary> vocabulary = read_gguf_vocabulary(file.value());
    CHECK(vocabulary.ok());
    benchmark::DoNotOptimize(Tokenizer::create(std::move(vocabulary.value())));
  }
  std::filesystem::remove(path);
}
BENCHMARK(load_gguf)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hf2q
