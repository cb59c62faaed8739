// What prompts cost that attend to stored rows, and to exact ones: a JSON array, a row for each
// pair of formats and each way. See the script of the same name. The text is cut into pieces: a
// prompt, then kAnswer tokens that are given, not chosen. Figures are means over these, against the
// same weights with an F32 cache.
//
// usage: prompt_kv MODEL TOKENS      a GGUF file and a file of token ids

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/divergence.h"
#include "engine/generate.h"

namespace hf2q {
namespace {

template <class T>
T value_or_exit(Result<T> result) {
  if (result.ok()) return std::move(result.value());
  fmt::print(stderr, "prompt_kv: {}\n", result.error().message);
  std::exit(1);
}

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

std::vector<int32_t> read_ids(const char* path) {
  std::ifstream file(path);
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
  value_or_exit(read_prompt(engine, sequence, ids.first(kPromptEnd), Wants::kLogits));
  keep();
  hooks.every_row = true;
  hooks.after_batch = keep;
  const auto answer = ids.subspan(kPromptEnd, kAnswer - 1);
  value_or_exit(read_prompt(engine, sequence, answer, Wants::kLogits, {}, hooks));
  return logits;
}

nlohmann::ordered_json measure(Engine& f32, std::span<const int32_t> text, KvFormat k, KvFormat v,
                               PromptKv mode) {
  const auto engine = value_or_exit(f32.with_other_cache(prompt_kv_options(k, v, mode)));
  const size_t vocab = f32.config().vocab_size;
  std::vector<RowDivergence> first;
  std::vector<RowDivergence> later;
  for (size_t at = 0; at + kPiece <= text.size(); at += kPiece) {
    const auto ids = text.subspan(at, kPiece);
    const std::vector<float> a = read_piece(f32, ids);
    const std::vector<float> b = read_piece(*engine, ids);
    for (size_t r = 0; r * vocab < a.size(); ++r) {
      const auto row = compare_rows(std::span(a).subspan(r * vocab, vocab),
                                    std::span(b).subspan(r * vocab, vocab), ids[kPromptEnd + r]);
      (r == 0 ? first : later).push_back(value_or_exit(row));
    }
  }
  const Divergence answer = summarize(later);
  uint64_t stored = 0;
  for (const MemoryPlan::Group& group : engine->memory().groups) stored += group.bytes_at_rest;
  return {{"k", kv_format_info(k).name},
          {"v", kv_format_info(v).name},
          {"mode", mode == PromptKv::kExact ? "exact" : "stored"},
          {"kl_end", summarize(first).kl_mean},
          {"kl_answer", answer.kl_mean},
          {"nll_answer", std::log(answer.ppl_b)},
          {"nll_f32", std::log(answer.ppl_a)},
          {"stored_bytes", stored},
          {"exact_bytes", engine->memory().exact}};
}

constexpr std::pair<KvFormat, KvFormat> kPairs[] = {{KvFormat::kF16, KvFormat::kTq8},
                                                    {KvFormat::kTq8, KvFormat::kTq8},
                                                    {KvFormat::kTq4, KvFormat::kTq4},
                                                    {KvFormat::kTq3Half, KvFormat::kTq3Half},
                                                    {KvFormat::kTq2Half, KvFormat::kTq2Half}};

}  // namespace
}  // namespace hf2q

int main(int argc, char** argv) {
  using namespace hf2q;
  if (argc != 3) {
    fmt::print(stderr, "usage: prompt_kv MODEL TOKENS\n");
    return 2;
  }
  const auto options = prompt_kv_options(KvFormat::kF32, KvFormat::kF32, PromptKv::kStored);
  const auto f32 = value_or_exit(Engine::load(argv[1], options));
  const std::vector<int32_t> text = read_ids(argv[2]);
  auto rows = nlohmann::ordered_json::array();
  for (const auto& [k, v] : kPairs) {
    for (const PromptKv mode : {PromptKv::kStored, PromptKv::kExact}) {
      rows.push_back(measure(*f32, text, k, v, mode));
    }
  }
  fmt::print("{}\n", rows.dump(1));
}
