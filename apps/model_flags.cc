#include "model_flags.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/mapped_file.h"
#include "base/quote.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "model/ignored_tensors.h"
#include "sample/file_sampling.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

std::string known_kv_formats() {
  std::string known;
  for (const KvFormatInfo& info : kKvFormats) known += " " + std::string(info.name);
  return known;
}

Result<KvFormat> kv_format(const std::string& flag, const std::string& name) {
  const std::optional<KvFormat> format = parse_kv_format(name);
  if (format) return *format;
  return error(ErrorCode::kInvalidArgument, "{}: one of{} expected, found \"{}\"", flag,
               known_kv_formats(), name);
}

// Flags of llama.cpp that choose what is settled here.
void add_settled_flags(Command& command, ModelFlags& flags, const char* group) {
  command
      .add_option("--n-gpu-layers", flags.n_gpu_layers,
                  "Accepted without effect (-ngl): all layers run on one device")
      .group(group);
  command
      .add_option("--flash-attn", flags.flash_attention,
                  "Accepted without effect (-fa): attention always works in one pass")
      .optional_value("on")
      .one_of({"on", "off", "auto", "0", "1"})
      .group(group);
}

// Flags of what is not there yet, so that nobody takes them for misspelt.
void add_refused_flags(Command& command, ModelFlags& flags, const char* group) {
  command.add_option("--image", flags.images, "Refused: image input is not supported yet")
      .group(group);
  command.add_option("--mmproj", flags.projector, "Refused: image input is not supported yet")
      .group(group);
}

void warn_of_settled_flags(const ModelFlags& flags) {
  if (flags.n_gpu_layers != 0)
    warn("--n-gpu-layers: no effect, --device says where the model runs");
  if (flags.flash_attention == "off" || flags.flash_attention == "0")
    warn("--flash-attn: no effect, attention never stores its scores");
}

Error cannot_read(const std::string& name) {
  return error(ErrorCode::kNotFound, "{}: cannot read: {}", name, std::strerror(errno));
}

// What comes from a pipe; there is no telling before how much.
Result<std::string> read_to_end(int descriptor, const std::string& name) {
  constexpr size_t kMost = size_t{1} << 30;
  std::string text;
  std::array<char, 65536> buffer = {};
  while (true) {
    const ssize_t n = ::read(descriptor, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot_read(name);
    if (n == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(n));
    if (text.size() > kMost) {
      return error(ErrorCode::kCorrupt, "{}: at most {} bytes expected, found more", name, kMost);
    }
  }
}

}  // namespace

void add_model_flags(Command& command, ModelFlags& flags) {
  const char* group = "Model";
  command.add_option("-m,--model", flags.model, "GGUF file (of shards, the first)")
      .required()
      .group(group);
  const std::string n_ctx =
      flags.n_ctx > 0 ? fmt::format("{}", flags.n_ctx) : std::string("the model's context");
  command
      .add_option("-c,--ctx-size,--max-model-len", flags.n_ctx,
                  fmt::format("Most tokens of one sequence (default: {})", n_ctx))
      .group(group);
  command.add_option("-b,--batch-size", flags.max_rows, "Most tokens of one batch")
      .range(1, 65536)
      .show_default()
      .group(group);
  command.add_option("-t,--threads", flags.n_threads, "Threads (default: one per processor)")
      .range(1, Exec::kMaxThreads)
      .group(group);
  command
      .add_option("--cache-type-k", flags.k_format,
                  fmt::format("Format of cached K (-ctk):{}", known_kv_formats()))
      .show_default()
      .group(group);
  command.add_option("--cache-type-v", flags.v_format, "Format of cached V (-ctv)")
      .show_default()
      .group(group);
  command
      .add_option("--cache-type-k-swa", flags.k_format_swa,
                  "The same for layers with a window (default: as the others)")
      .group(group);
  command.add_option("--cache-type-v-swa", flags.v_format_swa, "(default: as the others)")
      .group(group);
  command
      .add_option("--kv-budget", flags.kv_budget,
                  "Most bytes of cache: 512m, 2g (default: one full context, at most half of the "
                  "free memory)")
      .group(group);
  command.add_option("--device", flags.device, "cpu").show_default().group(group);
  command
      .add_option("--parallel,--slots,--max-num-seqs", flags.n_slots,
                  "Most sequences at once (-np), for which the budget of the cache is made")
      .range(1, 65536)
      .show_default()
      .group(group);
  add_settled_flags(command, flags, group);
  add_refused_flags(command, flags, group);
  command
      .add_flag("--mmap", flags.mmap,
                "Read tables of rows from the mapped file instead of copying them")
      .group(group);
  command
      .add_flag("--dry-run", flags.dry_run, "Show the memory that would be used, allocate nothing")
      .group(group);
}

void add_prompt_kv_flag(Command& command, ModelFlags& flags) {
  command
      .add_option("--prompt-kv", flags.prompt_kv,
                  "What the prompt attends to: its stored rows, or exact ones (F32) that are kept "
                  "until its end")
      .one_of({"stored", "exact"})
      .show_default()
      .group("Model");
}

