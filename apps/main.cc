#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app{"hf2q: quantized Gemma 4 models, from checkpoint to answer"};
  app.set_version_flag("--version", HF2Q_VERSION);
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
