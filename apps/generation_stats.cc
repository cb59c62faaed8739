#include "generation_stats.h"

#include <fmt/format.h>

#include "terminal.h"

namespace hf2q::app {

std::string answer_rate(const Generation& generation) {
  const size_t n = generation.token_ids.size() - generation.n_begun;
  return human_rate(n > 1 ? n - 1 : 0, generation.answer_seconds);
}

std::string first_token_time(const Generation& generation) {
  if (generation.token_ids.empty()) return "-";
  return fmt::format("{:.0f} ms", generation.prompt_seconds * 1000);
}

}  // namespace hf2q::app
