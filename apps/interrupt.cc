#include "interrupt.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "terminal.h"

namespace hf2q::app {
namespace {

volatile std::sig_atomic_t noted_interrupt = 0;
extern "C" void note_interrupt(int signal) {
  if (noted_interrupt != 0) end_interrupted();
  noted_interrupt = signal;
}

// [read, write]: the handler may do little more than write a byte.
std::array<int, 2> end_pipe = {-1, -1};
extern "C" void note_end(int signal) {
  if (noted_interrupt != 0) end_interrupted();
  noted_interrupt = signal;
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = ::write(end_pipe[1], "x", 1);
  errno = saved;
}

}  // namespace

void note_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() {
  return noted_interrupt != 0;
}

void forget_interrupt() {
  noted_interrupt = 0;
}

bool note_end_signals() {
  if (::pipe(end_pipe.data()) != 0) return false;
  struct sigaction action = {};
  action.sa_handler = note_end;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return true;
}

void wait_for_end_signal() {
  char byte = 0;
  while (::read(end_pipe[0], &byte, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace hf2q::app
