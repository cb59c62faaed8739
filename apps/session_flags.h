#pragma once
// --session FILE: a later run goes on where this one ends.

#include <string>

#include "base/result.h"
#include "engine/session.h"
#include "flags.h"
#include "model_flags.h"

namespace hf2q::app {

void add_session_flag(Command& command, std::string& path);

// What the file holds, and its rows in the engine's cache; an empty session where there is none
// (also for an empty path). Warns of a file that is refused. kInvalidArgument for a file that
// saving would destroy. Without --seed the file's seed becomes that of `params`.
Result<Session> open_session(Engine& engine, const std::string& path, const SamplingFlags& flags,
                             SamplingParams& params);

// As save_session(), with a line on stderr about what was reused, unless --quiet.
Status close_session(Engine& engine, Conversation& conversation, Session session,
                     const SamplerState& sampler, const std::string& path, const Globals& globals);

}  // namespace hf2q::app
