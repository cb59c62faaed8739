// Benchmarks of the tokenizer. With HF2Q_GEMMA3_TOKENIZER set to the tokenizer.json of Gemma 3 they
// use its 262,144 tokens, else the small one of models/.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "tokenizer/gemma3_for_tests.h"
#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace hf2q {
namespace {

Vocabulary read_vocabulary() {
  Result<Vocabulary> vocabulary =
      read_tokenizer_json(gemma3_tokenizer_or(HF2Q_MODELS "/tiny-gemma4/tokenizer.json"));
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

// Lower-case words of the vocabulary, those of low ids more often, as frequent words have them: the
// n-th one about 1/n of the time, a comma or the end of a paragraph now and then.
std::string prose() {
  std::vector<std::string> words;
  for (size_t id = 0; id < tokenizer().n_tokens(); ++id) {
    const std::string text = tokenizer().token_text(static_cast<int32_t>(id));
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    if (text.size() > 1 && text[0] == ' ' && std::all_of(text.begin() + 1, text.end(), is_letter)) {
      words.push_back(text);
    }
  }
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(0.0, std::log(static_cast<double>(words.size())));
  std::string text;
  while (text.size() < kBytes) {
    text += words[static_cast<size_t>(std::exp(exponent(random)) - 1.0)];
    if (random() % 12 == 0) text += random() % 4 == 0 ? ".\n\n" : ",";
  }
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

BENCHMARK_CAPTURE(encode, prose_1MiB, prose());
BENCHMARK_CAPTURE(encode, one_character_1MiB, std::string(kBytes, 'a'));
BENCHMARK_CAPTURE(encode, one_character_64KiB, std::string(kBytes / 16, 'a'));
BENCHMARK_CAPTURE(encode, random_letters_1MiB, one_word());
BENCHMARK_CAPTURE(encode, random_letters_64KiB, one_word().substr(0, kBytes / 16));
BENCHMARK_CAPTURE(encode, random_bytes_1MiB, random_bytes());

void load_json(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::create(read_vocabulary()));
}
BENCHMARK(load_json)->Unit(benchmark::kMillisecond)->UseRealTime();

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
BENCHMARK(load_gguf)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace hf2q
