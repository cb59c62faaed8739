#include "chat_input.h"

#include <unistd.h>

#include <cerrno>

namespace hf2q::app {
namespace {

constexpr std::string_view kBlockMark = "\"\"\"";

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

// Reads from the file descriptor itself: the streams of the library would not notice an interrupt.
ChatReader::Line ChatReader::read_piped_line(std::string& line) {
  for (size_t seen = 0;;) {
    const size_t end = buffer_.find('\n', seen);
    if (end != std::string::npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Line::kLine;
    }
    if (ended_) return Line::kEnd;
    seen = buffer_.size();
    char bytes[4096];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n < 0 && errno == EINTR) return Line::kInterrupted;
    if (n <= 0) {
      ended_ = true;
    } else {
      buffer_.append(bytes, static_cast<size_t>(n));
    }
  }
}

ChatReader::Line ChatReader::read_line(const char* prompt, std::string& line) {
  return editor_ ? editor_->read(prompt, line) : read_piped_line(line);
}

ChatReader::Line ChatReader::read_first_line(std::string& line) {
  Line state = Line::kLine;
  do {
    state = read_line("> ", line);
  } while (state == Line::kLine && is_blank(line));
  return state;
}

// `text` is what follows the first mark. The end of the input ends the block too.
ChatInput ChatReader::read_block(std::string text) {
  while (!text.ends_with(kBlockMark)) {
    std::string line;
    const Line state = read_line(". ", line);
    if (state == Line::kInterrupted) return {ChatInput::Kind::kInterrupted, ""};
    if (state == Line::kEnd) return {ChatInput::Kind::kMessage, text};
    if (!text.empty()) text += '\n';
    text += line;
  }
  text.resize(text.size() - kBlockMark.size());
  if (text.ends_with('\n')) text.pop_back();
  return {ChatInput::Kind::kMessage, text};
}

ChatInput ChatReader::read_continued(std::string text) {
  while (text.ends_with('\\')) {
    text.back() = '\n';
    std::string line;
    const Line state = read_line(". ", line);
    if (state == Line::kInterrupted) return {ChatInput::Kind::kInterrupted, ""};
    if (state == Line::kEnd) break;
    text += line;
  }
  return {ChatInput::Kind::kMessage, text};
}

ChatInput ChatReader::next() {
  std::string line;
  const Line state = read_first_line(line);
  if (state == Line::kEnd) return {ChatInput::Kind::kEnd, ""};
  if (state == Line::kInterrupted) return {ChatInput::Kind::kInterrupted, ""};
  if (line.starts_with(kBlockMark)) return read_block(line.substr(kBlockMark.size()));
  if (line.starts_with("//")) return read_continued(line.substr(1));
  if (line.starts_with('/')) return {ChatInput::Kind::kCommand, line};
  return read_continued(std::move(line));
}

}  // namespace hf2q::app
