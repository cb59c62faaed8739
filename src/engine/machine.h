#pragma once
// What the machine is, as far as it matters for running a model: for reports, not for decisions of
// kernels (ops/cpu_isa.h).

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/exec.h"

namespace hf2q {

struct Machine {
  std::string cpu;                     // the processor's name, "" when the system does not say
  std::vector<std::string> cpu_flags;  // the system's list of what it can do
  uint32_t n_processors = 0;           // hardware threads of the machine
  uint32_t n_usable = 0;               // of them, those that this process may run on
  uint32_t n_cores = 0;                // cores; n_processors when the system does not say
  uint32_t n_numa_nodes = 1;
  uint64_t memory_total = 0;      // bytes
  uint64_t memory_available = 0;  // bytes that can be had without swapping
  uint64_t memory_limit = 0;      // bytes, of the control group; 0: none
  std::string huge_pages;         // of anonymous memory: "always", "madvise", "never" or ""
  std::string governor;           // of the first processor's clock: "performance", ... or ""
};

// From /proc and /sys below `root` ("" is the machine itself). What is missing there stays empty.
Machine read_machine(const std::string& root = "");

// Bytes per second that all threads of `exec` together read from memory: the best of several passes
// over `bytes`, which should be many times the caches. kOutOfMemory.
Result<double> read_bandwidth(Exec& exec, uint64_t bytes);

}  // namespace hf2q
