#include "engine/session.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "kv/prefix_file.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

std::string describe_sampler(const SamplerState& sampler) {
  const SamplingParams& p = sampler.params;
  ordered_json biases = ordered_json::array();
  for (const LogitBias& bias : p.logit_bias) biases.push_back({bias.token, bias.bias});
  const ordered_json json = {{"temperature", p.temperature},
                             {"top_k", p.top_k},
                             {"top_p", p.top_p},
                             {"min_p", p.min_p},
                             {"repeat_penalty", p.repeat_penalty},
                             {"penalty_last_n", p.penalty_last_n},
                             {"presence_penalty", p.presence_penalty},
                             {"frequency_penalty", p.frequency_penalty},
                             {"logit_bias", biases},
                             {"suppressed_tokens", p.suppressed_tokens},
                             {"seed", p.seed},
                             {"form", sampler.form}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string to_text(const Session& session) {
  const ordered_json json = {{"seed", session.seed},         {"sampler", session.sampler},
                             {"n_prompt", session.n_prompt}, {"answer", session.answer},
                             {"system", session.system},     {"messages", session.messages}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool is_message(const ordered_json& message) {
  return message.is_object() && message.size() == 2 && message.contains("role") &&
         message["role"].is_string() && message.contains("content") &&
         message["content"].is_string();
}

// Nothing where a field is not of its kind.
std::optional<Session> session_of(std::string_view text, size_t n_tokens) {
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"seed", "sampler", "n_prompt", "answer", "system", "messages"}) {
    if (!json.contains(key)) return std::nullopt;
  }
  const bool has_kinds = json["seed"].is_number_unsigned() && json["sampler"].is_string() &&
                         json["n_prompt"].is_number_unsigned() && json["answer"].is_array() &&
                         json["system"].is_string() && json["messages"].is_array();
  if (!has_kinds || json["n_prompt"].get<uint64_t>() > UINT32_MAX) return std::nullopt;
  Session session;
  for (const ordered_json& id : json["answer"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= n_tokens) return std::nullopt;
    session.answer.push_back(id.get<int32_t>());
  }
  if (!std::ranges::all_of(json["messages"], is_message)) return std::nullopt;
  session.seed = json["seed"].get<uint64_t>();
  session.sampler = json["sampler"].get<std::string>();
  session.n_prompt = json["n_prompt"].get<uint32_t>();
  session.system = json["system"].get<std::string>();
  session.messages = json["messages"];
  return session;
}

}  // namespace

SessionLoad load_session(Engine& engine, const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return {};
  if (std::filesystem::is_regular_file(path, failure) &&
      std::filesystem::file_size(path, failure) == 0) {
    return {};
  }
  const Result<PrefixFile> file = PrefixFile::open(path);
  if (!file.ok()) return {std::nullopt, file.error()};
  SessionLoad load = {session_of(file.value().extra(), engine.tokenizer().n_tokens()), {}};
  if (!load.session) {
    load.refusal = error(ErrorCode::kCorrupt, "{}: saved rows without a session", path);
    return load;
  }
  const Status restored = file.value().restore(engine.model_digest(), engine.prefixes(), "");
  if (restored.ok()) {
    load.session->keys = file.value().path().keys;
  } else {
    load.refusal = restored.error();
  }
  return load;
}

Status check_session_path(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure) || PrefixFile::is_likely(path)) return Ok{};
  return error(ErrorCode::kInvalidArgument,
               "{}: a session file or a new name expected, found something else", path);
}

std::vector<int32_t> begun_answer(const Session& session, std::span<const TokenKey> prompt,
                                  const SamplerState& sampler) {
  const bool same = session.n_prompt == prompt.size() && session.keys.size() >= prompt.size() &&
                    std::ranges::equal(prompt, std::span(session.keys).first(prompt.size())) &&
                    session.sampler == describe_sampler(sampler);
  return same ? session.answer : std::vector<int32_t>();
}

Status save_session(Engine& engine, Conversation& conversation, Session session,
                    const SamplerState& sampler, const std::string& path) {
  const auto length = static_cast<uint32_t>(conversation.keys().size());
  if (length == 0) {
    return error(ErrorCode::kInvalidArgument, "{}: a conversation expected, found no token", path);
  }
  session.seed = sampler.params.seed;
  session.sampler = describe_sampler(sampler);
  conversation.sequence().mark(length);
  std::vector<uint32_t> points;
  if (session.n_prompt > 0 && session.n_prompt < length) points.push_back(session.n_prompt);
  points.push_back(length);
  const PrefixPath prefix =
      engine.prefixes().path_to(conversation.name_space(), conversation.keys(), points);
  CHECK(!prefix.points.empty() && prefix.points.back() == length);  // the sequence holds its end
  return write_prefix_file(path, engine.prefixes(), prefix, engine.model_digest(),
                           to_text(session));
}

}  // namespace hf2q
