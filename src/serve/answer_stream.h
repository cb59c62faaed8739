#pragma once
// How answers, of chats and of plain prompts, reach an exchange: streamed, or as one reply.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "serve/http.h"
#include "serve/reply_parts.h"
#include "serve/request_group.h"

namespace hf2q {

inline std::function<void(std::string)> event_emitter(const std::shared_ptr<HttpExchange>& exchange,
                                                      bool streams) {
  if (!streams) return nullptr;
  return [exchange](std::string chunk) { exchange->event(std::move(chunk)); };
}

// What a request's log line tells of it.
inline void note_totals(HttpExchange& exchange, const ReplyTotals& totals) {
  exchange.note("prompt_tokens", totals.n_prompt);
  exchange.note("cached_tokens", totals.n_cached);
  exchange.note("completion_tokens", totals.n_answer);
}

// `Answers` has take(index, event), reply(), end_stream() and totals().
template <class Answers>
RequestGroupHooks answer_hooks(const std::shared_ptr<HttpExchange>& exchange,
                               const std::shared_ptr<Answers>& answers, bool streams) {
  RequestGroupHooks hooks;
  if (streams) {
    hooks.on_taken = [exchange] {
      exchange->begin_stream({{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
    };
  }
  hooks.on_event = [answers](size_t index, const ServeEvent& event) {
    answers->take(index, event);
  };
  hooks.on_end = [exchange, answers, streams] {
    note_totals(*exchange, answers->totals());
    if (!streams) return exchange->send({.body = answers->reply()});
    answers->end_stream();
    exchange->end();
  };
  hooks.on_failure = [exchange](const ApiError& error) { exchange->fail(error_reply(error)); };
  return hooks;
}

}  // namespace hf2q
