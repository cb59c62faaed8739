// hf2q trace: the values inside one layer for one token, in a file.

#include <fmt/format.h>

#include <memory>
#include <numeric>

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
  std::string cache;  // layers; empty: none
};

// "0,3", "all"; "layer" is the one that is traced.
Result<std::vector<uint32_t>> layers_of(const TraceFlags& flags, uint32_t n_layers) {
  std::vector<uint32_t> layers;
  if (flags.cache.empty()) return layers;
  if (flags.cache == "layer") return std::vector<uint32_t>{flags.trace.layer};
  if (flags.cache == "all") {
    layers.resize(n_layers);
    std::iota(layers.begin(), layers.end(), 0U);
    return layers;
  }
  const Result<std::vector<int32_t>> numbers = parse_ids(flags.cache, n_layers);
  if (!numbers.ok()) {
    return error(ErrorCode::kInvalidArgument,
                 "--cache: layers from 0 to {}, or all, expected, found \"{}\"", n_layers - 1,
                 flags.cache);
  }
  for (const int32_t layer : numbers.value()) layers.push_back(static_cast<uint32_t>(layer));
  return layers;
}

Result<int> run(const TraceFlags& flags, const Globals& globals) {
  TraceOptions options = flags.trace;
  TRY(engine, load_engine(flags.model, globals));
  TRY(ids, read_prompt_ids(flags.prompt, engine->tokenizer()));
  TRY(layers, layers_of(flags, engine->config().n_layers));
  options.cache_layers = std::move(layers);
  TRY(traced, trace(*engine, ids, options));
  TRY_OK(write_trace(flags.output, traced));
  if (!globals.quiet) {
    fmt::print(stderr, "wrote {}: {} tensors\n", flags.output,
               traced.values.size() + traced.cache.tensors.size());
  }
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
  command
      .add_option(
          "--cache", flags->cache,
          "Also the rows that the token attends to as they are stored, codes and norms; "
          "what they mean is JSON in the file's metadata. Of this layer, or of 0,3,... or all")
      .optional_value("layer")
      .value_name("LAYERS");
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run(*flags, globals); });
}

}  // namespace hf2q::app
