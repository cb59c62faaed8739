#include "serve/chat_answers.h"

#include <utility>

#include "serve/api.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

}  // namespace

ChatAnswers::ChatAnswers(ReplyHead head, const ChatAnswersOptions& options,
                         const Tokenizer& tokenizer, const MarkerIds& markers, Emit emit)
    : head_(std::move(head)), options_(options), tokenizer_(tokenizer), emit_(std::move(emit)) {
  for (uint32_t i = 0; i < options.n_answers; ++i) {
    choices_.push_back({OutputReader(tokenizer, markers, options.in_thought), {}, {}});
    if (options.log_probs) choices_.back().answer.log_probs = ordered_json::array();
  }
}

void ChatAnswers::take(size_t /*request*/, const ServeEvent& event) {
  if (const auto* progress = std::get_if<PromptProgress>(&event)) {
    if (emit_) emit_(json_text(chat_progress_chunk(head_, *progress)));
  } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
    take_token(*token);
  } else if (const auto* answer = std::get_if<AnswerEnd>(&event)) {
    take_end(*answer);
  } else if (const auto* request = std::get_if<RequestEnd>(&event)) {
    totals_.add(*request);
  }
}

void ChatAnswers::take_token(const TokenEvent& event) {
  Choice& choice = choices_[event.answer];
  if (!std::exchange(choice.spoke, true)) emit_delta(event.answer, {{"role", "assistant"}});
  if (event.log_probs) {
    const ordered_json entry = log_probs_json(tokenizer_, *event.log_probs);
    choice.answer.log_probs.push_back(entry);
    choice.log_probs.push_back(entry);
  }
  choice.reader.push(event.token);
  take_output(event.answer, choice.reader.show(event.text.size()));
}

void ChatAnswers::take_end(const AnswerEnd& event) {
  Choice& choice = choices_[event.answer];
  totals_.add(event);
  if (!std::exchange(choice.spoke, true)) emit_delta(event.answer, {{"role", "assistant"}});
  take_output(event.answer, choice.reader.finish(event.text.size()));
  choice.answer.finish_reason =
      chat_finish_reason(event.finish_reason, !choice.answer.calls.empty());
  emit_delta(event.answer, ordered_json::object(), choice.answer.finish_reason);
}

void ChatAnswers::take_output(uint32_t index, const std::vector<OutputEvent>& events) {
  for (const OutputEvent& event : events) take_output(index, event);
}

void ChatAnswers::take_output(uint32_t index, const OutputEvent& event) {
  switch (event.kind) {
    case OutputEvent::Kind::kContent:
      return add_content(index, event.text);
    case OutputEvent::Kind::kReasoning:
      choices_[index].answer.reasoning += event.text;
      return emit_delta(index, {{"reasoning_content", event.text}});
    case OutputEvent::Kind::kCallBegin:
      return begin_call(index, event.text);
    case OutputEvent::Kind::kArguments:
      return add_arguments(index, event.text);
    case OutputEvent::Kind::kCallEnd:
      choices_[index].skips_call = false;
  }
}

void ChatAnswers::add_content(uint32_t index, const std::string& text) {
  choices_[index].answer.content += text;
  emit_delta(index, {{"content", text}});
}

void ChatAnswers::begin_call(uint32_t index, const std::string& name) {
  if (!options_.may_call) return add_content(index, "call:" + name);
  Choice& choice = choices_[index];
  std::vector<ChatToolCall>& calls = choice.answer.calls;
  choice.skips_call = !options_.several_calls && !calls.empty();
  if (choice.skips_call) return;
  calls.push_back({new_id("call_"), name, ""});
  emit_delta(index, call_begin_delta(calls.size() - 1, calls.back()));
}

void ChatAnswers::add_arguments(uint32_t index, const std::string& text) {
  if (!options_.may_call) return add_content(index, text);
  Choice& choice = choices_[index];
  if (choice.skips_call) return;
  std::vector<ChatToolCall>& calls = choice.answer.calls;
  calls.back().arguments += text;
  emit_delta(index, arguments_delta(calls.size() - 1, text));
}

void ChatAnswers::emit_delta(uint32_t index, ordered_json delta, std::string_view finish_reason) {
  if (!emit_) return;
  const ordered_json log_probs = std::exchange(choices_[index].log_probs, nullptr);
  emit_chunk(chat_chunk(head_, delta_choice(index, std::move(delta), log_probs, finish_reason)));
}

void ChatAnswers::emit_chunk(ordered_json chunk) {
  if (options_.include_usage) chunk["usage"] = nullptr;
  emit_(json_text(chunk));
}

std::string ChatAnswers::reply() const {
  std::vector<ChatAnswer> answers;
  for (const Choice& choice : choices_) answers.push_back(choice.answer);
  return json_text(chat_reply(head_, answers, totals_));
}

void ChatAnswers::end_stream() {
  if (options_.include_usage) emit_(json_text(chat_usage_chunk(head_, totals_)));
  emit_("[DONE]");
}

}  // namespace hf2q
