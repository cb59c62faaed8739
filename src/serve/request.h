#pragma once
// What the HTTP side and `batch` ask of the thread that owns the engine, and what comes back.
//
// Every request is answered with the bytes that it would get alone: who else is served, in which
// order, and how often it was set back change only when its events come.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "grammar/grammar.h"
#include "sample/log_probs.h"
#include "sample/params.h"

namespace hf2q {

struct ServeRequest {
  std::vector<int32_t> prompt;
  bool embedding = false;   // the prompt's last hidden state, unit length; nothing is generated
  std::string name_space;   // of the prefix tree: who shares it may share cache pages
  bool remember = true;     // in Service::save_prompts()
  SamplingParams sampling;  // seed: answer c draws from (seed, c, index of the token)
  int64_t max_tokens = -1;  // negative: up to the end of the context
  uint32_t n_answers = 1;   // forked from one reading of the prompt
  std::vector<std::string> stops;
  bool ignore_eos = false;
  std::shared_ptr<const Grammar> grammar;   // what an answer may say; none: anything
  std::optional<uint32_t> n_top_log_probs;  // none: no log-probabilities; 0: of the token alone
  bool progress = false;                    // PromptProgress events, one for each step
};

struct PromptProgress {
  uint32_t n_prompt = 0;
  uint32_t n_cached = 0;  // of them, taken from the tree
  uint32_t n_read = 0;    // n_cached included
  double milliseconds = 0;
};
struct TokenEvent {
  uint32_t answer = 0;
  int32_t token = -1;  // the stop token too; its text is empty
  std::string text;    // that is sure now: whole UTF-8, no part of a stop string
  std::optional<LogProbs> log_probs;
};
struct AnswerEnd {
  uint32_t answer = 0;
  std::string text;                // what was held back
  std::string_view finish_reason;  // "stop" or "length"
  uint32_t n_tokens = 0;           // the stop token included
  double milliseconds = 0;         // from its first token on
};
struct EmbeddingEvent {
  std::vector<float> values;
};
// The last event of each request that was not cancelled, one or the other.
struct RequestEnd {
  uint32_t n_prompt = 0;
  uint32_t n_cached = 0;
  double prompt_milliseconds = 0;
};
struct RequestFailure {
  Error error;
};
using ServeEvent =
    std::variant<PromptProgress, TokenEvent, AnswerEnd, EmbeddingEvent, RequestEnd, RequestFailure>;

// Called by the engine's thread, in order; must not block, and may call cancel() but not submit().
using EventSink = std::function<void(ServeEvent event)>;
using RequestId = uint64_t;

}  // namespace hf2q
