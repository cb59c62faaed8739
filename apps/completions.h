#pragma once
// Scripts with which a shell completes commands and flags: made from the program's own list.

#include <string>

#include "flags.h"

namespace hf2q::app {

std::string bash_completions(const Program& program);
std::string zsh_completions(const Program& program);
std::string fish_completions(const Program& program);

}  // namespace hf2q::app
