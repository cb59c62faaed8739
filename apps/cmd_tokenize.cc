// hf2q tokenize: text to token ids, and back with --decode.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "gguf/reader.h"
#include "model_flags.h"
#include "terminal.h"
#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace hf2q::app {
namespace {

using nlohmann::ordered_json;

struct TokenizeFlags {
  std::string model;
  std::string prompt;
  std::string file;
  std::string decode;
  bool no_bos = false;
  bool no_special = false;
  bool json = false;
};

// From a GGUF file, a checkpoint folder, or a tokenizer.json.
Result<Tokenizer> load_tokenizer(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (is_folder || path.ends_with(".json")) {
    const std::string json =
        is_folder ? (std::filesystem::path(path) / "tokenizer.json").string() : path;
    TRY(vocabulary, read_tokenizer_json(json));
    return Tokenizer::create(std::move(vocabulary), json);
  }
  TRY(file, GgufFile::open(path));
  TRY(vocabulary, read_gguf_vocabulary(file));
  return Tokenizer::create(std::move(vocabulary), path);
}

int print_ids(const Tokenizer& tokenizer, const TokenizeFlags& flags, std::string_view text) {
  const std::vector<int32_t> ids =
      tokenizer.encode(text, {.add_bos = !flags.no_bos && tokenizer.vocabulary().add_bos,
                              .parse_special = !flags.no_special});
  if (flags.json) {
    ordered_json pieces = ordered_json::array();
    for (const int32_t id : ids) pieces.push_back(tokenizer.token_text(id));
    print_json({{"ids", ids}, {"pieces", pieces}});
  } else {
    fmt::print("{}\n", fmt::join(ids, " "));
  }
  return kSuccess;
}

int run(const TokenizeFlags& flags, bool decoding) {
  Result<Tokenizer> tokenizer = load_tokenizer(flags.model);
  if (!tokenizer.ok()) return report(tokenizer.error());
  if (decoding) {
    const Result<std::vector<int32_t>> ids = parse_ids(flags.decode, tokenizer.value().n_tokens());
    if (!ids.ok()) return report(ids.error());
    const std::string text = tokenizer.value().decode(ids.value());
    if (flags.json) {
      print_json({{"ids", ids.value()}, {"text", text}});
    } else {
      fmt::print("{}\n", text);
    }
    return kSuccess;
  }
  if (flags.file.empty()) return print_ids(tokenizer.value(), flags, flags.prompt);
  const Result<std::string> text = read_text_file(flags.file);
  if (!text.ok()) return report(text.error());
  return print_ids(tokenizer.value(), flags, text.value());
}

}  // namespace

void add_tokenize(Program& program, const Globals& /*globals*/) {
  Command command = program.add_command("tokenize", "Text to token ids, and back");
  auto flags = std::make_shared<TokenizeFlags>();
  command.add_option("-m,--model", flags->model, "GGUF file, checkpoint folder or tokenizer.json")
      .required();
  const Option prompt = command.add_option("-p,--prompt", flags->prompt, "Text");
  const Option file =
      command.add_option("-f,--file", flags->file, "File with the text, or a pipe; - for stdin");
  const Option decode =
      command.add_option("--decode", flags->decode, "Ids, parted by spaces or commas, to text");
  command.add_flag("--no-bos", flags->no_bos, "Do not begin with <bos>");
  command.add_flag("--no-special", flags->no_special,
                   "Markers in the text are ordinary characters");
  command.add_flag("--json", flags->json,
                   "{\"ids\": [...], \"pieces\": [...]} or {\"ids\", \"text\"}");
  command.require_one_of({prompt, file, decode});
  command.on_run([flags, decode] { return run(*flags, decode.given()); });
}

}  // namespace hf2q::app
