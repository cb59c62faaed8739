#include "serve/api.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "engine/output_reader.h"

namespace hf2q {
namespace {

std::string fingerprint_of(const std::string& version, const Engine& engine) {
  return fmt::format("hf2q-{}-{:x}-{:x}", version, engine.file().file_bytes(),
                     engine.file().tensors().size());
}

std::string key_digest(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

Api::Api(Service& service, ApiOptions given, ChatTemplate jinja)
    : service(service),
      options(std::move(given)),
      jinja(std::move(jinja)),
      markers(output_markers(service.engine().tokenizer())),
      grammars(service.engine().tokenizer()),
      fingerprint(fingerprint_of(options.version, service.engine())),
      created(unix_seconds()) {
  defaults.vocab_size = service.engine().config().vocab_size;
  defaults.hidden_dim = service.engine().config().hidden_dim;
}

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string new_id(std::string_view prefix) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<size_t> any(0, kLetters.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kLetters[any(random)];
  return id;
}

std::string_view bearer_key(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view value = header_of(request, "Authorization");
  return value.starts_with(kScheme) ? value.substr(kScheme.size()) : std::string_view();
}

bool is_known_key(const std::vector<std::string>& keys, std::string_view key) {
  bool known = false;
  for (const std::string& expected : keys) {
    size_t difference = expected.size() ^ key.size();
    for (size_t i = 0; i < key.size(); ++i) {
      difference |= static_cast<uint8_t>(key[i]) ^
                    static_cast<uint8_t>(expected.empty() ? 0 : expected[i % expected.size()]);
    }
    known |= difference == 0;
  }
  return known;
}

std::string name_space_of(const Api& api, const HttpRequest& request, std::string_view salt,
                          bool use_cache) {
  if (!use_cache) return new_id("alone ");
  const bool apart = !api.options.share_prefixes && !api.options.keys.empty();
  std::string name = apart ? std::string(bearer_key(request)) : std::string();
  name += '\0';  // in no header
  return name.append(salt);
}

NameSpaceLabels name_space_labels(const std::vector<std::string>& keys) {
  NameSpaceLabels labels;
  labels.label_of = [](std::string_view name_space) {
    const size_t end = std::min(name_space.find('\0'), name_space.size());
    return key_digest(name_space.substr(0, end)).append(name_space.substr(end));
  };
  labels.name_space_of = [keys](std::string_view label) -> std::optional<std::string> {
    const size_t end = std::min(label.find('\0'), label.size());
    const auto is_meant = [&](const std::string& key) {
      return key_digest(key) == label.substr(0, end);
    };
    const std::string rest(label.substr(end));
    if (is_meant("")) return rest;
    const auto key = std::ranges::find_if(keys, is_meant);
    if (key == keys.end()) return std::nullopt;
    return *key + rest;
  };
  return labels;
}

ServeRequest serve_request(const Api& api, const HttpRequest& request, const AnswerRequest& answer,
                           std::vector<int32_t> prompt) {
  ServeRequest result;
  result.prompt = std::move(prompt);
  result.name_space = name_space_of(api, request, answer.cache_salt, answer.use_cache);
  result.remember = answer.use_cache;
  result.sampling = answer.sampling;
  result.max_tokens = answer.max_tokens;
  result.n_answers = answer.n_answers;
  result.stops = answer.stops;
  result.ignore_eos = answer.ignore_eos;
  result.n_top_log_probs = answer.n_top_log_probs;
  result.progress = answer.progress && answer.stream;
  return result;
}

}  // namespace hf2q
