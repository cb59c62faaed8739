#pragma once
// Parts that several replies have, as OpenAI's API writes them. Pure functions.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "sample/log_probs.h"
#include "serve/request.h"
#include "tokenizer/tokenizer.h"

namespace hf2q {

// What all chunks of a stream have in common.
struct ReplyHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;
};

// Over all prompts and answers of a reply.
struct ReplyTotals {
  uint64_t n_prompt = 0;
  uint64_t n_cached = 0;  // of them
  uint64_t n_answer = 0;
  double prompt_milliseconds = 0;
  double answer_milliseconds = 0;  // of the answer that took longest

  void add(const AnswerEnd& answer);
  void add(const RequestEnd& request);
};

// On one line; what is no UTF-8 becomes U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);

// {id, object, created, model, system_fingerprint}
nlohmann::ordered_json head_json(const ReplyHead& head, std::string_view object);
nlohmann::ordered_json usage_json(const ReplyTotals& totals);
nlohmann::ordered_json timings_json(const ReplyTotals& totals);

// The bytes that a token stands for; a byte token's is one.
std::string token_bytes(const Tokenizer& tokenizer, int32_t id);
// {token, logprob, bytes, top_logprobs}
nlohmann::ordered_json log_probs_json(const Tokenizer& tokenizer, const LogProbs& log_probs);

}  // namespace hf2q
