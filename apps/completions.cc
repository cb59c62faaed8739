#include "completions.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

namespace hf2q::app {
namespace {

using Names = Program::Names;

std::string words_of(const Names& command) {
  std::string words;
  for (const Names::Flag& flag : command.flags)
    words += fmt::format("{} ", fmt::join(flag.spellings, " "));
  return words;
}

// `text` for the inside of single quotes, with a backslash before each character of `special`.
std::string escape(std::string_view text, std::string_view special = "") {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result;
}

std::string zsh_flags(const Names& command) {
  std::string result;
  for (const Names::Flag& flag : command.flags) {
    for (const std::string& spelling : flag.spellings) {
      result += fmt::format(" \\\n        '*{}[{}]{}'", spelling, escape(flag.help, "[]\\"),
                            flag.takes_value ? ":value:_files" : "");
    }
  }
  return result;
}

std::string fish_flags(const Names& command, std::string_view condition) {
  std::string result;
  for (const Names::Flag& flag : command.flags) {
    std::string spellings;
    for (const std::string& spelling : flag.spellings) {
      const bool is_long = spelling.starts_with("--");
      spellings += fmt::format(" {} {}", is_long ? "-l" : "-s", spelling.substr(is_long ? 2 : 1));
    }
    result += fmt::format("complete -c hf2q -n '{}'{}{} -d '{}'\n", condition, spellings,
                          flag.takes_value ? " -r" : "", escape(flag.help, "\\"));
  }
  return result;
}

}  // namespace

std::string bash_completions(const Program& program) {
  const std::vector<Names> all = program.names();  // the program, then its commands
  std::string words = words_of(all.front());
  std::string cases;
  for (const Names& command : std::span(all).subspan(1)) {
    words += command.command + " ";
    cases += fmt::format("      {}) words='{}' ;;\n", command.command, words_of(command));
  }
  return fmt::format(R"(# bash completions of hf2q: source <(hf2q completions bash)
_hf2q() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words='{}' command= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
{}      *) continue ;;
    esac
    command=${{COMP_WORDS[i]}}
    break
  done
  # Behind a command what is no flag is a value or a file.
  if [[ -z $command || $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
}}
complete -o default -F _hf2q hf2q
)",
                     words, cases);
}

std::string zsh_completions(const Program& program) {
  const std::vector<Names> all = program.names();  // the program, then its commands
  std::string commands;
  std::string cases;
  for (const Names& command : std::span(all).subspan(1)) {
    commands += fmt::format("    '{}:{}'\n", command.command, escape(command.description, ":\\"));
    cases += fmt::format("      {})\n      _arguments{} \\\n        '*:file:_files'\n      ;;\n",
                         command.command, zsh_flags(command));
  }
  return fmt::format(R"(#compdef hf2q
# zsh completions of hf2q: hf2q completions zsh >"${{fpath[1]}}/_hf2q"
_hf2q() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    _arguments{}
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
{}  esac
}}
compdef _hf2q hf2q
)",
                     commands, zsh_flags(all.front()), cases);
}

std::string fish_completions(const Program& program) {
  const std::vector<Names> all = program.names();  // the program, then its commands
  std::string result = "# fish completions of hf2q: hf2q completions fish | source\n";
  result += fish_flags(all.front(), "__fish_use_subcommand");
  for (const Names& command : std::span(all).subspan(1)) {
    result += fmt::format("complete -c hf2q -n __fish_use_subcommand -f -a {} -d '{}'\n",
                          command.command, escape(command.description, "\\"));
    result += fish_flags(command, "__fish_seen_subcommand_from " + command.command);
  }
  return result;
}

}  // namespace hf2q::app
