#pragma once
// What a Gemma 4 model writes, token by token, to content, reasoning and tool calls.
//
//   <|channel>NAME\n ... <channel|>   reasoning; the name, `thought`, is dropped, and so is the
//                                     newline before the end
//   <|tool_call>call:NAME{ARGS}<tool_call|>   a tool call, see tool_call.h
//   everything else                   content; white space right after a thought or call is held
//                                     back until other text follows
//
// Markers are recognised by their ids, never by their text. A call is held back until its end: one
// that is malformed or cut off comes out as content, its quote markers as plain quotes. Other stray
// markers vanish. No input is an error.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hf2q {

// Ids of the marker tokens; -1 for one that the vocabulary lacks.
struct MarkerIds {
  int32_t tool_call_begin = -1;
  int32_t tool_call_end = -1;
  int32_t tool_response_begin = -1;
  int32_t tool_response_end = -1;
  int32_t quote = -1;
  int32_t channel_begin = -1;
  int32_t channel_end = -1;
  int32_t turn_begin = -1;
  int32_t turn_end = -1;
};

// By their spellings in the vocabulary, `<|tool_call>` and so on.
MarkerIds find_markers(const std::function<std::optional<int32_t>(std::string_view)>& id_of);
bool is_marker(const MarkerIds& markers, int32_t id);

struct OutputEvent {
  enum class Kind {
    kContent,    // text: a piece
    kReasoning,  // text: a piece
    kCallBegin,  // index, text: the function's name
    kArguments,  // index, text: a piece of the JSON of the arguments
    kCallEnd,    // index
  };
  Kind kind;
  std::string text;
  int index = 0;  // of the call in this answer, from 0

  bool operator==(const OutputEvent&) const = default;
};

class OutputParser {
 public:
  // `in_thought`: the prompt ended inside a thought (see ends_in_open_thought).
  OutputParser(const MarkerIds& markers, bool in_thought);

  // `piece`: the text of the token, whole UTF-8 characters; of a marker it is not looked at.
  std::vector<OutputEvent> on_token(int32_t id, std::string_view piece);

  // The answer has ended: what was held back.
  std::vector<OutputEvent> finish();

  int n_calls() const { return n_calls_; }

 private:
  enum class State { kContent, kChannelName, kReasoning, kCall };

  bool on_marker(int32_t id, std::vector<OutputEvent>& events);
  void on_text(std::string_view text, std::vector<OutputEvent>& events);
  void end_state(std::vector<OutputEvent>& events);
  void end_call(std::vector<OutputEvent>& events);
  void add_content(std::string_view text, std::vector<OutputEvent>& events);
  void add_reasoning(std::string_view text, std::vector<OutputEvent>& events);

  MarkerIds markers_;
  State state_;
  std::string held_;           // of the state: white space, the name, a newline, a call's body
  bool after_marker_ = false;  // content that follows a thought or call, so far white space
  int n_calls_ = 0;
};

}  // namespace hf2q
