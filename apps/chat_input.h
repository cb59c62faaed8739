#pragma once
// What a user of `hf2q chat` types: lines from a terminal or a pipe, and messages made of them.

#include <optional>
#include <string>

#include "line_editor.h"

namespace hf2q::app {

struct ChatInput {
  enum class Kind {
    kMessage,
    kCommand,  // one line that begins with one '/'
    kEnd,      // of the input
    kInterrupted,
  };
  Kind kind = Kind::kEnd;
  std::string text;
};

class ChatReader {
 public:
  // `interactive`: stdin is a terminal; lines are edited there, behind "> " for a message and ". "
  // for its further lines.
  explicit ChatReader(bool interactive) {
    if (interactive) editor_.emplace();
  }

  // The next message: one line; or several, where a line that ends in a backslash goes on in the
  // next one; or everything between two """, where the first begins a line and the second ends one.
  // Empty lines between messages are passed over. Of two '/' at the beginning of a message the
  // first is taken away.
  ChatInput next();

 private:
  using Line = LineEditor::Outcome;
  Line read_line(const char* prompt, std::string& line);
  Line read_piped_line(std::string& line);
  Line read_first_line(std::string& line);
  ChatInput read_block(std::string text);
  ChatInput read_continued(std::string text);

  std::optional<LineEditor> editor_;
  std::string buffer_;  // read, but not yet given out
  bool ended_ = false;
};

}  // namespace hf2q::app
