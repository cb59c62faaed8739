// hf2q quantize: a GGUF file to another one with other types.

#include <memory>

#include "commands.h"
#include "quantize_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

Result<OutputPlan> plan(const QuantizeFlags& flags, const std::string& input) {
  TRY(options, quantize_options(flags));
  TRY_OK(check_output(flags));
  return plan_quantization(input, options);
}

}  // namespace

void add_quantize(Program& program, const Globals& globals) {
  Command command = program.add_command("quantize", "Make a GGUF file of another one");
  auto flags = std::make_shared<QuantizeFlags>();
  auto input = std::make_shared<std::string>();
  command.add_option("input", *input, "GGUF file (of shards, the first)").required();
  command.add_option("output", flags->output, "File to write").required();
  command.add_flag("--allow-requantize", flags->allow_requantize,
                   "Also from types below 8 bits per weight, at a loss");
  add_quantize_flags(command, *flags);
  command.on_run([flags, input, &globals] {
    Result<OutputPlan> planned = plan(*flags, *input);
    return planned.ok() ? execute(planned.value(), *flags, globals) : report(planned.error());
  });
}

}  // namespace hf2q::app
