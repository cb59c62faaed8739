#pragma once
// Bodies of requests, checked once: OpenAI's JSON to plain structs. Unknown fields are ignored, a
// wrong type or range is kInvalidArgument and its message begins with the field.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "chat/template.h"
#include "sample/params.h"

namespace hf2q {

// What a request leaves open.
struct RequestDefaults {
  SamplingParams sampling;       // but for the seed
  std::optional<uint64_t> seed;  // none: a random one for each request
  size_t vocab_size = 0;
  uint32_t hidden_dim = 0;
  bool enable_thinking = false;
};

// What output has to follow; at most one of the two is set.
struct OutputFormat {
  std::optional<nlohmann::ordered_json> schema;  // JSON Schema; an empty object: any JSON object
  std::string grammar;                           // GBNF
};

// What chat and plain completions share.
struct AnswerRequest {
  SamplingParams sampling;  // the seed too, a random one where none was given
  int64_t max_tokens = -1;
  uint32_t n_answers = 1;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  std::optional<uint32_t> n_top_log_probs;
  bool stream = false;
  bool include_usage = false;  // a last chunk with it, when streamed
  bool progress = false;
  std::string cache_salt;
  bool use_cache = true;
  OutputFormat format;
};

struct ToolChoice {
  enum class Kind : uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // of kNamed
};

struct ChatRequest {
  AnswerRequest answer;
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools;  // null where there are none, or none may be called
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  ChatOptions options;
};

// A text, or token ids that are taken as they are.
using PromptInput = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest {
  AnswerRequest answer;
  std::vector<PromptInput> prompts;  // at least one
  bool echo = false;
};

struct EmbeddingRequest {
  std::vector<PromptInput> inputs;  // at least one
  bool base64 = false;
  std::string cache_salt;
};

inline constexpr uint32_t kMaxAnswers = 128;  // n
inline constexpr size_t kMaxPrompts = 2048;   // of one request
inline constexpr uint32_t kMaxTopLogProbs = 20;

// The body as an object: kInvalidArgument for what is no JSON object in UTF-8, too long or nested
// too deep (base/json_tree.h). Needs no stack.
Result<nlohmann::ordered_json> parse_body(std::string_view body);

Result<ChatRequest> parse_chat_request(const nlohmann::ordered_json& body,
                                       const RequestDefaults& defaults);
// Messages, tools and template switches alone, as /apply-template wants them.
Result<ChatRequest> parse_conversation(const nlohmann::ordered_json& body,
                                       const RequestDefaults& defaults);
Result<CompletionRequest> parse_completion_request(const nlohmann::ordered_json& body,
                                                   const RequestDefaults& defaults);
Result<EmbeddingRequest> parse_embedding_request(const nlohmann::ordered_json& body,
                                                 const RequestDefaults& defaults);

struct TokenizeRequest {
  std::string content;
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
};
Result<TokenizeRequest> parse_tokenize_request(const nlohmann::ordered_json& body);
// The tokens of a /detokenize request.
Result<std::vector<int32_t>> parse_detokenize_request(const nlohmann::ordered_json& body,
                                                      size_t vocab_size);

}  // namespace hf2q
