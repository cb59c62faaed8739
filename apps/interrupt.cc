#include "interrupt.h"

#include <csignal>

#include "terminal.h"

namespace hf2q::app {
namespace {

volatile std::sig_atomic_t noted_interrupt = 0;
extern "C" void note_interrupt(int signal) {
  if (noted_interrupt != 0) end_interrupted();
  noted_interrupt = signal;
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

}  // namespace hf2q::app
