// hf2q convert: a HuggingFace checkpoint to a GGUF file.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "quantize_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct ConvertFlags : QuantizeFlags {
  std::string folder;
  std::string repo;
};

// Runs `huggingface-cli download REPO` and gives the folder that it prints. It honours HF_HOME,
// HF_HUB_CACHE, HF_TOKEN and HF_HUB_OFFLINE itself.
Result<std::string> download(const std::string& repo) {
  std::array<int, 2> pipe_ends = {};
  if (pipe(pipe_ends.data()) != 0) return error(ErrorCode::kIo, "cannot create a pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  std::array<std::string, 8> words = {"huggingface-cli", "download", repo,      "--include",
                                      "*.safetensors",   "*.json",   "*.jinja", "tokenizer*"};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  std::string output;
  std::array<char, 4096> buffer = {};
  for (ssize_t n = 0; failed == 0 && (n = read(pipe_ends[0], buffer.data(), buffer.size())) > 0;) {
    output.append(buffer.data(), static_cast<size_t>(n));
  }
  close(pipe_ends[0]);
  int status = 0;
  if (failed == 0) waitpid(child, &status, 0);
  if (failed != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
    return error(
        ErrorCode::kNotFound,
        "--repo {}: huggingface-cli is not installed; download the checkpoint and give its folder",
        repo);
  }
  if (status != 0) return error(ErrorCode::kNotFound, "--repo {}: huggingface-cli failed", repo);
  while (!output.empty() && (output.back() == '\n' || output.back() == '\r')) output.pop_back();
  return output.substr(output.rfind('\n') + 1);
}

std::string default_output(const std::string& folder, const std::string& quant) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  const std::string name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return name + "-" + quant + ".gguf";
}

Result<OutputPlan> plan(ConvertFlags& flags) {
  TRY(options, quantize_options(flags));
  if (!flags.repo.empty()) {
    TRY(folder, download(flags.repo));
    flags.folder = folder;
  }
  if (flags.folder.empty()) {
    return error(ErrorCode::kInvalidArgument, "convert: a checkpoint folder or --repo expected");
  }
  if (flags.output.empty()) flags.output = default_output(flags.folder, flags.quant);
  return plan_conversion(flags.folder, options);
}

}  // namespace

void add_convert(CLI::App& program, Globals& globals) {
  CLI::App* command =
      program.add_subcommand("convert", "Make a GGUF file of a HuggingFace checkpoint");
  auto flags = std::make_shared<ConvertFlags>();
  command->add_option("checkpoint", flags->folder,
                      "Folder with config.json, tokenizer.json and safetensors");
  command->add_option("--repo", flags->repo, "ORG/NAME: fetch it with huggingface-cli first");
  command->add_option("-o,--output", flags->output, "File to write (default: NAME-QUANT.gguf)");
  add_quantize_flags(*command, *flags);
  command->callback([flags, &globals] {
    Result<OutputPlan> planned = plan(*flags);
    globals.exit_code =
        planned.ok() ? execute(planned.value(), *flags, globals) : report(planned.error());
  });
}

}  // namespace hf2q::app
