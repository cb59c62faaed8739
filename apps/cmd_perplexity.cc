// hf2q perplexity: how well a model predicts a text.

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "engine/generate.h"
#include "model_flags.h"
#include "sample/log_probs.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct PerplexityFlags {
  ModelFlags model;
  std::string file;
  std::string tokens_file;
  bool json = false;
};

Result<std::vector<int32_t>> read_ids(const Engine& engine, const PerplexityFlags& flags) {
  if (!flags.tokens_file.empty()) {
    TRY(text, read_text_file(flags.tokens_file));
    return parse_ids(text, engine.tokenizer().n_tokens());
  }
  TRY(text, read_text_file(flags.file));
  return engine.tokenizer().encode(text, {.add_bos = true, .parse_special = false});
}

// Sum of -log p of each token but the first, given those before it in one context.
Result<double> sum_of_nll(Engine& engine, std::span<const int32_t> ids) {
  Sequence sequence = engine.new_sequence();
  double sum = 0;
  for (size_t at = 0; at < ids.size();) {
    const size_t end = std::min(at + engine.max_rows(), ids.size());
    Batch batch;
    for (size_t i = at; i < end; ++i) {
      BatchRow& row = batch.rows.emplace_back();
      row.position = static_cast<uint32_t>(i);
      row.token = ids[i];
      row.wants = i + 1 < ids.size() ? Wants::kLogits : Wants::kNothing;
    }
    Sequence* one[] = {&sequence};
    TRY_OK(engine.run(batch, one));
    const size_t vocab = engine.config().vocab_size;
    for (size_t i = at; i < end && i + 1 < ids.size(); ++i) {
      TRY(probabilities,
          log_probs(engine.logits().subspan((i - at) * vocab, vocab), ids[i + 1], 0));
      sum -= probabilities.chosen.log_prob;
    }
    at = end;
  }
  return sum;
}

Status run(const PerplexityFlags& flags, const Globals& globals) {
  TRY(engine, load_engine(flags.model, globals, flags.model.max_rows));
  TRY(ids, read_ids(*engine, flags));
  if (ids.size() < 2) {
    return error(ErrorCode::kInvalidArgument, "perplexity: at least 2 tokens expected, found {}",
                 ids.size());
  }
  double sum = 0;
  size_t n = 0;
  for (size_t at = 0; at + 1 < ids.size(); at += engine->n_ctx()) {
    const size_t count = std::min<size_t>(engine->n_ctx(), ids.size() - at);
    TRY(nll, sum_of_nll(*engine, std::span(ids).subspan(at, count)));
    sum += nll;
    n += count - 1;
  }
  const double mean = sum / static_cast<double>(n);
  if (flags.json) {
    print_json({{"tokens", n}, {"mean_nll", mean}, {"perplexity", std::exp(mean)}});
  } else {
    fmt::print("perplexity {:.4f} over {} tokens (mean nll {:.5f})\n", std::exp(mean), n, mean);
  }
  return Ok{};
}

}  // namespace

void add_perplexity(CLI::App& program, Globals& globals) {
  CLI::App* command = program.add_subcommand("perplexity", "How well the model predicts a text");
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::Option* file = command->add_option("-f,--file", flags->file, "The text");
  CLI::Option* tokens = command->add_option("--tokens-file", flags->tokens_file,
                                            "The text as a JSON array of token ids");
  file->excludes(tokens);
  command->add_flag("--json", flags->json, "{\"tokens\", \"mean_nll\", \"perplexity\"}");
  add_model_flags(*command, flags->model);
  command->callback([=, &globals] {
    if (flags->model.dry_run) {
      globals.exit_code = print_memory_plan(flags->model, globals);
      return;
    }
    if (file->count() + tokens->count() == 0) {
      globals.exit_code =
          report(error(ErrorCode::kInvalidArgument, "perplexity: -f or --tokens-file expected"));
      return;
    }
    const Status status = run(*flags, globals);
    globals.exit_code = status.ok() ? static_cast<int>(kSuccess) : report(status.error());
  });
}

}  // namespace hf2q::app
