#include "quantize_flags.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "base/quote.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

using nlohmann::ordered_json;

struct TypeTotal {
  size_t n_tensors = 0;
  uint64_t n_bytes = 0;
};

std::map<std::string, TypeTotal> totals_by_type(const OutputPlan& plan) {
  std::map<std::string, TypeTotal> totals;
  for (const OutputTensor& tensor : plan.tensors) {
    TypeTotal& total = totals[std::string(name_of(tensor.type))];
    ++total.n_tensors;
    total.n_bytes += row_bytes(tensor.type, tensor.dims[0]) * tensor.n_rows();
  }
  return totals;
}

std::string dims_text(const OutputTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.dims, ", "));
}

void print_tensors(const OutputPlan& plan) {
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const OutputTensor& tensor = plan.tensors[i];
    fmt::print("[{:4}/{}] {:36} {:22} {:>5} -> {:6}{}{}\n", i + 1, plan.tensors.size(), tensor.name,
               dims_text(tensor), name_of(tensor.source_type()), name_of(tensor.type),
               tensor.note.empty() ? "" : "  ", tensor.note);
  }
}

ordered_json plan_json(const OutputPlan& plan, const QuantizeFlags& flags, double seconds) {
  ordered_json tensors = ordered_json::array();
  for (const OutputTensor& tensor : plan.tensors) {
    ordered_json entry = {{"name", tensor.name},
                          {"dims", tensor.dims},
                          {"source", name_of(tensor.source_type())},
                          {"type", name_of(tensor.type)}};
    if (!tensor.note.empty()) entry["note"] = tensor.note;
    tensors.push_back(std::move(entry));
  }
  ordered_json by_type;
  for (const auto& [type, total] : totals_by_type(plan)) {
    by_type[type] = {{"tensors", total.n_tensors}, {"bytes", total.n_bytes}};
  }
  return {{"name", plan.name},
          {"output", flags.output},
          {"file_type", name_of(plan.file_type)},
          {"dry_run", flags.dry_run},
          {"parameters", plan.n_elements()},
          {"data_bytes", plan.data_bytes()},
          {"seconds", seconds},
          {"types", by_type},
          {"tensors", tensors},
          {"skipped", plan.skipped},
          {"warnings", plan.warnings}};
}

void print_summary(const OutputPlan& plan, const QuantizeFlags& flags, double seconds) {
  const double bits =
      8.0 * static_cast<double>(plan.data_bytes()) / static_cast<double>(plan.n_elements());
  fmt::print("{}: {} parameters, {} ({:.2f} bits per weight), {}\n", printable(plan.name),
             human_count(plan.n_elements()), human_bytes(plan.data_bytes()), bits,
             name_of(plan.file_type));
  for (const auto& [type, total] : totals_by_type(plan)) {
    fmt::print("  {:7} {:>13}  {:>12}\n", type, count_of(total.n_tensors, "tensor"),
               human_bytes(total.n_bytes));
  }
  std::map<std::string, size_t> notes;
  for (const OutputTensor& tensor : plan.tensors) {
    if (!tensor.note.empty()) ++notes[fmt::format("{}: {}", name_of(tensor.type), tensor.note)];
  }
  for (const auto& [note, count] : notes) {
    fmt::print("  {} {} {}\n", count, count == 1 ? "tensor is" : "tensors are", note);
  }
  if (!plan.skipped.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : plan.skipped) names.push_back(printable(name));
    fmt::print("  skipped {} outside of the text model{}\n", count_of(names.size(), "tensor"),
               lines_of(names));
  }
  if (!flags.dry_run) fmt::print("wrote {} in {}\n", flags.output, human_duration(seconds));
}

}  // namespace

void add_quantize_flags(Command& command, QuantizeFlags& flags) {
  std::string names;
  for (const FileTypeInfo& info : file_types())
    names += (names.empty() ? "" : " ") + std::string(info.name);
  command.add_option("--quant", flags.quant, "File type: " + names).show_default();
  command
      .add_option("--recipe", flags.recipe,
                  "safe keeps per-layer embeddings at 8 bits or more, plain is llama.cpp's choice")
      .show_default();
  command.add_option("--imatrix", flags.imatrix, "Importance matrix (GGUF or legacy file)");
  command.add_option("--tensor-type", flags.tensor_types,
                     "REGEX=TYPE: this type for tensors whose name matches; the first match wins");
  command.add_option("-t,--threads", flags.n_threads, "Threads (default: one per processor)")
      .range(0, 512);
  command.add_flag("--dry-run", flags.dry_run,
                   "Show every tensor's type and the size, write nothing");
  command.add_flag("--json", flags.json, "Report as JSON on stdout");
}

Result<QuantizeOptions> quantize_options(const QuantizeFlags& flags) {
  QuantizeOptions options;
  TRY(file_type, parse_file_type(flags.quant));
  TRY(recipe, parse_recipe(flags.recipe));
  options.file_type = file_type;
  options.recipe = recipe;
  for (const std::string& text : flags.tensor_types) {
    TRY(type_override, TypeOverride::parse(text));
    options.overrides.push_back(std::move(type_override));
  }
  options.imatrix_path = flags.imatrix;
  options.allow_requantize = flags.allow_requantize;
  return options;
}

Status check_output(const QuantizeFlags& flags) {
  if (flags.output.empty()) {
    return error(ErrorCode::kInvalidArgument, "output: the name of a file expected, found none");
  }
  if (flags.output == "-") {
    return error(ErrorCode::kInvalidArgument,
                 "output: the name of a file expected, found - (a GGUF file cannot be streamed; "
                 "./- is a file of that name)");
  }
  if (flags.dry_run) return Ok{};
  TRY(created_and_removed, OutputFile::create(flags.output));
  (void)created_and_removed;
  return Ok{};
}

int execute(const OutputPlan& plan, const QuantizeFlags& flags, const Globals& globals) {
  for (const std::string& input : plan.inputs) {
    std::error_code ignored;
    if (std::filesystem::equivalent(input, flags.output, ignored)) {
      return report(error(ErrorCode::kInvalidArgument, "{}: the output would replace an input",
                          flags.output));
    }
  }
  for (const std::string& warning : plan.warnings) warn(warning);
  double seconds = 0;
  if (flags.dry_run) {
    if (!flags.json) print_tensors(plan);
  } else {
    const auto start = std::chrono::steady_clock::now();
    ProgressLine line(!globals.quiet);
    const size_t n = plan.tensors.size();
    WriteOptions options;
    options.n_threads = flags.n_threads;
    options.on_progress = [&](const Progress& progress) {
      const OutputTensor& tensor = plan.tensors[std::min(progress.tensor, n - 1)];
      line.draw(fmt::format("[{:3}/{}] {:30} {:6}", std::min(progress.tensor + 1, n), n,
                            tensor.name, name_of(tensor.type)),
                progress.bytes_done, progress.bytes_total);
    };
    const Status status = write(plan, flags.output, options);
    if (!status.ok()) return report(status.error());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (flags.json) {
    print_json(plan_json(plan, flags, seconds), 2);
  } else {
    print_summary(plan, flags, seconds);
  }
  return kSuccess;
}

}  // namespace hf2q::app
