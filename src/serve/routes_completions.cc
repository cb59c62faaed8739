// POST /v1/completions

#include <utility>

#include "engine/prompt.h"
#include "serve/answer_stream.h"
#include "serve/completion_answers.h"
#include "serve/routes.h"

namespace hf2q {
namespace {

struct CompletionWork {
  std::vector<ServeRequest> requests;
  CompletionOptions options;
  bool streams = false;
};

Result<CompletionWork> read_completions(const Api& api, const HttpRequest& request) {
  TRY(body, parse_body(request.body));
  TRY(asked, parse_completion_request(body, api.defaults));
  TRY(grammar, api.grammars.of_format(asked.answer.format, Thought::kNone));
  CompletionWork work;
  work.streams = asked.answer.stream;
  work.options = {.n_answers = asked.answer.n_answers,
                  .echoes = {},
                  .log_probs = asked.answer.n_top_log_probs.has_value(),
                  .include_usage = asked.answer.include_usage};
  for (const PromptInput& prompt : asked.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    std::vector<int32_t> ids = text != nullptr ? encode_prompt(api.tokenizer(), *text)
                                               : std::get<std::vector<int32_t>>(prompt);
    std::string echo;
    if (asked.echo) echo = text != nullptr ? *text : api.tokenizer().decode(ids);
    work.options.echoes.push_back(std::move(echo));
    work.requests.push_back(serve_request(api, request, asked.answer, std::move(ids)));
    work.requests.back().grammar = grammar;
    work.requests.back().progress = false;  // of chats alone
  }
  return work;
}

}  // namespace

void handle_completions(const Api& api, const HttpRequest& request,
                        const std::shared_ptr<HttpExchange>& exchange) {
  Result<CompletionWork> read = read_completions(api, request);
  if (!read.ok()) return exchange->send(error_reply(read.error()));
  CompletionWork& work = read.value();
  const auto answers = std::make_shared<CompletionAnswers>(
      ReplyHead{new_id("cmpl-"), unix_seconds(), api.options.model_name, api.fingerprint},
      std::move(work.options), api.tokenizer(), event_emitter(exchange, work.streams));
  RequestGroup::start(api.service, exchange, std::move(work.requests),
                      answer_hooks(exchange, answers, work.streams));
}

}  // namespace hf2q
