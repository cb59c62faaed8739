// What prompts cost that attend to stored rows, and to exact ones: for bench/prompt_kv, which names
// a model and a text (HF2Q_PROMPT_KV_MODEL, a GGUF file; HF2Q_PROMPT_KV_TOKENS, a file of ids).
// The text is cut into pieces: a prompt, then kAnswer tokens that are given, not chosen. Counters
// are means over these, against the same weights with an F32 cache. Names: prompt_kv/K/V/mode.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "engine/divergence.h"
#include "engine/generate.h"

namespace hf2q {
namespace {

constexpr uint32_t kPiece = 1024;
constexpr uint32_t kAnswer = 128;
constexpr uint32_t kPromptEnd = kPiece - kAnswer;

EngineOptions prompt_kv_options(KvFormat k, KvFormat v, PromptKv mode) {
  EngineOptions options;
  options.n_ctx = kPiece;
  options.max_rows = kAnswer;
  options.max_outputs = kAnswer;
  options.kv_formats = {k, v, k, v};
  options.prompt_kv = mode;
  return options;
}

Engine& f32_engine() {
  static const std::unique_ptr<Engine> loaded = [] {
    const char* path = std::getenv("HF2Q_PROMPT_KV_MODEL");
    auto engine =
        Engine::load(path, prompt_kv_options(KvFormat::kF32, KvFormat::kF32, PromptKv::kStored));
    if (!engine.ok()) std::abort();
    return std::move(engine.value());
  }();
  return *loaded;
}

std::vector<int32_t> prompt_kv_text() {
  std::ifstream file(std::getenv("HF2Q_PROMPT_KV_TOKENS"));
  std::vector<int32_t> ids;
  for (int32_t id = 0; file >> id;) ids.push_back(id);
  return ids;
}

// Logits of the prompt's last row and of those of the answer but its last, one after the other.
std::vector<float> read_piece(Engine& engine, std::span<const int32_t> ids) {
  Sequence sequence = engine.new_sequence();
  std::vector<float> logits;
  PromptHooks hooks;
  const auto keep = [&] {
    logits.insert(logits.end(), engine.logits().begin(), engine.logits().end());
  };
  if (!read_prompt(engine, sequence, ids.first(kPromptEnd), Wants::kLogits).ok()) std::abort();
  keep();
  hooks.every_row = true;
  hooks.after_batch = keep;
  const auto answer = ids.subspan(kPromptEnd, kAnswer - 1);
  if (!read_prompt(engine, sequence, answer, Wants::kLogits, {}, hooks).ok()) std::abort();
  return logits;
}

void prompt_kv(benchmark::State& state, KvFormat k, KvFormat v, PromptKv mode) {
  const auto engine = f32_engine().with_other_cache(prompt_kv_options(k, v, mode));
  if (!engine.ok()) return state.SkipWithError(engine.error().message.c_str());
  const std::vector<int32_t> text = prompt_kv_text();
  const size_t vocab = f32_engine().config().vocab_size;
  std::vector<RowDivergence> first;
  std::vector<RowDivergence> later;
  for (auto _ : state) {
    for (size_t at = 0; at + kPiece <= text.size(); at += kPiece) {
      const auto ids = std::span(text).subspan(at, kPiece);
      const std::vector<float> a = read_piece(f32_engine(), ids);
      const std::vector<float> b = read_piece(*engine.value(), ids);
      for (size_t r = 0; r * vocab < a.size(); ++r) {
        const auto row = compare_rows(std::span(a).subspan(r * vocab, vocab),
                                      std::span(b).subspan(r * vocab, vocab), ids[kPromptEnd + r]);
        if (!row.ok()) return state.SkipWithError(row.error().message.c_str());
        (r == 0 ? first : later).push_back(row.value());
      }
    }
  }
  const Divergence end = summarize(first);
  const Divergence answer = summarize(later);
  uint64_t stored = 0;
  for (const MemoryPlan::Group& group : engine.value()->memory().groups) {
    stored += group.bytes_at_rest;
  }
  state.counters = {{"kl_end", end.kl_mean},
                    {"kl_answer", answer.kl_mean},
                    {"nll_answer", std::log(answer.ppl_b)},
                    {"nll_f32", std::log(answer.ppl_a)},
                    {"stored_bytes", static_cast<double>(stored)},
                    {"exact_bytes", static_cast<double>(engine.value()->memory().exact)}};
}

const bool kRegistered = [] {
  if (std::getenv("HF2Q_PROMPT_KV_MODEL") == nullptr) return false;
  constexpr std::pair<KvFormat, KvFormat> kPairs[] = {{KvFormat::kF16, KvFormat::kTq8},
                                                      {KvFormat::kTq8, KvFormat::kTq8},
                                                      {KvFormat::kTq4, KvFormat::kTq4},
                                                      {KvFormat::kTq3Half, KvFormat::kTq3Half},
                                                      {KvFormat::kTq2Half, KvFormat::kTq2Half}};
  for (const auto& [k, v] : kPairs) {
    for (const PromptKv mode : {PromptKv::kStored, PromptKv::kExact}) {
      const std::string name =
          fmt::format("prompt_kv/{}/{}/{}", kv_format_info(k).name, kv_format_info(v).name,
                      mode == PromptKv::kExact ? "exact" : "stored");
      benchmark::RegisterBenchmark(name.c_str(), prompt_kv, k, v, mode)
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace hf2q
