// hf2q perplexity: how well a model predicts a text, and how far it is from another one there.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "engine/text_score.h"
#include "model_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct PerplexityFlags {
  ModelFlags model;
  std::string file;
  std::string tokens_file;
  std::string against;  // a GGUF file, or empty
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

// Rows of one batch when two models are compared: the logits of all rows of both are in memory.
constexpr uint32_t kComparedRows = 128;

Result<int> score_file(const PerplexityFlags& flags, const Globals& globals) {
  TRY(engine, load_engine(flags.model, globals, flags.model.max_rows));
  TRY(ids, read_ids(*engine, flags));
  TRY(score, score_text(*engine, ids));
  const double perplexity = std::exp(score.mean_nll);
  if (flags.json) {
    print_json(
        {{"tokens", score.n_tokens}, {"mean_nll", score.mean_nll}, {"perplexity", perplexity}});
  } else {
    fmt::print("perplexity {:.4f} over {} tokens (mean nll {:.5f})\n", perplexity, score.n_tokens,
               score.mean_nll);
  }
  return kSuccess;
}

void print_divergence(const Divergence& d) {
  fmt::print(
      "KL divergence    mean {:.6f}, median {:.6f}, 99th percentile {:.6f} nats over {} tokens\n"
      "same top token   {:.2f} %\n"
      "perplexity       {:.4f}, reference {:.4f}\n",
      d.kl_mean, d.kl_median, d.kl_p99, d.n_tokens, 100 * d.same_top1, d.ppl_b, d.ppl_a);
}

Result<int> compare_files(const PerplexityFlags& flags, const Globals& globals) {
  ModelFlags model = flags.model;
  model.max_rows = std::min(model.max_rows, kComparedRows);
  ModelFlags reference = model;
  reference.model = flags.against;
  TRY(a, load_engine(reference, globals, reference.max_rows));
  TRY(b, load_engine(model, globals, model.max_rows));
  TRY(ids, read_ids(*a, flags));
  TRY(d, compare_on_text(*a, *b, ids));
  if (!flags.json) {
    print_divergence(d);
    return kSuccess;
  }
  print_json({{"tokens", d.n_tokens},
              {"kl_mean", d.kl_mean},
              {"kl_median", d.kl_median},
              {"kl_p99", d.kl_p99},
              {"same_top1", d.same_top1},
              {"ppl_a", d.ppl_a},
              {"ppl_b", d.ppl_b}});
  return kSuccess;
}

}  // namespace

void add_perplexity(Program& program, const Globals& globals) {
  Command command = program.add_command("perplexity", "How well the model predicts a text");
  auto flags = std::make_shared<PerplexityFlags>();
  const Option file = command.add_option("-f,--file", flags->file, "The text");
  const Option tokens = command.add_option("--tokens-file", flags->tokens_file,
                                           "The text as a JSON array of token ids");
  command.require_one_of({file, tokens}, &flags->model.dry_run);
  command.add_option("--against", flags->against,
                     "Compare with this GGUF file, the reference: KL divergence, same top token");
  command.add_flag("--json", flags->json,
                   "{\"tokens\", \"mean_nll\", \"perplexity\"}; with --against {\"tokens\", "
                   "\"kl_mean\", \"kl_median\", \"kl_p99\", \"same_top1\", \"ppl_a\", \"ppl_b\"}, "
                   "a the reference");
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals, [flags, &globals] {
    return flags->against.empty() ? score_file(*flags, globals) : compare_files(*flags, globals);
  });
}

}  // namespace hf2q::app
