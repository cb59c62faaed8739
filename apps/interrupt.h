#pragma once
// Ctrl-C while an answer is written: the first one ends the answer, a second one the process. A
// server's first one lets it finish what it has begun.

namespace hf2q::app {

// From now on SIGINT is noted; a second one before forget_interrupt() exits with kInterrupted.
// Reads from the terminal return early with EINTR.
void note_interrupts();
bool interrupted();
void forget_interrupt();

// From now on the first SIGINT or SIGTERM is noted, a second one exits with kInterrupted. False:
// the system gives no pipe.
bool note_end_signals();
// Returns when one was noted.
void wait_for_end_signal();

}  // namespace hf2q::app
