#pragma once
// What all commands share on the terminal: exit codes, errors, sizes for people, progress.
// Payload goes to stdout, everything else to stderr.

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hf2q::app {

// Exit codes.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;
inline constexpr int kBadInput = 3;
inline constexpr int kInterrupted = 130;

// Prints `hf2q: error: ...` and gives the exit code that belongs to the error.
int report(const Error& error);
void warn(std::string_view message);
// One JSON value and a newline on stdout. Bytes of names and texts that are no UTF-8 come out as
// U+FFFD. indent: spaces per level; -1: all on one line.
void print_json(const nlohmann::ordered_json& value, int indent = -1);

std::string human_bytes(uint64_t bytes);     // "1.5 GiB"
std::string human_duration(double seconds);  // "1m05s"
std::string human_count(uint64_t count);     // "11.2 M"

// Tokens or bytes per second, "12.3/s"; "-" where nothing was done or no time passed.
std::string human_rate(size_t count, double seconds);

// What an interrupted process writes on stdout last, a literal; nullptr: nothing.
void set_parting_text(const char* text);
// Removes unfinished files, writes the parting text and ends the process with kInterrupted. May be
// called in a signal handler.
[[noreturn]] void end_interrupted();

// Ends the process after removing unfinished files: with kInterrupted on SIGINT, SIGTERM, SIGHUP
// and SIGQUIT; with kBadInput and a line on stderr on SIGBUS, which is how the kernel reports that
// a mapped file became shorter or cannot be read.
void install_signal_handlers();

// One line on stderr that is drawn over and over; silent when stderr is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Draws at most every 50 ms. Adds rate and time left from bytes_done of bytes_total.
  void draw(std::string_view label, uint64_t bytes_done, uint64_t bytes_total);
  // The same for things that are counted.
  void draw_count(std::string_view label, uint64_t done, uint64_t total);

 private:
  // Seconds since the start; nothing when it is too early to draw.
  std::optional<double> time_to_draw();

  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

bool stderr_is_terminal();

}  // namespace hf2q::app
