#pragma once
// A chat request in work: events of the service to a reply, or to the chunks of a stream.

#include <functional>
#include <string>
#include <vector>

#include "engine/output_reader.h"
#include "serve/chat_reply.h"
#include "serve/request.h"

namespace hf2q {

struct ChatAnswersOptions {
  uint32_t n_answers = 1;
  bool in_thought = false;    // answers begin inside of a thought
  bool may_call = false;      // there are tools; else a call that is written is content
  bool several_calls = true;  // else all but the first are left out
  bool log_probs = false;
  bool include_usage = false;  // in a stream: a last chunk with it, "usage": null in the others
};

class ChatAnswers {
 public:
  using Emit = std::function<void(std::string chunk)>;

  // `emit` takes the chunks of a stream; none: nothing is streamed. `tokenizer` outlives it.
  ChatAnswers(ReplyHead head, const ChatAnswersOptions& options, const Tokenizer& tokenizer,
              const MarkerIds& markers, Emit emit);

  void take(size_t request, const ServeEvent& event);  // request: always 0
  // All has been taken: the reply, or the last chunks of the stream.
  std::string reply() const;
  void end_stream();

  const ReplyTotals& totals() const { return totals_; }

 private:
  struct Choice {
    OutputReader reader;
    ChatAnswer answer;
    nlohmann::ordered_json log_probs;  // that no chunk has had yet
    bool spoke = false;                // the role has been sent
    bool skips_call = false;           // the call in work is left out
  };

  void take_token(const TokenEvent& event);
  void take_end(const AnswerEnd& event);
  void take_output(uint32_t index, const std::vector<OutputEvent>& events);
  void take_output(uint32_t index, const OutputEvent& event);
  void add_content(uint32_t index, const std::string& text);
  void begin_call(uint32_t index, const std::string& name);
  void add_arguments(uint32_t index, const std::string& text);
  void emit_delta(uint32_t index, nlohmann::ordered_json delta,
                  std::string_view finish_reason = "");
  void emit_chunk(nlohmann::ordered_json chunk);

  ReplyHead head_;
  ChatAnswersOptions options_;
  const Tokenizer& tokenizer_;
  Emit emit_;
  std::vector<Choice> choices_;
  ReplyTotals totals_;
};

}  // namespace hf2q
