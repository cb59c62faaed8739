#include "serve/reply_parts.h"

#include <algorithm>

namespace hf2q {
namespace {

using nlohmann::ordered_json;

double per_second(uint64_t n, double milliseconds) {
  return milliseconds > 0 ? static_cast<double>(n) * 1e3 / milliseconds : 0;
}

ordered_json token_log_prob(const Tokenizer& tokenizer, const TokenLogProb& entry) {
  ordered_json bytes = ordered_json::array();
  for (const char byte : token_bytes(tokenizer, entry.token)) {
    bytes.push_back(static_cast<uint8_t>(byte));
  }
  return {{"token", tokenizer.token_text(entry.token)},
          {"logprob", entry.log_prob},
          {"bytes", std::move(bytes)}};
}

}  // namespace

void ReplyTotals::add(const AnswerEnd& answer) {
  n_answer += answer.n_tokens;
  answer_milliseconds = std::max(answer_milliseconds, answer.milliseconds);
}

void ReplyTotals::add(const RequestEnd& request) {
  n_prompt += request.n_prompt;
  n_cached += request.n_cached;
  prompt_milliseconds += request.prompt_milliseconds;
}

std::string json_text(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json head_json(const ReplyHead& head, std::string_view object) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint}};
}

ordered_json usage_json(const ReplyTotals& totals) {
  return {{"prompt_tokens", totals.n_prompt},
          {"completion_tokens", totals.n_answer},
          {"total_tokens", totals.n_prompt + totals.n_answer},
          {"prompt_tokens_details", {{"cached_tokens", totals.n_cached}}}};
}

ordered_json timings_json(const ReplyTotals& totals) {
  const uint64_t n_read = totals.n_prompt - totals.n_cached;
  return {{"cache_n", totals.n_cached},
          {"prompt_n", n_read},
          {"prompt_ms", totals.prompt_milliseconds},
          {"prompt_per_second", per_second(n_read, totals.prompt_milliseconds)},
          {"predicted_n", totals.n_answer},
          {"predicted_ms", totals.answer_milliseconds},
          {"predicted_per_second", per_second(totals.n_answer, totals.answer_milliseconds)}};
}

std::string token_bytes(const Tokenizer& tokenizer, int32_t id) {
  const std::string text = tokenizer.token_text(id);
  const std::optional<uint8_t> byte = byte_of_token(text);
  return byte ? std::string(1, static_cast<char>(*byte)) : text;
}

ordered_json log_probs_json(const Tokenizer& tokenizer, const LogProbs& log_probs) {
  ordered_json entry = token_log_prob(tokenizer, log_probs.chosen);
  ordered_json top = ordered_json::array();
  for (const TokenLogProb& one : log_probs.top) top.push_back(token_log_prob(tokenizer, one));
  entry["top_logprobs"] = std::move(top);
  return entry;
}

}  // namespace hf2q
