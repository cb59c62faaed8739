// hf2q completions: a script for the shell.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "commands.h"
#include "completions.h"
#include "terminal.h"

namespace hf2q::app {

void add_completions(Program& program, const Globals& /*globals*/) {
  Command command =
      program.add_command("completions", "Script with which a shell completes hf2q's flags");
  auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "bash, zsh or fish")
      .required()
      .one_of({"bash", "zsh", "fish"});
  command.on_run([shell, &program] {
    const std::string script = *shell == "bash"  ? bash_completions(program)
                               : *shell == "zsh" ? zsh_completions(program)
                                                 : fish_completions(program);
    fmt::print("{}", script);
    return kSuccess;
  });
}

}  // namespace hf2q::app
