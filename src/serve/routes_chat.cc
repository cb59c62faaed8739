// POST /v1/chat/completions

#include <memory>
#include <utility>

#include "engine/prompt.h"
#include "serve/answer_stream.h"
#include "serve/chat_answers.h"
#include "serve/request_group.h"
#include "serve/routes.h"

namespace hf2q {
namespace {

// What a chat request comes to.
struct ChatWork {
  ChatRequest asked;
  ServeRequest request;
  bool in_thought = false;
};

Thought thought_of(const ChatRequest& asked, bool in_thought) {
  if (in_thought) return Thought::kOpen;
  return asked.options.enable_thinking ? Thought::kMay : Thought::kNone;
}

Result<ChatWork> read_chat(const Api& api, const HttpRequest& request) {
  TRY(body, parse_body(request.body));
  TRY(asked, parse_chat_request(body, api.defaults));
  TRY(prompt, chat_prompt(api.tokenizer(), api.jinja, asked.messages, asked.tools, asked.options));
  ChatWork work;
  work.in_thought = ends_in_open_thought(api.tokenizer().decode(prompt));
  TRY(grammar, api.grammars.of_chat(asked, thought_of(asked, work.in_thought)));
  work.request = serve_request(api, request, asked.answer, std::move(prompt));
  work.request.grammar = std::move(grammar);
  work.asked = std::move(asked);
  return work;
}

ChatAnswersOptions answers_options(const ChatWork& work) {
  return {.n_answers = work.asked.answer.n_answers,
          .in_thought = work.in_thought,
          .may_call = !work.asked.tools.is_null(),
          .several_calls = work.asked.parallel_tool_calls,
          .log_probs = work.asked.answer.n_top_log_probs.has_value(),
          .include_usage = work.asked.answer.include_usage};
}

}  // namespace

void handle_chat(const Api& api, const HttpRequest& request,
                 const std::shared_ptr<HttpExchange>& exchange) {
  Result<ChatWork> read = read_chat(api, request);
  if (!read.ok()) return exchange->send(error_reply(read.error()));
  const ChatWork& work = read.value();
  const bool streams = work.asked.answer.stream;
  const auto answers = std::make_shared<ChatAnswers>(
      ReplyHead{new_id("chatcmpl-"), unix_seconds(), api.options.model_name, api.fingerprint},
      answers_options(work), api.tokenizer(), api.markers, event_emitter(exchange, streams));
  std::vector<ServeRequest> requests;
  requests.push_back(std::move(read.value().request));
  RequestGroup::start(api.service, exchange, std::move(requests),
                      answer_hooks(exchange, answers, streams));
}

}  // namespace hf2q
