// hf2q embed: texts to vectors of unit length.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "engine/embedding.h"
#include "engine/generate.h"
#include "model_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct EmbedFlags {
  ModelFlags model;
  std::vector<std::string> prompts;
  std::string pooling = "last";
};

// The final hidden state of the text's last token, divided by its length.
Result<std::vector<float>> embed(Engine& engine, const std::string& text) {
  const std::vector<int32_t> ids =
      engine.tokenizer().encode(text, {.add_bos = true, .parse_special = false});
  Sequence sequence = engine.new_sequence();
  TRY_OK(read_prompt(engine, sequence, ids, Wants::kHidden));
  return unit_vector(engine.hidden());
}

Result<int> run(const EmbedFlags& flags, const Globals& globals) {
  if (flags.pooling != "last") {
    return error(ErrorCode::kInvalidArgument, "--pooling: pooling {} is not supported, only last",
                 flags.pooling);
  }
  for (const std::string& text : flags.prompts) TRY_OK(check_prompt_text(text));
  TRY(engine, load_engine(flags.model, globals));
  for (const std::string& text : flags.prompts) {
    TRY(vector, embed(*engine, text));
    print_json(vector);
  }
  return kSuccess;
}

}  // namespace

void add_embed(Program& program, const Globals& globals) {
  Command command =
      program.add_command("embed", "Texts to vectors of unit length, one JSON array per line");
  auto flags = std::make_shared<EmbedFlags>();
  command.add_option("-p,--prompt", flags->prompts, "A text; may be repeated").required();
  command.add_option("--pooling", flags->pooling, "Which hidden state: last, of the last token")
      .show_default();
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run(*flags, globals); });
}

}  // namespace hf2q::app
