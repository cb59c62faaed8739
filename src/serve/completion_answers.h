#pragma once
// Plain completions in work: events of the service to a reply, or to the chunks of a stream. The
// answers to prompt p are the choices p * n to p * n + n - 1.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/reply_parts.h"

namespace hf2q {

struct CompletionOptions {
  uint32_t n_answers = 1;           // to each prompt
  std::vector<std::string> echoes;  // [prompt]: what comes before its answers
  bool log_probs = false;
  bool include_usage = false;  // as in ChatAnswersOptions
};

class CompletionAnswers {
 public:
  using Emit = std::function<void(std::string chunk)>;

  // `emit` takes the chunks of a stream; none: nothing is streamed. `tokenizer` outlives it.
  CompletionAnswers(ReplyHead head, CompletionOptions options, const Tokenizer& tokenizer,
                    Emit emit);

  void take(size_t prompt, const ServeEvent& event);
  // All has been taken: the reply, or the last chunks of the stream.
  std::string reply() const;
  void end_stream();

  const ReplyTotals& totals() const { return totals_; }

 private:
  // As completions have them: lists that run side by side.
  struct TokenList {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    nlohmann::ordered_json log_probs = nlohmann::ordered_json::array();
    nlohmann::ordered_json tops = nlohmann::ordered_json::array();
    nlohmann::ordered_json offsets = nlohmann::ordered_json::array();
  };
  struct Choice {
    std::string text;
    std::string finish_reason;
    TokenList tokens;    // that no chunk has had yet
    size_t n_bytes = 0;  // of the tokens so far
    bool spoke = false;
  };

  void take_log_probs(Choice& choice, const LogProbs& log_probs);
  void add_text(size_t index, const std::string& text, const std::string& finish_reason);
  nlohmann::ordered_json log_probs_of(const TokenList& list) const;

  ReplyHead head_;
  CompletionOptions options_;
  const Tokenizer& tokenizer_;
  Emit emit_;
  std::vector<Choice> choices_;
  ReplyTotals totals_;
};

}  // namespace hf2q
