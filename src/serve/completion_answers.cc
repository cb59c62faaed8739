#include "serve/completion_answers.h"

#include <utility>

namespace hf2q {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kCompletion = "text_completion";

ordered_json completion_choice(size_t index, const std::string& text, ordered_json log_probs,
                               const std::string& finish_reason) {
  return {{"text", text},
          {"index", index},
          {"logprobs", std::move(log_probs)},
          {"finish_reason", finish_reason.empty() ? ordered_json() : ordered_json(finish_reason)}};
}

}  // namespace

CompletionAnswers::CompletionAnswers(ReplyHead head, CompletionOptions options,
                                     const Tokenizer& tokenizer, Emit emit)
    : head_(std::move(head)),
      options_(std::move(options)),
      tokenizer_(tokenizer),
      emit_(std::move(emit)),
      choices_(options_.echoes.size() * options_.n_answers) {}

void CompletionAnswers::take(size_t prompt, const ServeEvent& event) {
  const size_t first = prompt * options_.n_answers;
  if (const auto* token = std::get_if<TokenEvent>(&event)) {
    const size_t index = first + token->answer;
    if (token->log_probs) take_log_probs(choices_[index], *token->log_probs);
    add_text(index, token->text, "");
  } else if (const auto* answer = std::get_if<AnswerEnd>(&event)) {
    totals_.add(*answer);
    add_text(first + answer->answer, answer->text, std::string(answer->finish_reason));
  } else if (const auto* request = std::get_if<RequestEnd>(&event)) {
    totals_.add(*request);
  }
}

void CompletionAnswers::take_log_probs(Choice& choice, const LogProbs& log_probs) {
  const std::string text = tokenizer_.token_text(log_probs.chosen.token);
  ordered_json top = ordered_json::object();
  for (const TokenLogProb& one : log_probs.top) {
    top[tokenizer_.token_text(one.token)] = one.log_prob;
  }
  choice.tokens.tokens.push_back(text);
  choice.tokens.log_probs.push_back(log_probs.chosen.log_prob);
  choice.tokens.tops.push_back(std::move(top));
  choice.tokens.offsets.push_back(choice.n_bytes);
  choice.n_bytes += text.size();
}

ordered_json CompletionAnswers::log_probs_of(const TokenList& list) const {
  if (!options_.log_probs) return nullptr;
  return {{"tokens", list.tokens},
          {"token_logprobs", list.log_probs},
          {"top_logprobs", list.tops},
          {"text_offset", list.offsets}};
}

// The answer's next text, behind the prompt where that is to be told.
void CompletionAnswers::add_text(size_t index, const std::string& text,
                                 const std::string& finish_reason) {
  Choice& choice = choices_[index];
  std::string piece;
  if (!std::exchange(choice.spoke, true)) piece = options_.echoes[index / options_.n_answers];
  piece += text;
  choice.finish_reason = finish_reason;
  if (!emit_) {
    choice.text += piece;
    return;
  }
  if (piece.empty() && finish_reason.empty()) return;
  ordered_json chunk = head_json(head_, kCompletion);
  chunk["choices"].push_back(completion_choice(
      index, piece, log_probs_of(std::exchange(choice.tokens, {})), finish_reason));
  if (options_.include_usage) chunk["usage"] = nullptr;
  emit_(json_text(chunk));
}

std::string CompletionAnswers::reply() const {
  ordered_json reply = head_json(head_, kCompletion);
  ordered_json& all = reply["choices"] = ordered_json::array();
  for (const Choice& choice : choices_) {
    all.push_back(completion_choice(all.size(), choice.text, log_probs_of(choice.tokens),
                                    choice.finish_reason));
  }
  reply["usage"] = usage_json(totals_);
  reply["timings"] = timings_json(totals_);
  return json_text(reply);
}

void CompletionAnswers::end_stream() {
  if (options_.include_usage) {
    ordered_json chunk = head_json(head_, kCompletion);
    chunk["choices"] = ordered_json::array();
    chunk["usage"] = usage_json(totals_);
    chunk["timings"] = timings_json(totals_);
    emit_(json_text(chunk));
  }
  emit_("[DONE]");
}

}  // namespace hf2q
