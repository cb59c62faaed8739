#pragma once
// Ctrl-C while an answer is written: the first one ends the answer, a second one the process.

namespace hf2q::app {

// From now on SIGINT is noted; a second one before forget_interrupt() exits with kInterrupted.
// Reads from the terminal return early with EINTR.
void note_interrupts();
bool interrupted();
void forget_interrupt();

}  // namespace hf2q::app
