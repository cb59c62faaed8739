// hf2q bench: speed of prompts and of generation, at depths.

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "commands.h"
#include "engine/generate.h"
#include "model_flags.h"
#include "quant/file_type.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct BenchFlags {
  ModelFlags model;
  std::string n_prompt = "512";  // numbers parted by commas
  std::string n_generate = "128";
  std::string depths = "0";
  uint32_t repetitions = 5;
  std::string output = "md";
  bool json = false;
};

// One line of the table: a prompt of n_prompt tokens or n_generate single tokens behind `depth`.
struct BenchCase {
  uint32_t depth = 0;
  uint32_t n_prompt = 0;
  uint32_t n_generate = 0;

  uint32_t n_tokens() const { return n_prompt + n_generate; }
  std::string name() const {
    std::string text =
        n_prompt > 0 ? fmt::format("pp{}", n_prompt) : fmt::format("tg{}", n_generate);
    if (depth > 0) text.append(fmt::format(" @ d{}", depth));
    return text;
  }
};

struct BenchRow {
  BenchCase test;
  std::vector<double> samples;  // tokens per second
  double mean = 0;
  double stddev = 0;  // of the samples, n - 1 in the denominator; 0 for one
};

constexpr uint32_t kMaxLength = 1U << 30;  // of a depth, a prompt or a generation

Result<std::vector<uint32_t>> parse_lengths(std::string_view flag, std::string_view text) {
  std::vector<uint32_t> lengths;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    uint32_t length = 0;
    const auto [stop, failure] = std::from_chars(text.data() + at, text.data() + end, length);
    if (failure != std::errc() || stop != text.data() + end || length > kMaxLength) {
      return error(ErrorCode::kInvalidArgument,
                   "{}: numbers from 0 to {} parted by commas expected, found \"{}\"", flag,
                   kMaxLength, text);
    }
    lengths.push_back(length);
    at = end + 1;
  }
  return lengths;
}

// Per depth the prompts, then the generations; a length of 0 leaves its test out.
Result<std::vector<BenchCase>> cases_of(const BenchFlags& flags) {
  TRY(prompts, parse_lengths("--n-prompt", flags.n_prompt));
  TRY(generations, parse_lengths("--n-gen", flags.n_generate));
  TRY(depths, parse_lengths("--n-depth", flags.depths));
  std::vector<BenchCase> cases;
  for (const uint32_t depth : depths) {
    for (const uint32_t n : prompts) {
      if (n > 0) cases.push_back({depth, n, 0});
    }
    for (const uint32_t n : generations) {
      if (n > 0) cases.push_back({depth, 0, n});
    }
  }
  return cases;
}

std::vector<int32_t> random_ids(size_t n, uint32_t vocab_size, std::mt19937& random) {
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % vocab_size);
  return ids;
}

