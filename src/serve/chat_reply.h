#pragma once
// Replies of /v1/chat/completions. Pure functions.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/reply_parts.h"

namespace hf2q {

struct ChatToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON

  bool operator==(const ChatToolCall&) const = default;
};

struct ChatAnswer {
  std::string content;
  std::string reasoning;
  std::vector<ChatToolCall> calls;
  nlohmann::ordered_json log_probs;  // an array of entries, or null
  std::string finish_reason;
};

// "tool_calls" for an answer that ended by itself behind calls.
std::string chat_finish_reason(std::string_view finish_reason, bool has_calls);

nlohmann::ordered_json chat_reply(const ReplyHead& head, std::span<const ChatAnswer> answers,
                                  const ReplyTotals& totals);

// A chunk of a stream: `choice` as the functions below make it.
nlohmann::ordered_json chat_chunk(const ReplyHead& head, nlohmann::ordered_json choice);
// `log_probs`: an array of entries, or null. `finish_reason` "": null.
nlohmann::ordered_json delta_choice(uint32_t index, nlohmann::ordered_json delta,
                                    const nlohmann::ordered_json& log_probs,
                                    std::string_view finish_reason);
// With usage and timings, without choices.
nlohmann::ordered_json chat_usage_chunk(const ReplyHead& head, const ReplyTotals& totals);
// With prompt_progress, without choices.
nlohmann::ordered_json chat_progress_chunk(const ReplyHead& head, const PromptProgress& progress);

// {tool_calls: [{index, id, type, function: {name, arguments: ""}}]}
nlohmann::ordered_json call_begin_delta(size_t index, const ChatToolCall& call);
// {tool_calls: [{index, function: {arguments}}]}
nlohmann::ordered_json arguments_delta(size_t index, std::string_view piece);

}  // namespace hf2q
