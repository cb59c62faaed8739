// hf2q convert: a HuggingFace checkpoint to a GGUF file.

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <regex>

#include "base/quote.h"
#include "commands.h"
#include "convert/hf_metadata.h"
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

// ORG/NAME in the letters that a repository may have; so no flag of the client, and no path.
Status check_repo(const std::string& repo) {
  static const std::regex kRepo("[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*");
  if (std::regex_match(repo, kRepo)) return Ok{};
  return error(ErrorCode::kInvalidArgument,
               "--repo: ORG/NAME of letters, digits, '.', '_' and '-' expected, found {}",
               quote(repo));
}

Result<OutputPlan> plan(ConvertFlags& flags) {
  if (flags.folder.empty() == flags.repo.empty()) {
    return error(ErrorCode::kInvalidArgument,
                 "convert: either a checkpoint folder or --repo expected, found {}",
                 flags.repo.empty() ? "none" : "both");
  }
  if (!flags.repo.empty()) TRY_OK(check_repo(flags.repo));
  TRY(options, quantize_options(flags));
  if (flags.output.empty()) {
    const std::string name = model_folder_name(flags.repo.empty() ? flags.folder : flags.repo);
    flags.output = fmt::format("{}-{}.gguf", name, flags.quant);
  }
  TRY_OK(check_output(flags));
  if (!flags.repo.empty()) {
    TRY(folder, download(flags.repo));
    flags.folder = folder;
  }
  return plan_conversion(flags.folder, options);
}

}  // namespace

void add_convert(Program& program, const Globals& globals) {
  Command command = program.add_command("convert", "Make a GGUF file of a HuggingFace checkpoint");
  auto flags = std::make_shared<ConvertFlags>();
  command.add_option("checkpoint", flags->folder,
                     "Folder with config.json, tokenizer.json and safetensors");
  command.add_option("--repo", flags->repo,
                     "ORG/NAME, instead of a folder: fetch it with huggingface-cli first");
  command.add_option("-o,--output", flags->output, "File to write (default: NAME-QUANT.gguf)");
  add_quantize_flags(command, *flags);
  command.on_run([flags, &globals] {
    Result<OutputPlan> planned = plan(*flags);
    return planned.ok() ? execute(planned.value(), *flags, globals) : report(planned.error());
  });
}

}  // namespace hf2q::app
