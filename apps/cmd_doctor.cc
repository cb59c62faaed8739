// hf2q doctor: what the machine and this build are, and what stands in the way of speed.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "engine/machine.h"
#include "ops/cpu_isa.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

using nlohmann::ordered_json;

constexpr bool kHasCuda = HF2Q_CUDA != 0;
constexpr uint64_t kMeasuredBytes = uint64_t{256} << 20;
constexpr uint64_t kLittleMemory = uint64_t{1} << 30;

struct Report {
  Machine machine;
  std::vector<std::string> instruction_sets;  // of those that matter here
  double bandwidth = 0;                       // bytes per second; 0: not measured
  std::vector<std::string> warnings;
};

// What kernels use, or might.
std::vector<std::string> known_instruction_sets(const Machine& machine) {
  static constexpr std::string_view kKnown[] = {
      "avx",      "f16c",     "fma",      "avx2",     "bmi2",        "avx_vnni",
      "avx512f",  "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16",
      "amx_int8", "amx_bf16", "asimd",    "asimddp",  "i8mm",        "sve",
  };
  std::vector<std::string> found;
  for (const std::string_view name : kKnown) {
    if (std::ranges::find(machine.cpu_flags, name) != machine.cpu_flags.end())
      found.emplace_back(name);
  }
  return found;
}

std::vector<std::string> warnings_for(const Machine& machine) {
  std::vector<std::string> warnings;
  if (cpu_isa() == Isa::kScalar) {
    warnings.emplace_back(
        "no instruction set that kernels are written for (AVX2 with FMA and BMI2, AVX-512 with "
        "VNNI): the portable ones run, many times slower");
  }
  if (machine.n_usable < machine.n_processors) {
    warnings.push_back(fmt::format("only {} of {} processors may be used: see taskset -p",
                                   machine.n_usable, machine.n_processors));
  }
  if (machine.huge_pages == "never") {
    warnings.emplace_back(
        "huge pages are off, which slows the reading of weights: echo madvise | sudo tee "
        "/sys/kernel/mm/transparent_hugepage/enabled");
  }
  if (machine.governor == "powersave") {
    warnings.emplace_back(
        "the clock is governed by powersave: sudo cpupower frequency-set -g performance");
  }
  if (machine.n_numa_nodes > 1) {
    warnings.push_back(fmt::format(
        "memory is spread over {} nodes: numactl --interleave=all hf2q ... reads from all of them",
        machine.n_numa_nodes));
  }
  if (machine.memory_available < kLittleMemory) {
    warnings.push_back(
        fmt::format("{} of memory are available: --dry-run of a command shows what a "
                    "model needs, --mmap needs less",
                    human_bytes(machine.memory_available)));
  }
  return warnings;
}

Result<Report> examine() {
  Report report;
  report.machine = read_machine();
  report.instruction_sets = known_instruction_sets(report.machine);
  report.warnings = warnings_for(report.machine);
  if (report.machine.memory_available > 4 * kMeasuredBytes) {
    TRY(exec, Exec::create(0));
    TRY(bandwidth, read_bandwidth(*exec, kMeasuredBytes));
    report.bandwidth = bandwidth;
  }
  return report;
}

void print_as_json(const Report& report) {
  const Machine& machine = report.machine;
  print_json({{"version", HF2Q_VERSION},
              {"compiler", __VERSION__},
              {"cuda", kHasCuda},
              {"cpu", machine.cpu},
              {"isa", name_of(cpu_isa())},
              {"instruction_sets", report.instruction_sets},
              {"processors", machine.n_processors},
              {"usable_processors", machine.n_usable},
              {"cores", machine.n_cores},
              {"numa_nodes", machine.n_numa_nodes},
              {"memory_total", machine.memory_total},
              {"memory_available", machine.memory_available},
              {"memory_limit", machine.memory_limit},
              {"huge_pages", machine.huge_pages},
              {"read_bandwidth", report.bandwidth},
              {"warnings", report.warnings}},
             2);
}

void print_as_text(const Report& report) {
  const Machine& machine = report.machine;
  fmt::print("hf2q       {}, compiler {}, {}\n", HF2Q_VERSION, __VERSION__,
             kHasCuda ? "with CUDA" : "without CUDA");
  fmt::print("processor  {}: {} cores, {} threads, {} usable\n",
             machine.cpu.empty() ? "(no name)" : machine.cpu, machine.n_cores, machine.n_processors,
             machine.n_usable);
  fmt::print("kernels    {}; the processor has {}\n", name_of(cpu_isa()),
             fmt::join(report.instruction_sets, " "));
  fmt::print("memory     {} of {} available{}, in {} node{}\n",
             human_bytes(machine.memory_available), human_bytes(machine.memory_total),
             machine.memory_limit > 0
                 ? fmt::format(", limited to {}", human_bytes(machine.memory_limit))
                 : "",
             machine.n_numa_nodes, machine.n_numa_nodes == 1 ? "" : "s");
  fmt::print("           huge pages {}\n",
             machine.huge_pages.empty() ? "unknown" : machine.huge_pages);
  if (report.bandwidth > 0)
    fmt::print("           read at {:.1f} GB/s by all threads\n", report.bandwidth / 1e9);
  for (const std::string& warning : report.warnings) fmt::print("warning    {}\n", warning);
  if (report.warnings.empty()) fmt::print("nothing stands in the way\n");
}

}  // namespace

void add_doctor(Program& program, const Globals& /*globals*/) {
  Command command = program.add_command("doctor", "What this machine and build are, with advice");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json,
                   "One object; sizes in bytes, read_bandwidth in bytes per second");
  command.on_run([json]() -> int {
    const Result<Report> examined = examine();
    if (!examined.ok()) return report(examined.error());
    if (*json) {
      print_as_json(examined.value());
    } else {
      print_as_text(examined.value());
    }
    return kSuccess;
  });
}

}  // namespace hf2q::app
