#include "convert/hf_metadata.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "base/json_tree.h"
#include "base/mapped_file.h"
#include "convert/readable.h"
#include "sample/params.h"
#include "tokenizer/gguf_vocabulary.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Result<std::string> read_text(const fs::path& path) {
  TRY(file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > kMaxJsonTreeBytes) {
    return error(ErrorCode::kCorrupt, "{}: at most {} bytes expected, found {}", path.string(),
                 kMaxJsonTreeBytes, bytes.size());
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Nothing when there is no such file.
Result<std::optional<std::string>> read_optional(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::optional<std::string>();
  TRY(text, read_text(path));
  return std::optional(std::move(text));
}

// A chat template and the file that it is from; both empty where there is none.
struct TemplateSource {
  std::string text;
  std::string file;
};

// The chat_template member of tokenizer_config.json: a text, or a list of named ones of which
// "default" counts.
Result<std::string> template_of_tokenizer_config(const std::string& text,
                                                 const std::string& where) {
  TRY(root, parse_json_object(text, where));
  const json value = root.value("chat_template", json());
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) {
    return error(ErrorCode::kCorrupt, "{}: chat_template: a text or a list expected, found {}",
                 where, describe(value));
  }
  for (const json& entry : value) {
    if (entry.is_object() && entry.value("name", json()) == "default" &&
        entry.value("template", json()).is_string()) {
      return entry["template"].get<std::string>();
    }
  }
  return std::string();
}

// A broken tokenizer_config.json is an error also where chat_template.jinja wins.
Result<TemplateSource> find_chat_template(const fs::path& folder) {
  const fs::path config_path = folder / "tokenizer_config.json";
  TRY(config, read_optional(config_path));
  TemplateSource found;
  if (config) {
    TRY(text, template_of_tokenizer_config(*config, config_path));
    if (!text.empty()) found = {std::move(text), config_path};
  }
  const fs::path own = folder / "chat_template.jinja";
  TRY(jinja, read_optional(own));
  if (!jinja) return found;
  if (!is_valid_utf8(*jinja)) {
    return error(ErrorCode::kCorrupt, "{}: UTF-8 expected", own.string());
  }
  return TemplateSource{std::move(*jinja), own};
}

Result<std::string> read_chat_template(const fs::path& folder) {
  TRY(found, find_chat_template(folder));
  TRY_OK(check_chat_template(found.text, found.file));
  return std::move(found.text);
}

// "tiny-gemma4" to "Tiny Gemma4".
std::string title(std::string name) {
  bool begins = true;
  for (char& c : name) {
    if (c == '-' || c == '_') c = ' ';
    if (begins) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    begins = c == ' ';
  }
  return name;
}

std::string model_name(const std::string& folder, const std::string& from_config) {
  return title(model_folder_name(from_config.empty() ? folder : from_config));
}

// The settings under their names in generation_config.json, which are those of SamplingParams.
Status check_sampling(const GenerationConfig& generation, const std::string& where) {
  SamplingParams params;
  params.temperature = generation.temperature.value_or(params.temperature);
  params.top_p = generation.top_p.value_or(params.top_p);
  const auto valid = validate(params, 0);
  if (valid.ok()) return Ok{};
  return error(ErrorCode::kCorrupt, "{}: {}", where, valid.error().message);
}

Status check_ids(const std::vector<int32_t>& ids, size_t n_tokens, const std::string& where) {
  for (const int32_t id : ids) {
    if (static_cast<size_t>(id) >= n_tokens) {
      return error(ErrorCode::kCorrupt, "{}: token ids below {} expected, found {}", where,
                   n_tokens, id);
    }
  }
  return Ok{};
}

Status set_special_ids(const HfConfig& config, const fs::path& folder, HfMetadata& result) {
  Vocabulary& vocabulary = result.vocabulary;
  const GenerationConfig& generation = result.generation;
  const size_t n_tokens = vocabulary.tokens.size();
  TRY_OK(check_ids(generation.eos_token_ids, n_tokens, folder / "generation_config.json"));
  TRY_OK(check_ids(generation.suppress_tokens, n_tokens, folder / "generation_config.json"));
  TRY_OK(check_ids(config.eos_token_ids, n_tokens, folder / "config.json"));
  const std::vector<int32_t>& stop =
      generation.eos_token_ids.empty() ? config.eos_token_ids : generation.eos_token_ids;
  if (!stop.empty()) vocabulary.stop_ids = stop;
  if (!config.eos_token_ids.empty()) vocabulary.eos = config.eos_token_ids.front();
  vocabulary.suppress_ids = generation.suppress_tokens;
  return Ok{};
}

}  // namespace

std::string model_folder_name(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.parent_path().filename() == "snapshots") {
    const std::string cached = path.parent_path().parent_path().filename();
    if (cached.starts_with("models--")) return cached.substr(cached.rfind("--") + 2);
  }
  return path.filename();
}

Result<HfMetadata> read_hf_metadata(const std::string& folder_name) {
  const fs::path folder(folder_name);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return error(ErrorCode::kNotFound, "{}: a checkpoint folder with config.json expected",
                 folder_name);
  }
  TRY(config_text, read_text(folder / "config.json"));
  TRY(config, parse_hf_config(config_text, folder / "config.json"));
  HfMetadata result;
  TRY(generation_text, read_optional(folder / "generation_config.json"));
  if (generation_text) {
    TRY(generation, parse_generation_config(*generation_text, folder / "generation_config.json"));
    TRY_OK(check_sampling(generation, folder / "generation_config.json"));
    result.generation = generation;
  }
  TRY(vocabulary, read_tokenizer_json(folder / "tokenizer.json"));
  result.vocabulary = std::move(vocabulary);
  TRY(chat_template, read_chat_template(folder));
  result.vocabulary.chat_template = std::move(chat_template);
  TRY_OK(set_special_ids(config, folder, result));
  TRY_OK(check_vocabulary(result.vocabulary, folder / "tokenizer.json"));
  result.config = config.config;
  result.name = model_name(folder_name, config.name);
  const size_t n_tokens = result.vocabulary.tokens.size();
  if (n_tokens > result.config.vocab_size) {
    return error(ErrorCode::kCorrupt, "{}: at most {} tokens expected (vocab_size), found {}",
                 (folder / "tokenizer.json").string(), result.config.vocab_size, n_tokens);
  }
  result.config.vocab_size = static_cast<uint32_t>(n_tokens);
  return result;
}

void write_metadata(const HfMetadata& source, GgufMetadata& metadata) {
  metadata.set_string("general.architecture", "gemma4");
  metadata.set_string("general.type", "model");
  const GenerationConfig& generation = source.generation;
  if (generation.top_k) metadata.set_i32("general.sampling.top_k", *generation.top_k);
  if (generation.top_p) metadata.set_f32("general.sampling.top_p", *generation.top_p);
  if (generation.temperature) metadata.set_f32("general.sampling.temp", *generation.temperature);
  metadata.set_string("general.name", source.name);
  write_config(source.config, metadata);
  write_vocabulary(source.vocabulary, metadata);
}

}  // namespace hf2q
