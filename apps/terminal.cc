#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/output_file.h"

namespace hf2q::app {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(50);

std::atomic<const char*> parting_text = nullptr;

extern "C" void end_at_signal(int /*signal*/) {
  end_interrupted();
}

extern "C" void lost_input(int /*signal*/) {
  static constexpr std::string_view kLine =
      "hf2q: error: a file was cut short or became unreadable while it was being read\n";
  remove_unfinished_files();
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  _exit(kBadInput);
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
      return kBadInput;
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kIo:
      return kFailure;
  }
  return kFailure;
}

}  // namespace

int report(const Error& error) {
  fmt::print(stderr, "hf2q: error: {}\n", error.message);
  return exit_code(error.code);
}

void warn(std::string_view message) {
  fmt::print(stderr, "hf2q: warning: {}\n", message);
}

void print_json(const nlohmann::ordered_json& value, int indent) {
  using Handler = nlohmann::ordered_json::error_handler_t;
  fmt::print("{}\n", value.dump(indent, ' ', /*ensure_ascii=*/false, Handler::replace));
}

std::string human_bytes(uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string human_count(uint64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return fmt::format("{:.2f} B", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  return fmt::format("{}", count);
}

std::string human_duration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string human_rate(size_t count, double seconds) {
  if (count == 0 || !(seconds > 0)) return "-";
  return fmt::format("{:.1f}/s", static_cast<double>(count) / seconds);
}

void set_parting_text(const char* text) {
  parting_text = text;
}

void end_interrupted() {
  remove_unfinished_files();
  if (const char* text = parting_text) {
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text, std::strlen(text));
  }
  _exit(kInterrupted);
}

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = end_at_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    sigaction(signal, &action, nullptr);
  action.sa_handler = lost_input;
  sigaction(SIGBUS, &action, nullptr);
  // Writing past the limit on a file's size is an error like a full disk, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
}

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

ProgressLine::ProgressLine(bool enabled)
    : enabled_(enabled && stderr_is_terminal()), start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

std::optional<double> ProgressLine::time_to_draw() {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || (drawn_ && now - last_ < kRedrawInterval)) return std::nullopt;
  last_ = now;
  drawn_ = true;
  return std::chrono::duration<double>(now - start_).count();
}

void ProgressLine::draw(std::string_view label, uint64_t bytes_done, uint64_t bytes_total) {
  const std::optional<double> seconds = time_to_draw();
  if (!seconds) return;
  const double rate = *seconds > 0 ? static_cast<double>(bytes_done) / *seconds : 0;
  const double left = rate > 0 ? static_cast<double>(bytes_total - bytes_done) / rate : 0;
  fmt::print(stderr, "\r\033[K{}  {} of {}  {:.0f} MB/s  {} left", label, human_bytes(bytes_done),
             human_bytes(bytes_total), rate / 1e6, human_duration(left));
  std::fflush(stderr);
}

void ProgressLine::draw_count(std::string_view label, uint64_t done, uint64_t total) {
  const std::optional<double> seconds = time_to_draw();
  if (!seconds || done == 0) return;
  const double left = *seconds * static_cast<double>(total - done) / static_cast<double>(done);
  fmt::print(stderr, "\r\033[K{}  {} of {}  {} left", label, done, total, human_duration(left));
  std::fflush(stderr);
}

}  // namespace hf2q::app