void run_with_model(Command& command, std::shared_ptr<ModelFlags> flags, const Globals& globals,
                    std::function<Result<int>()> run) {
  command.on_run([flags = std::move(flags), run = std::move(run), &globals] {
    if (flags->dry_run) return print_memory_plan(*flags, globals);
    const Result<int> code = run();
    return code.ok() ? code.value() : report(code.error());
  });
}

Result<uint64_t> parse_bytes(const std::string& text) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string suffix(end, text.data() + text.size());
  int shift = -1;
  if (suffix.empty() || suffix == "b" || suffix == "B") shift = 0;
  if (suffix == "k" || suffix == "K") shift = 10;
  if (suffix == "m" || suffix == "M") shift = 20;
  if (suffix == "g" || suffix == "G") shift = 30;
  if (failure != std::errc() || shift < 0 || value == 0 || value > (UINT64_MAX >> shift)) {
    return error(ErrorCode::kInvalidArgument,
                 "a number of bytes like 512m or 2g expected, found \"{}\"", text);
  }
  return value << shift;
}

Result<EngineOptions> engine_options(const ModelFlags& flags, const Globals& /*globals*/) {
  if (!flags.images.empty() || !flags.projector.empty()) {
    return error(ErrorCode::kInvalidArgument, "{}: image input is not supported yet",
                 flags.images.empty() ? "--mmproj" : "--image");
  }
  EngineOptions options;
  options.n_ctx = flags.n_ctx;
  options.n_sequences = flags.n_slots;
  options.max_rows = flags.max_rows;
  options.n_threads = flags.n_threads;
  options.mmap = flags.mmap;
  if (flags.device != "cpu") {
    return error(ErrorCode::kInvalidArgument,
                 "--device: \"cpu\" expected (this build has no other), found \"{}\"",
                 flags.device);
  }
  TRY(k, kv_format("--cache-type-k", flags.k_format));
  TRY(v, kv_format("--cache-type-v", flags.v_format));
  TRY(k_swa, kv_format("--cache-type-k-swa",
                       flags.k_format_swa.empty() ? flags.k_format : flags.k_format_swa));
  TRY(v_swa, kv_format("--cache-type-v-swa",
                       flags.v_format_swa.empty() ? flags.v_format : flags.v_format_swa));
  options.kv_formats = {k, v, k_swa, v_swa};
  options.prompt_kv = flags.prompt_kv == "exact" ? PromptKv::kExact : PromptKv::kStored;
  if (!flags.kv_budget.empty()) {
    TRY(budget, parse_bytes(flags.kv_budget));
    options.kv_budget_bytes = budget;
  }
  return options;
}

Result<std::unique_ptr<Engine>> load_engine(const ModelFlags& flags, const Globals& globals,
                                            uint32_t max_outputs) {
  TRY(options, engine_options(flags, globals));
  if (!globals.quiet) warn_of_settled_flags(flags);
  options.max_outputs = max_outputs;
  ProgressLine line(!globals.quiet);
  options.on_progress = [&](uint64_t done, uint64_t total) {
    line.draw("loading weights", done, total);
  };
  TRY(engine, Engine::load(flags.model, options));
  if (engine->n_ctx() > engine->config().n_ctx_train) {
    warn(fmt::format("a context of {} tokens is longer than the model was trained for ({})",
                     engine->n_ctx(), engine->config().n_ctx_train));
  }
  const std::vector<std::string> ignored = ignored_tensors(engine->file(), engine->config());
  if (!ignored.empty()) warn(ignored_line(ignored));
  return engine;
}

int print_memory_plan(const ModelFlags& flags, const Globals& globals) {
  const Result<EngineOptions> options = engine_options(flags, globals);
  if (!options.ok()) return report(options.error());
  const Result<MemoryPlan> planned = Engine::plan(flags.model, options.value());
  if (!planned.ok()) return report(planned.error());
  const MemoryPlan& plan = planned.value();
  fmt::print("weights    {}\nscratch    {}\n", human_bytes(plan.weights),
             human_bytes(plan.scratch));
  uint64_t total = 0;
  for (const MemoryPlan::Group& group : plan.groups) {
    const PageLayout& layout = group.layout;
    const std::string kept =
        group.window == 0 ? "all tokens" : fmt::format("window of {}", group.window);
    fmt::print(
        "cache      {} layers, {} KV heads of {}, {}: K {} V {} ({:.3f} and {:.3f} bits per "
        "value), {} at rest\n",
        group.n_layers, layout.n_kv_heads, layout.head_dim, kept,
        kv_format_info(layout.k_format).name, kv_format_info(layout.v_format).name,
        kv_format_info(layout.k_format).bits_per_value(layout.head_dim),
        kv_format_info(layout.v_format).bits_per_value(layout.head_dim),
        human_bytes(group.bytes_at_rest));
    if (group.bytes_in_pass > 0)
      fmt::print("           {} more while a batch is in work\n", human_bytes(group.bytes_in_pass));
    total += group.bytes_at_rest;
  }
  if (plan.exact > 0) {
    fmt::print("prompt     {} while it is read (--prompt-kv exact)\n", human_bytes(plan.exact));
  }
  fmt::print("           one sequence of {} tokens at rest: {}; budget {}\n", plan.n_ctx,
             human_bytes(total), human_bytes(plan.kv_budget));
  return kSuccess;
}

