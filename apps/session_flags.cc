#include "session_flags.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "terminal.h"

namespace hf2q::app {

void add_session_flag(Command& command, std::string& path) {
  command
      .add_option("--session", path,
                  "Go on from this file, if it is there, and write it in the end: rows, tokens and "
                  "the sampler's state")
      .value_name("FILE");
}

Result<Session> open_session(Engine& engine, const std::string& path, const SamplingFlags& flags,
                             SamplingParams& params) {
  if (path.empty()) return Session();
  TRY_OK(check_session_path(path));
  SessionLoad load = load_session(engine, path);
  if (load.refusal) {
    warn(fmt::format("--session: {}; nothing is taken from it, and the prompt is read again",
                     load.refusal->message));
  }
  if (!load.session) return Session();
  if (flags.seed.empty()) params.seed = load.session->seed;
  return *std::move(load.session);
}

Status close_session(Engine& engine, Conversation& conversation, Session session,
                     const SamplerState& sampler, const std::string& path, const Globals& globals) {
  TRY_OK(save_session(engine, conversation, std::move(session), sampler, path));
  if (globals.quiet) return Ok{};
  std::error_code failure;
  const uint64_t bytes = std::filesystem::file_size(path, failure);
  fmt::print(stderr, "session {}: {} tokens, {}\n", path, conversation.ids().size(),
             human_bytes(failure ? 0 : bytes));
  return Ok{};
}

}  // namespace hf2q::app
