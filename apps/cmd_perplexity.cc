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
#include "text_flags.h"

namespace hf2q::app {
namespace {

struct PerplexityFlags {
  ModelFlags model;
  TextFlags text;
  std::string against;  // a GGUF file, or empty
  bool json = false;
};

Result<int> score_file(const PerplexityFlags& flags, const Globals& globals) {
  TRY(engine, load_engine(flags.model, globals, flags.model.max_rows));
  TRY(ids, read_text_ids(flags.text, engine->tokenizer()));
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

Result<int> compare_files(const PerplexityFlags& flags, const Globals& globals) {
  ModelFlags model = flags.model;
  model.max_rows = std::min(model.max_rows, kComparedRows);
  ModelFlags reference = model;
  reference.model = flags.against;
  TRY(a, load_engine(reference, globals, reference.max_rows));
  TRY(b, load_engine(model, globals, model.max_rows));
  TRY(ids, read_text_ids(flags.text, a->tokenizer()));
  TRY(d, compare_on_text(*a, *b, ids));
  if (!flags.json) {
    print_divergence(d);
    return kSuccess;
  }
  print_json(to_json(d));
  return kSuccess;
}

}  // namespace

void add_perplexity(Program& program, const Globals& globals) {
  Command command = program.add_command("perplexity", "How well the model predicts a text");
  auto flags = std::make_shared<PerplexityFlags>();
  add_text_flags(command, flags->text, flags->model);
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
