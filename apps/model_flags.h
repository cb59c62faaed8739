#pragma once
// Flags of the commands that load a model, and of those that sample.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/template.h"
#include "commands.h"
#include "engine/engine.h"
#include "sample/params.h"

namespace hf2q::app {

struct ModelFlags {
  std::string model;
  uint32_t n_ctx = 0;
  uint32_t max_rows = 512;
  uint32_t n_slots = 1;
  size_t n_threads = 0;
  std::string k_format = "f16";
  std::string v_format = "tq8";
  std::string k_format_swa;  // empty: as k_format
  std::string v_format_swa;
  std::string kv_budget;
  std::string prompt_kv = "stored";
  std::string device = "cpu";
  int32_t n_gpu_layers = 0;            // accepted, without effect
  std::string flash_attention = "on";  // accepted, without effect
  std::vector<std::string> images;     // refused, as is a projector
  std::string projector;
  bool mmap = false;
  bool dry_run = false;
};

void add_model_flags(Command& command, ModelFlags& flags);
// --prompt-kv, where one prompt is read at a time and no prefix is shared.
void add_prompt_kv_flag(Command& command, ModelFlags& flags);
// What a command that loads a model does: with --dry-run it prints the memory, else it runs.
void run_with_model(Command& command, std::shared_ptr<ModelFlags> flags, const Globals& globals,
                    std::function<Result<int>()> run);
Result<EngineOptions> engine_options(const ModelFlags& flags, const Globals& globals);
// Loads with a progress line; warns where the context is longer than the model's.
Result<std::unique_ptr<Engine>> load_engine(const ModelFlags& flags, const Globals& globals,
                                            uint32_t max_outputs = 1);
// Prints what would be allocated (--dry-run).
int print_memory_plan(const ModelFlags& flags, const Globals& globals);

// Fields are set where the flag was given; the file's own defaults fill the rest.
struct SamplingFlags {
  std::optional<float> temperature;
  std::optional<int64_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repeat_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::string seed;  // empty: a random one
};

void add_sampling_flags(Command& command, SamplingFlags& flags);
Result<SamplingParams> sampling_params(const SamplingFlags& flags, const GgufFile& file);

// The Jinja template in a file, or the model's where `path` is empty; warns where it has none.
Result<ChatTemplate> chat_template_from(const std::string& path, const Engine& engine,
                                        const Globals& globals);

// "1 2 3" or "1,2,3", also with brackets; ids below n_tokens.
Result<std::vector<int32_t>> parse_ids(std::string_view text, size_t n_tokens);
// The prompt of a command that looks at a model: exactly one of the two.
struct PromptFlags {
  std::string text;
  std::string tokens;
};

// kInvalidArgument for a prompt of no characters at all.
Status check_prompt_text(std::string_view text);
void add_prompt_flags(Command& command, PromptFlags& flags, const ModelFlags& model);
Result<std::vector<int32_t>> read_prompt_ids(const PromptFlags& flags, const Tokenizer& tokenizer);

// "512m", "2g", or plain bytes.
Result<uint64_t> parse_bytes(const std::string& text);
// A file, a pipe to its end, or stdin for "-".
Result<std::string> read_text_file(const std::string& path);

}  // namespace hf2q::app
