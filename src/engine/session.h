#pragma once
// A conversation in a file (kv/prefix_file.h), with which a later run goes on: the rows of its last
// prompt and answer, the sampler's state, and what was said.
//
// A file says nothing but what the run would find out again: where it is refused, the prompt is
// read once more.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "sample/params.h"

namespace hf2q {

// How the tokens of an answer were chosen. Equal ones choose the same tokens.
struct SamplerState {
  SamplingParams params;
  std::string form;  // the grammar and what else shaped the answer; "" for anything
};

struct Session {
  uint64_t seed = 0;
  std::string sampler;          // a description of the state; the seed is in it
  uint32_t n_prompt = 0;        // tokens of the last prompt
  std::vector<int32_t> answer;  // what was chosen behind it
  std::string system;           // of a chat
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  // role and content each

  std::vector<TokenKey> keys;  // of the rows that the engine has of it now, for a conversation
                               // without a namespace; none where they were refused
};

// The file's rows are the engine's from then on. `refusal` says why there are no rows: a file that
// is damaged (then there is no session either), another model's, of another format, or larger than
// the cache. Nothing at all where there is no file, or an empty one.
struct SessionLoad {
  std::optional<Session> session;
  std::optional<Error> refusal;
};
SessionLoad load_session(Engine& engine, const std::string& path);

// Whether save_session() would destroy something else: kInvalidArgument for a file that is not, and
// never was, a session.
Status check_session_path(const std::string& path);

// The tokens with which the answer to this prompt begins: the session's, when prompt and sampler
// are the same.
std::vector<int32_t> begun_answer(const Session& session, std::span<const TokenKey> prompt,
                                  const SamplerState& sampler);

// Replaces the file by what `conversation` holds of `session`, whose seed, sampler and keys are set
// here. Errors as OutputFile; kInvalidArgument for a conversation of no tokens.
Status save_session(Engine& engine, Conversation& conversation, Session session,
                    const SamplerState& sampler, const std::string& path);

}  // namespace hf2q