void add_sampling_flags(Command& command, SamplingFlags& flags) {
  const char* group = "Sampling (defaults come from the file)";
  command.add_option("--temp", flags.temperature, "Temperature; 0: always the most likely token")
      .group(group);
  command.add_option("--top-k", flags.top_k, "Only the k most likely tokens; 0: all").group(group);
  command.add_option("--top-p", flags.top_p, "The fewest tokens that hold this share").group(group);
  command
      .add_option("--min-p", flags.min_p,
                  "Only tokens at least this fraction as likely as the best")
      .group(group);
  command.add_option("--repeat-penalty", flags.repeat_penalty, "For tokens seen before; 1: off")
      .group(group);
  command
      .add_option("--presence-penalty", flags.presence_penalty,
                  "For tokens of the answer, once each")
      .group(group);
  command
      .add_option("--frequency-penalty", flags.frequency_penalty,
                  "For tokens of the answer, each time")
      .group(group);
  command.add_option("-s,--seed", flags.seed, "Same seed, same text (default: a random one)")
      .group(group);
}

namespace {

// Exact, where a parser of flags would round or cut off.
Result<uint64_t> parse_seed(const std::string& text) {
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, seed);
  if (failure == std::errc() && stop == end) return seed;
  return error(ErrorCode::kInvalidArgument,
               "--seed: a whole number from 0 to 2^64 - 1 expected, found {}", quote(text));
}

}  // namespace

Result<SamplingParams> sampling_params(const SamplingFlags& flags, const GgufFile& file) {
  TRY(defaults, read_sampling(file));
  SamplingParams params = with_given(std::move(defaults), flags);
  if (!flags.seed.empty()) {
    TRY(seed, parse_seed(flags.seed));
    params.seed = seed;
  } else {
    std::random_device device;
    params.seed = (uint64_t{device()} << 32) | device();
  }
  return params;
}

Result<ChatTemplate> chat_template_from(const std::string& path, const Engine& engine,
                                        const Globals& globals) {
  if (path.empty()) {
    if (engine.tokenizer().vocabulary().chat_template.empty() && !globals.quiet) {
      warn(fmt::format(
          "the file has no chat template, the built-in one for {} Gemma 4 models is used; "
          "--chat-template FILE gives another",
          gemma4_size_of(engine) == Gemma4Size::kSmall ? "small" : "large"));
    }
    return chat_template_of(engine);
  }
  TRY(text, read_text_file(path));
  return ChatTemplate::parse(text);
}

Result<std::vector<int32_t>> parse_ids(std::string_view text, size_t n_tokens) {
  static constexpr std::string_view kSeparators = " ,[]\t\r\n";
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;
       at = text.find_first_not_of(kSeparators, at)) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    int32_t id = 0;
    const auto [stop, failure] = std::from_chars(text.data() + at, text.data() + end, id);
    const bool whole = failure == std::errc() && stop == text.data() + end;
    if (!whole || id < 0 || static_cast<size_t>(id) >= n_tokens) {
      return error(ErrorCode::kInvalidArgument, "token ids from 0 to {} expected, found \"{}\"",
                   n_tokens - 1, text.substr(at, end - at));
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

Status check_prompt_text(std::string_view text) {
  if (!text.empty()) return Ok{};
  return error(ErrorCode::kInvalidArgument, "prompt: a text or token ids expected, found none");
}

void add_prompt_flags(Command& command, PromptFlags& flags, const ModelFlags& model) {
  const Option text =
      command.add_option("-p,--prompt", flags.text, "Text as it is, behind one <bos>");
  const Option tokens =
      command.add_option("--tokens", flags.tokens, "Token ids, taken as they are");
  command.require_one_of({text, tokens}, &model.dry_run);
}

Result<std::vector<int32_t>> read_prompt_ids(const PromptFlags& flags, const Tokenizer& tokenizer) {
  if (!flags.tokens.empty()) return parse_ids(flags.tokens, tokenizer.n_tokens());
  TRY_OK(check_prompt_text(flags.text));
  return encode_prompt(tokenizer, flags.text);
}

Result<std::string> read_text_file(const std::string& path) {
  if (path == "-") return read_to_end(STDIN_FILENO, "stdin");
  std::error_code ignored;
  if (std::filesystem::is_fifo(path, ignored)) {  // also what /dev/stdin and <(...) stand for
    const int pipe = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (pipe < 0) return cannot_read(path);
    Result<std::string> text = read_to_end(pipe, path);
    ::close(pipe);
    return text;
  }
  TRY(file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace hf2q::app
