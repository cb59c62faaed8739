#pragma once
// Lines typed at a terminal, with editing keys and a history, in UTF-8 whatever the locale.

#include <memory>
#include <string>

namespace hf2q::app {

class LineEditor {
 public:
  enum class Outcome { kLine, kEnd, kInterrupted };  // Ctrl-D on an empty line; Ctrl-C

  // Takes stdin and shows prompt and line on stderr. The terminal is in its usual state between two
  // calls of read().
  LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  // `line` without its end. Lines that are not blank join the history (arrow keys, Ctrl-R).
  Outcome read(const char* prompt, std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hf2q::app
