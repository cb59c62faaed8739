#pragma once
// The config.json and generation_config.json of a HuggingFace Gemma 4 checkpoint.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"

namespace hf2q {

struct HfConfig {
  Config config;
  std::string architecture;  // "Gemma4ForCausalLM", ...
  std::string name;          // _name_or_path, may be empty
  std::vector<int32_t> eos_token_ids;
};

// `text` is the content of config.json; `where` (its path) begins every error message.
// Accepts Gemma4ForCausalLM, Gemma4ForConditionalGeneration and their Unified forms; the
// text_config object when there is one, else the root; tie_word_embeddings may stand in either, and
// text_config wins. Structural keys are required; the others default as the reference
// implementation does.
Result<HfConfig> parse_hf_config(std::string_view text, const std::string& where);

// What generation_config.json says; every field may be absent.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;
  std::vector<int32_t> suppress_tokens;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
};
Result<GenerationConfig> parse_generation_config(std::string_view text, const std::string& where);

}  // namespace hf2q
