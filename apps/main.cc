#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "commands.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

void collect_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
}

// The flag or command that was probably meant by `word`, or "".
std::string nearest_name(const CLI::App& program, const std::string& word, int argc, char** argv) {
  std::vector<std::string> names;
  collect_names(program, names);
  for (const CLI::App* command : program.get_subcommands(nullptr)) {
    if (std::find(argv, argv + argc, command->get_name()) != argv + argc) {
      collect_names(*command, names);
    }
  }
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

int usage_error(const CLI::App& program, const CLI::ParseError& parse_error, int argc,
                char** argv) {
  fmt::print(stderr, "hf2q: error: {}\n", parse_error.what());
  const bool unexpected =
      parse_error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  for (int i = 1; i < argc && unexpected; ++i) {
    const std::string word = argv[i];
    if (std::string(parse_error.what()).find(word) == std::string::npos) continue;
    const std::string meant = nearest_name(program, word.substr(0, word.find('=')), argc, argv);
    if (!meant.empty() && meant != word) fmt::print(stderr, "did you mean {}?\n", meant);
  }
  fmt::print(stderr, "hf2q --help shows the commands, hf2q COMMAND --help their flags\n");
  return kUsage;
}

// Spellings of several letters behind one dash, which users of llama.cpp know.
std::vector<std::string> expand_spellings(int argc, char** argv) {
  static constexpr std::pair<std::string_view, const char*> kSpellings[] = {
      {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-ub", "--batch-size"}};
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words) {
    for (const auto& [spelling, name] : kSpellings) {
      if (word == spelling) word = name;
    }
  }
  std::reverse(words.begin(), words.end());  // the order that the parser wants
  return words;
}

int run(int argc, char** argv) {
  CLI::App program{"hf2q: quantized Gemma 4 models, from checkpoint to answer", "hf2q"};
  Globals globals;
  program.set_version_flag("--version", HF2Q_VERSION);
  program.add_flag("-q,--quiet", globals.quiet, "No progress and no notes on stderr");
  program.set_config("--config", "", "Read flags from this file");
  program.require_subcommand(1);
  program.fallthrough();
  add_convert(program, globals);
  add_quantize(program, globals);
  add_info(program, globals);
  add_generate(program, globals);
  add_embed(program, globals);
  add_perplexity(program, globals);
  add_logits(program, globals);
  add_tokenize(program, globals);
  try {
    program.parse(expand_spellings(argc, argv));
  } catch (const CLI::ParseError& parse_error) {
    if (parse_error.get_exit_code() == 0) return program.exit(parse_error);  // --help, --version
    return usage_error(program, parse_error, argc, argv);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "hf2q: error: cannot write to stdout\n");
    return kFailure;
  }
  return globals.exit_code;
}

// Nothing in here may throw, so the line goes through C's own function.
int died(const char* reason) noexcept {
  remove_unfinished_files();
  std::fprintf(stderr, "hf2q: error: %s\n", reason);
  return kFailure;
}

}  // namespace
}  // namespace hf2q::app

// Exceptions are a library's last word: output that cannot be written, memory that is not there.
int main(int argc, char** argv) {
  using namespace hf2q::app;
  try {
    install_signal_handlers();
    return run(argc, argv);
  } catch (const std::exception& failure) {
    return died(failure.what());
  } catch (...) {
    return died("an unknown exception");
  }
}
