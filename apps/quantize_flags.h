#pragma once
// The flags that convert and quantize share, and the report that both print.

#include <string>
#include <vector>

#include "base/result.h"
#include "commands.h"
#include "convert/plan.h"

namespace hf2q::app {

struct QuantizeFlags {
  std::string output;
  std::string quant = "q4_k_m";
  std::string recipe = "safe";
  std::string imatrix;
  std::vector<std::string> tensor_types;
  size_t n_threads = 0;
  bool allow_requantize = false;
  bool dry_run = false;
  bool json = false;
};

void add_quantize_flags(Command& command, QuantizeFlags& flags);
Result<QuantizeOptions> quantize_options(const QuantizeFlags& flags);

// Whether the output could be created, before any work: kInvalidArgument for an empty name, else as
// OutputFile::create. Does nothing for a dry run.
Status check_output(const QuantizeFlags& flags);

// Writes the plan with progress, or only shows it (--dry-run); prints the report. The exit code.
int execute(const OutputPlan& plan, const QuantizeFlags& flags, const Globals& globals);

}  // namespace hf2q::app
