#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "base/output_file.h"
#include "commands.h"
#include "flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

int run(int argc, char** argv) {
  Program program("hf2q: quantized Gemma 4 models, from checkpoint to answer", "hf2q",
                  HF2Q_VERSION);
  Globals globals;
  program.global().add_flag("-q,--quiet", globals.quiet, "No progress and no notes on stderr");
  add_convert(program, globals);
  add_quantize(program, globals);
  add_info(program, globals);
  add_generate(program, globals);
  add_chat(program, globals);
  add_serve(program, globals);
  add_batch(program, globals);
  add_bench(program, globals);
  add_embed(program, globals);
  add_perplexity(program, globals);
  add_kv_quality(program, globals);
  add_imatrix(program, globals);
  add_logits(program, globals);
  add_tokenize(program, globals);
  add_trace(program, globals);
  add_doctor(program, globals);
  add_completions(program, globals);
  const int exit_code = program.run(argc, argv);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "hf2q: error: cannot write to stdout\n");
    return kFailure;
  }
  return exit_code;
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
