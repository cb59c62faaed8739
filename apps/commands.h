#pragma once
// One function per command: it adds the command and its flags to the program, and a callback that
// does the work and stores the exit code.

#include <CLI/CLI.hpp>

namespace hf2q::app {

struct Globals {
  bool quiet = false;  // no progress, no notes on stderr; errors stay
  int exit_code = 0;   // set by the command that ran
};

void add_convert(CLI::App& program, Globals& globals);
void add_quantize(CLI::App& program, Globals& globals);
void add_info(CLI::App& program, Globals& globals);
void add_generate(CLI::App& program, Globals& globals);
void add_embed(CLI::App& program, Globals& globals);
void add_perplexity(CLI::App& program, Globals& globals);
void add_logits(CLI::App& program, Globals& globals);
void add_tokenize(CLI::App& program, Globals& globals);

}  // namespace hf2q::app
