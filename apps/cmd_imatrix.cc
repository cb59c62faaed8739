// hf2q imatrix: which columns of the weights matter, measured on a text.

#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "convert/imatrix_file.h"
#include "engine/generate.h"
#include "engine/imatrix_collector.h"
#include "model_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

constexpr uint32_t kDefaultChunk = 512;

struct ImatrixFlags {
  ModelFlags model;
  std::string file;
  std::string output;
  bool output_weight = false;
};

// The text's tokens in contexts of at most `n_ctx`, each behind a BOS of its own.
std::vector<std::vector<int32_t>> chunks_of(std::span<const int32_t> ids, int32_t bos,
                                            uint32_t n_ctx) {
  std::vector<std::vector<int32_t>> chunks;
  const size_t room = n_ctx - 1;
  for (size_t at = 0; at < ids.size(); at += room) {
    const auto part = ids.subspan(at, std::min(room, ids.size() - at));
    chunks.emplace_back().push_back(bos);
    chunks.back().insert(chunks.back().end(), part.begin(), part.end());
  }
  return chunks;
}

Result<std::vector<std::vector<int32_t>>> read_chunks(const Engine& engine, const std::string& text,
                                                      const std::string& path) {
  if (engine.n_ctx() < 2) {
    return error(ErrorCode::kInvalidArgument, "-c: at least 2 tokens expected, found {}",
                 engine.n_ctx());
  }
  const std::vector<int32_t> ids =
      engine.tokenizer().encode(text, {.add_bos = false, .parse_special = false});
  if (ids.empty()) {
    return error(ErrorCode::kInvalidArgument, "{}: at least one token expected, found none", path);
  }
  return chunks_of(ids, engine.tokenizer().vocabulary().bos, engine.n_ctx());
}

Result<int> run(const ImatrixFlags& flags, const Globals& globals) {
  TRY(engine, load_engine(flags.model, globals));
  TRY(text, read_text_file(flags.file));
  TRY(chunks, read_chunks(*engine, text, flags.file));
  ImatrixCollector collector(engine->config().n_experts, flags.output_weight);
  const Observer observer = [&](const Point& point) { collector.add(point); };
  PromptHooks hooks;
  hooks.observer = &observer;
  {
    ProgressLine line(!globals.quiet);
    for (size_t i = 0; i < chunks.size(); ++i) {
      Sequence sequence = engine->new_sequence();
      TRY_OK(read_prompt(*engine, sequence, chunks[i], Wants::kNothing, {}, hooks));
      line.draw("reading text", text.size() * (i + 1) / chunks.size(), text.size());
    }
  }
  TRY(imatrix, collector.result(engine->file()));
  imatrix.datasets = {flags.file};
  imatrix.chunk_count = static_cast<uint32_t>(chunks.size());
  imatrix.chunk_size = engine->n_ctx();
  TRY_OK(write_imatrix(flags.output, imatrix));
  if (!globals.quiet) {
    fmt::print(stderr, "wrote {}: {} weights, {} chunks of {} tokens\n", flags.output,
               imatrix.entries.size(), imatrix.chunk_count, imatrix.chunk_size);
  }
  return kSuccess;
}

}  // namespace

void add_imatrix(Program& program, const Globals& globals) {
  Command command = program.add_command(
      "imatrix", "Importance of weights on a text in chunks (-c), for quantize --imatrix");
  auto flags = std::make_shared<ImatrixFlags>();
  command.add_option("-f,--file", flags->file, "The text").required();
  command.add_option("-o,--output", flags->output, "A GGUF file that quantize --imatrix reads")
      .required();
  command.add_flag("--output-weight", flags->output_weight,
                   "Also for the output head, which keeps more bits anyway");
  flags->model.n_ctx = kDefaultChunk;
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run(*flags, globals); });
}

}  // namespace hf2q::app
