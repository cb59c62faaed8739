#include "sample/sample.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "sample/log_probs.h"

namespace hf2q {
namespace {

constexpr size_t kVocabSize = 262144;

// Soft-capped logits of the real size: a few likely tokens above a broad floor.
std::vector<float> vocabulary_logits() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-8, 4);
  std::vector<float> logits(kVocabSize);
  for (float& logit : logits) logit = 30 * std::tanh(normal(random) / 30);
  for (int i = 0; i < 30; ++i) logits[random() % kVocabSize] = 12 + normal(random) / 4;
  return logits;
}

void run(benchmark::State& state, const SamplingParams& params) {
  const std::vector<float> logits = vocabulary_logits();
  const std::vector<int32_t> prompt(1000, 7);
  const std::vector<int32_t> answer(500, 9);
  SampleScratch scratch;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        sample({.logits = logits, .prompt = prompt, .answer = answer}, params, scratch).value());
  }
}

void run_log_probs(benchmark::State& state) {
  const std::vector<float> logits = vocabulary_logits();
  for (auto _ : state) benchmark::DoNotOptimize(log_probs(logits, 5, 20).value());
}

const int kRegistered = [] {
  const auto add = [](const char* name, const SamplingParams& params) {
    benchmark::RegisterBenchmark(name, [params](benchmark::State& state) { run(state, params); });
  };
  add("sample/greedy/262144", {.temperature = 0});
  add("sample/top_k_64/262144", {.top_k = 64});
  add("sample/top_k_64_top_p_0.95/262144", {.top_k = 64, .top_p = 0.95F});
  add("sample/top_k_64_penalties/262144",
      {.top_k = 64, .top_p = 0.95F, .repeat_penalty = 1.1F, .frequency_penalty = 0.5F});
  add("sample/top_p_0.95/262144", {.top_p = 0.95F});
  add("sample/plain/262144", {});
  benchmark::RegisterBenchmark("log_probs/top_20/262144", run_log_probs);
  return 0;
}();

}  // namespace
}  // namespace hf2q
