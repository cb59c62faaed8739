#include "serve/chat_reply.h"

#include <utility>

namespace hf2q {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kChatChunk = "chat.completion.chunk";

ordered_json log_probs_or_null(const ordered_json& entries) {
  return entries.is_null() ? ordered_json() : ordered_json{{"content", entries}};
}

ordered_json message_json(const ChatAnswer& answer) {
  ordered_json message = {{"role", "assistant"}, {"content", answer.content}};
  if (answer.content.empty() && !answer.calls.empty()) message["content"] = nullptr;
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ChatToolCall& call : answer.calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

}  // namespace

std::string chat_finish_reason(std::string_view finish_reason, bool has_calls) {
  return std::string(has_calls && finish_reason == "stop" ? "tool_calls" : finish_reason);
}

ordered_json chat_reply(const ReplyHead& head, std::span<const ChatAnswer> answers,
                        const ReplyTotals& totals) {
  ordered_json reply = head_json(head, "chat.completion");
  ordered_json& choices = reply["choices"] = ordered_json::array();
  for (const ChatAnswer& answer : answers) {
    choices.push_back({{"index", choices.size()},
                       {"message", message_json(answer)},
                       {"logprobs", log_probs_or_null(answer.log_probs)},
                       {"finish_reason", answer.finish_reason}});
  }
  reply["usage"] = usage_json(totals);
  reply["timings"] = timings_json(totals);
  return reply;
}

ordered_json chat_chunk(const ReplyHead& head, ordered_json choice) {
  ordered_json chunk = head_json(head, kChatChunk);
  chunk["choices"].push_back(std::move(choice));
  return chunk;
}

ordered_json delta_choice(uint32_t index, ordered_json delta, const ordered_json& log_probs,
                          std::string_view finish_reason) {
  return {{"index", index},
          {"delta", std::move(delta)},
          {"logprobs", log_probs_or_null(log_probs)},
          {"finish_reason", finish_reason.empty() ? ordered_json() : ordered_json(finish_reason)}};
}

ordered_json chat_usage_chunk(const ReplyHead& head, const ReplyTotals& totals) {
  ordered_json chunk = head_json(head, kChatChunk);
  chunk["choices"] = ordered_json::array();
  chunk["usage"] = usage_json(totals);
  chunk["timings"] = timings_json(totals);
  return chunk;
}

ordered_json chat_progress_chunk(const ReplyHead& head, const PromptProgress& progress) {
  ordered_json chunk = head_json(head, kChatChunk);
  chunk["choices"] = ordered_json::array();
  chunk["prompt_progress"] = {{"total", progress.n_prompt},
                              {"cache", progress.n_cached},
                              {"processed", progress.n_read},
                              {"time_ms", progress.milliseconds}};
  return chunk;
}

ordered_json call_begin_delta(size_t index, const ChatToolCall& call) {
  ordered_json entry = {{"index", index},
                        {"id", call.id},
                        {"type", "function"},
                        {"function", {{"name", call.name}, {"arguments", ""}}}};
  return {{"tool_calls", ordered_json::array({std::move(entry)})}};
}

ordered_json arguments_delta(size_t index, std::string_view piece) {
  ordered_json entry = {{"index", index}, {"function", {{"arguments", piece}}}};
  return {{"tool_calls", ordered_json::array({std::move(entry)})}};
}

}  // namespace hf2q
