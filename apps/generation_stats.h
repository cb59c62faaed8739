#pragma once
// Speeds of an answer as the commands show them.

#include <string>

#include "engine/generate.h"

namespace hf2q::app {

// Tokens behind the first one per second; "-" where there are none.
std::string answer_rate(const Generation& generation);
// Milliseconds until the first token, or "-".
std::string first_token_time(const Generation& generation);

}  // namespace hf2q::app