// Seconds that `ids` take behind what the sequence holds: as a prompt, or one by one.
Result<double> time_ids(Engine& engine, Sequence& sequence, std::span<const int32_t> ids,
                        bool one_by_one) {
  const Clock::time_point start = Clock::now();
  const size_t step = one_by_one ? 1 : ids.size();
  for (size_t at = 0; at < ids.size(); at += step) {
    TRY_OK(read_prompt(engine, sequence, ids.subspan(at, step), Wants::kLogits));
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void summarize(BenchRow& row) {
  const auto n = static_cast<double>(row.samples.size());
  row.mean = std::accumulate(row.samples.begin(), row.samples.end(), 0.0) / n;
  double squares = 0;
  for (const double sample : row.samples) squares += (sample - row.mean) * (sample - row.mean);
  row.stddev = n > 1 ? std::sqrt(squares / (n - 1)) : 0;
}

// One run to warm up (of a generation its first token), then the timed ones, each on a fork of
// `base`, which holds the tokens of the depth.
Result<BenchRow> run_case(Engine& engine, const Sequence& base, const BenchCase& test,
                          uint32_t repetitions, std::mt19937& random) {
  const bool one_by_one = test.n_generate > 0;
  BenchRow row = {test, {}, 0, 0};
  for (uint32_t i = 0; i <= repetitions; ++i) {
    const bool warm_up = i == 0;
    const size_t n = warm_up && one_by_one ? 1 : test.n_tokens();
    const std::vector<int32_t> ids = random_ids(n, engine.config().vocab_size, random);
    Sequence sequence = base.fork();
    TRY(seconds, time_ids(engine, sequence, ids, one_by_one));
    if (!warm_up) row.samples.push_back(static_cast<double>(n) / std::max(seconds, 1e-9));
  }
  summarize(row);
  return row;
}

Result<std::vector<BenchRow>> run_cases(Engine& engine, const std::vector<BenchCase>& cases,
                                        const BenchFlags& flags, const Globals& globals) {
  std::mt19937 random(1);
  ProgressLine line(!globals.quiet);
  std::vector<BenchRow> rows;
  Sequence base = engine.new_sequence();
  for (const BenchCase& test : cases) {
    line.draw(test.name(), rows.size(), cases.size());
    if (base.length() != test.depth) {
      base.drop();
      TRY_OK(read_prompt(engine, base, random_ids(test.depth, engine.config().vocab_size, random),
                         Wants::kLogits));
    }
    TRY(row, run_case(engine, base, test, flags.repetitions, random));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string format_of_windows(const std::string& format, const std::string& given) {
  return given.empty() ? format : given;
}

// What the rows of a run have in common.
ordered_json common_fields(const Engine& engine, const BenchFlags& flags) {
  uint64_t n_parameters = 0;
  for (const GgufTensor& tensor : engine.file().tensors()) n_parameters += tensor.n_elements();
  std::string type;
  const Value* id = engine.file().find("general.file_type");
  for (const FileTypeInfo& info : file_types()) {
    if (id != nullptr && id->as_u32() == static_cast<uint32_t>(info.type)) type = info.name;
  }
  const Value* name = engine.file().find("general.name");
  return {{"model", name != nullptr ? name->as_string().value_or("") : ""},
          {"file_type", type},
          {"size_bytes", engine.file().file_bytes()},
          {"n_parameters", n_parameters},
          {"backend", "cpu"},
          {"threads", engine.n_threads()},
          {"batch_size", engine.max_rows()},
          {"type_k", flags.model.k_format},
          {"type_v", flags.model.v_format},
          {"type_k_swa", format_of_windows(flags.model.k_format, flags.model.k_format_swa)},
          {"type_v_swa", format_of_windows(flags.model.v_format, flags.model.v_format_swa)}};
}

// "f16", or "f16, swa tq8" where layers with a window have another format.
std::string formats_text(const ordered_json& common, const std::string& field) {
  std::string text = common[field].get<std::string>();
  const auto windows = common[field + "_swa"].get<std::string>();
  if (windows != text) text.append(", swa ").append(windows);
  return text;
}

ordered_json json_row(const ordered_json& common, const BenchRow& row) {
  ordered_json json = common;
  json.update({{"n_prompt", row.test.n_prompt},
               {"n_gen", row.test.n_generate},
               {"n_depth", row.test.depth},
               {"test", row.test.name()},
               {"tokens_per_second", row.mean},
               {"stddev", row.stddev}});
  return json;
}

void print_json_rows(const ordered_json& common, const std::vector<BenchRow>& rows) {
  ordered_json array = ordered_json::array();
  for (const BenchRow& row : rows) {
    array.push_back(json_row(common, row));
    array.back()["samples"] = row.samples;
  }
  print_json(array, 2);
}

// Texts stand in quotes, quotes inside of them doubled.
std::string csv_field(const ordered_json& value) {
  if (!value.is_string()) return value.dump();
  std::string text = "\"";
  for (const char c : value.get_ref<const std::string&>()) text.append(c == '"' ? 2 : 1, c);
  return text.append("\"");
}

void print_csv(const ordered_json& common, const std::vector<BenchRow>& rows) {
  bool first = true;
  for (const BenchRow& row : rows) {
    std::vector<std::string> names;
    std::vector<std::string> fields;
    const ordered_json json = json_row(common, row);
    for (const auto& [name, value] : json.items()) {
      names.push_back(name);
      fields.push_back(csv_field(value));
    }
    if (std::exchange(first, false)) fmt::print("{}\n", fmt::join(names, ","));
    fmt::print("{}\n", fmt::join(fields, ","));
  }
}

void print_markdown(const ordered_json& common, const std::vector<BenchRow>& rows) {
  const std::string model = fmt::format("{} {}", common["model"].get<std::string>(),
                                        common["file_type"].get<std::string>());
  const size_t width = std::max<size_t>(model.size(), 5);
  const std::string type_k = formats_text(common, "type_k");
  const std::string type_v = formats_text(common, "type_v");
  const size_t k_width = std::max<size_t>(type_k.size(), 6);
  const size_t v_width = std::max<size_t>(type_v.size(), 6);
  fmt::print(
      "| {:<{}} | {:>10} | {:>9} | backend | threads | {:>{}} | {:>{}} | {:>15} | {:>18} |\n",
      "model", width, "size", "params", "type_k", k_width, "type_v", v_width, "test", "t/s");
  fmt::print(
      "| {:-<{}} | ---------: | --------: | ------- | ------: | {:->{}} | {:->{}} | {:->15} | "
      "{:->18} |\n",
      "", width, ":", k_width, ":", v_width, ":", ":");
  for (const BenchRow& row : rows) {
    fmt::print("| {:<{}} | {:>10} | {:>9} | {:<7} | {:>7} | {:>{}} | {:>{}} | {:>15} | {:>18} |\n",
               model, width, human_bytes(common["size_bytes"].get<uint64_t>()),
               human_count(common["n_parameters"].get<uint64_t>()),
               common["backend"].get<std::string>(), common["threads"].get<size_t>(), type_k,
               k_width, type_v, v_width, row.test.name(),
               fmt::format("{:.2f} ± {:.2f}", row.mean, row.stddev));
  }
}

Result<int> run(BenchFlags flags, const Globals& globals) {
  TRY(cases, cases_of(flags));
  uint32_t longest = 0;
  for (const BenchCase& test : cases) longest = std::max(longest, test.depth + test.n_tokens());
  if (longest == 0) {
    return error(ErrorCode::kInvalidArgument,
                 "bench: a prompt or a generation of at least 1 token expected (-p, -n), found 0");
  }
  if (flags.model.n_ctx == 0) flags.model.n_ctx = longest;
  flags.model.n_slots = 2;  // the depth, and the fork that is timed
  TRY(engine, load_engine(flags.model, globals));
  TRY(rows, run_cases(*engine, cases, flags, globals));
  const ordered_json common = common_fields(*engine, flags);
  if (flags.json || flags.output == "json") {
    print_json_rows(common, rows);
  } else if (flags.output == "csv") {
    print_csv(common, rows);
  } else {
    print_markdown(common, rows);
  }
  return kSuccess;
}

}  // namespace

void add_bench(Program& program, const Globals& globals) {
  Command command = program.add_command("bench", "Tokens per second of prompts and of generation");
  auto flags = std::make_shared<BenchFlags>();
  command.add_option("-p,--n-prompt", flags->n_prompt, "Tokens of a prompt; a list: 128,512")
      .show_default();
  command
      .add_option("-n,--n-gen", flags->n_generate,
                  "Tokens generated one by one; a list; 0: no such test")
      .show_default();
  command.add_option("-d,--n-depth", flags->depths, "Tokens that are there before; a list")
      .show_default();
  command.add_option("-r,--repetitions", flags->repetitions, "Timed runs of each test")
      .range(1, 1e6)
      .show_default();
  command.add_option("-o,--output", flags->output, "md, json or csv")
      .one_of({"md", "json", "csv"})
      .show_default();
  command.add_flag("--json", flags->json,
                   "Array of rows with test, tokens_per_second, stddev, samples and the setting");
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run(*flags, globals); });
}

}  // namespace hf2q::app
