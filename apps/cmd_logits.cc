// hf2q logits: the scores of every token after a prompt, in a file.

#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "model_flags.h"
#include "safetensors/named_values.h"
#include "soft_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct LogitsFlags {
  ModelFlags model;
  PromptFlags prompt;
  std::string output;
  std::vector<std::string> soft;
  bool all_positions = false;
  bool hidden = false;
};

// The input of every layer, and behind them the output of the last norm: [positions, hidden] each.
std::vector<NamedValues> hidden_tensors(const Config& config, size_t n_positions) {
  std::vector<NamedValues> tensors;
  for (uint32_t i = 0; i <= config.n_layers; ++i) {
    tensors.push_back({fmt::format("hidden.{:02}", i), {n_positions, config.hidden_dim}, {}});
    tensors.back().values.reserve(n_positions * config.hidden_dim);
  }
  return tensors;
}

void keep_hidden(const Point& point, std::span<NamedValues> tensors) {
  const bool is_input = point.name == "pre_layer_hidden";
  if (!is_input && point.name != "output_normed") return;
  std::vector<float>& values =
      is_input ? tensors[static_cast<size_t>(point.layer)].values : tensors.back().values;
  values.insert(values.end(), point.data, point.data + point.n * point.cols);
}

Result<std::vector<NamedValues>> compute(Engine& engine, std::span<const int32_t> ids,
                                         const LogitsFlags& flags) {
  TRY(soft, read_soft_rows(flags.soft, engine.config()));
  std::vector<NamedValues> tensors;
  if (flags.hidden) tensors = hidden_tensors(engine.config(), ids.size());
  const uint64_t rows = flags.all_positions ? ids.size() : 1;
  NamedValues logits = {"logits", {rows, engine.config().vocab_size}, {}};
  const Observer observer = [&](const Point& point) { keep_hidden(point, tensors); };
  PromptHooks hooks;
  hooks.every_row = flags.all_positions;
  if (flags.hidden) hooks.observer = &observer;
  hooks.after_batch = [&] {
    const std::span<const float> batch = engine.logits();
    logits.values.insert(logits.values.end(), batch.begin(), batch.end());
  };
  Sequence sequence = engine.new_sequence();
  TRY_OK(read_prompt(engine, sequence, ids, Wants::kLogits, soft, hooks));
  TRY_OK(check_finite("logits", logits.values));
  tensors.insert(tensors.begin(), std::move(logits));
  return tensors;
}

Result<int> run(const LogitsFlags& flags, const Globals& globals) {
  TRY(engine, load_engine(flags.model, globals, flags.all_positions ? flags.model.max_rows : 1));
  TRY(ids, read_prompt_ids(flags.prompt, engine->tokenizer()));
  TRY(tensors, compute(*engine, ids, flags));
  TRY_OK(write_values(flags.output, tensors));
  if (!globals.quiet) {
    const NamedValues& logits = tensors.front();
    fmt::print(stderr, "wrote {}: logits [{}, {}]{}\n", flags.output, logits.shape[0],
               logits.shape[1], flags.hidden ? " and hidden states" : "");
  }
  return kSuccess;
}

}  // namespace

void add_logits(Program& program, const Globals& globals) {
  Command command = program.add_command("logits", "Scores of every token, to a file");
  auto flags = std::make_shared<LogitsFlags>();
  add_prompt_flags(command, flags->prompt, flags->model);
  command.add_option("-o,--output", flags->output, "A safetensors file: logits [rows, vocabulary]")
      .required();
  command.add_flag("--all-positions", flags->all_positions,
                   "A row for every position, instead of the last one");
  command.add_flag("--hidden", flags->hidden,
                   "Also hidden.00, hidden.01, ... [positions, hidden]: the input of each layer, "
                   "and the output of the last norm");
  add_soft_flag(command, flags->soft);
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run(*flags, globals); });
}

}  // namespace hf2q::app
