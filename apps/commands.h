#pragma once
// One function per command: it adds the command, its flags and what it does to the program.

#include "flags.h"

namespace hf2q::app {

struct Globals {
  bool quiet = false;  // no progress, no notes on stderr; errors stay
};

void add_completions(Program& program, const Globals& globals);
void add_convert(Program& program, const Globals& globals);
void add_quantize(Program& program, const Globals& globals);
void add_info(Program& program, const Globals& globals);
void add_doctor(Program& program, const Globals& globals);
void add_generate(Program& program, const Globals& globals);
void add_chat(Program& program, const Globals& globals);
void add_bench(Program& program, const Globals& globals);
void add_embed(Program& program, const Globals& globals);
void add_perplexity(Program& program, const Globals& globals);
void add_kv_quality(Program& program, const Globals& globals);
void add_imatrix(Program& program, const Globals& globals);
void add_logits(Program& program, const Globals& globals);
void add_batch(Program& program, const Globals& globals);
void add_serve(Program& program, const Globals& globals);
void add_tokenize(Program& program, const Globals& globals);
void add_trace(Program& program, const Globals& globals);

}  // namespace hf2q::app
