// hf2q trace: the values inside one layer for one token, in a file.

#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "engine/trace.h"
#include "model_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct TraceFlags {
  ModelFlags model;
  PromptFlags prompt;
  TraceOptions trace;
  std::string output;
};

Result<int> run(const TraceFlags& flags, const Globals& globals) {
  TRY(engine, load_engine(flags.model, globals));
  TRY(ids, read_prompt_ids(flags.prompt, engine->tokenizer()));
  TRY(tensors, trace(*engine, ids, flags.trace));
  TRY_OK(write_values(flags.output, tensors));
  if (!globals.quiet) fmt::print(stderr, "wrote {}: {} tensors\n", flags.output, tensors.size());
  return kSuccess;
}

}  // namespace

void add_trace(Program& program, const Globals& globals) {
  Command command =
      program.add_command("trace", "Values inside one layer for one token, to a file");
  auto flags = std::make_shared<TraceFlags>();
  add_prompt_flags(command, flags->prompt, flags->model);
  command.add_option("--layer", flags->trace.layer, "From 0 on").required();
  command.add_option("--token", flags->trace.token, "Position in the prompt, from 0 on").required();
  command.add_option("-o,--output", flags->output, "A safetensors file").required();
  command.add_flag("--weights", flags->trace.weights,
                   "Also the weights of norms and scales, as the kernels see them");
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run(*flags, globals); });
}

}  // namespace hf2q::app
