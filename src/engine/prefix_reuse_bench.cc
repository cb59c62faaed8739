// A prompt that was read before, through the engine: attaching and reading its last token, beside
// reading all of it and one step of decoding there. Names: op/tokens.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "convert/plan.h"
#include "engine/generate.h"

namespace hf2q {
namespace {

constexpr size_t kPrompt = 4000;

Engine& engine() {
  static const std::unique_ptr<Engine> loaded = [] {
    const auto path = std::filesystem::temp_directory_path() / "hf2q_prefix_reuse_bench.gguf";
    QuantizeOptions options;
    options.file_type = FileType::kQ8_0;
    const OutputPlan plan = std::move(plan_conversion(HF2Q_MODELS "/tiny-gemma4", options).value());
    if (!write(plan, path, {}).ok()) std::abort();
    EngineOptions engine_options;
    engine_options.n_ctx = 2 * kPrompt;
    engine_options.n_sequences = 2;
    auto engine = Engine::load(path, engine_options);
    std::filesystem::remove(path);
    return std::move(engine.value());
  }();
  return *loaded;
}

std::vector<int32_t> prompt() {
  std::vector<int32_t> ids(kPrompt);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = 300 + static_cast<int32_t>(i) * 37 % 5000;
  return ids;
}

// As a request does.
uint32_t read(std::span<const int32_t> ids) {
  Sequence sequence = engine().new_sequence();
  const PrefixMatch match = sequence.attach(engine().prefixes(), "", prompt_keys(ids));
  PromptHooks hooks;
  hooks.n_held = match.k;
  if (!read_prompt(engine(), sequence, ids, Wants::kLogits, {}, hooks).ok()) std::abort();
  sequence.mark(sequence.length());
  return match.k;
}

void cold(benchmark::State& state) {
  for (auto _ : state) {
    engine().prefixes().clear();
    if (read(prompt()) != 0) state.SkipWithError("nothing reused expected");
  }
}
BENCHMARK(cold)->Name("prompt_cold/4000")->Unit(benchmark::kMillisecond);

void again(benchmark::State& state) {
  read(prompt());
  for (auto _ : state) {
    if (read(prompt()) != kPrompt - 1) state.SkipWithError("all but one token reused expected");
  }
}
BENCHMARK(again)->Name("prompt_again/4000")->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  Sequence sequence = engine().new_sequence();
  if (!read_prompt(engine(), sequence, prompt(), Wants::kLogits).ok()) std::abort();
  const int32_t token[] = {300};
  for (auto _ : state) {
    if (!read_prompt(engine(), sequence, token, Wants::kLogits).ok()) std::abort();
    state.PauseTiming();
    (void)sequence.truncate(kPrompt);
    state.ResumeTiming();
  }
}
BENCHMARK(decode)->Name("decode_step/4000")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hf2q
