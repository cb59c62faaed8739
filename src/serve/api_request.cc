#include "serve/api_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <utility>

#include "base/json_tree.h"
#include "base/quote.h"
#include "chat/normalize.h"
#include "sample/stop.h"
#include "serve/api_fields.h"

namespace hf2q {
namespace {

using nlohmann::ordered_json;

template <class... Args>
Error refused(fmt::format_string<Args...> text, Args&&... args) {
  return error(ErrorCode::kInvalidArgument, text, std::forward<Args>(args)...);
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// ---- sampling ----

// Any 64-bit integer; a negative one stands for itself modulo 2^64.
Result<uint64_t> read_seed(Fields& fields, const RequestDefaults& defaults) {
  const ordered_json* given = fields.find("seed");
  if (given == nullptr) return defaults.seed ? *defaults.seed : random_seed();
  if (given->is_number_unsigned()) return given->get<uint64_t>();
  int64_t seed = 0;
  fields.read("seed", seed, INT64_MIN, INT64_MAX);
  TRY_OK(fields.status());
  return static_cast<uint64_t>(seed);
}

Result<std::vector<LogitBias>> read_logit_bias(const Fields& fields, size_t vocab_size) {
  std::vector<LogitBias> biases;
  const ordered_json* object = fields.find("logit_bias");
  if (object == nullptr) return biases;
  if (!object->is_object()) {
    return refused("logit_bias: an object expected, found {}", describe(*object));
  }
  for (const auto& [key, value] : object->items()) {
    int32_t token = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (failure != std::errc() || end != key.data() + key.size() || token < 0 ||
        static_cast<size_t>(token) >= vocab_size) {
      return refused("logit_bias: token ids from 0 to {} expected, found {}", vocab_size - 1,
                     quote(key));
    }
    if (!value.is_number() || std::abs(value.get<double>()) > 100) {
      return refused("logit_bias: numbers from -100 to 100 expected, found {}", describe(value));
    }
    biases.push_back({token, value.get<float>()});
  }
  return biases;
}

Result<SamplingParams> read_sampling_fields(Fields& fields, const RequestDefaults& defaults) {
  SamplingParams params = defaults.sampling;
  fields.read("temperature", params.temperature);
  fields.read("top_k", params.top_k, INT64_MIN, INT64_MAX);
  fields.read("top_p", params.top_p);
  fields.read("min_p", params.min_p);
  fields.read("repeat_penalty", params.repeat_penalty);
  fields.read("repetition_penalty", params.repeat_penalty);
  fields.read("presence_penalty", params.presence_penalty);
  fields.read("frequency_penalty", params.frequency_penalty);
  TRY_OK(fields.status());
  TRY(seed, read_seed(fields, defaults));
  params.seed = seed;
  TRY(biases, read_logit_bias(fields, defaults.vocab_size));
  params.logit_bias = std::move(biases);
  return validate(std::move(params), defaults.vocab_size);
}

// ---- one field each ----

Result<std::vector<std::string>> read_stops(const Fields& fields) {
  std::vector<std::string> stops;
  const ordered_json* stop = fields.find("stop");
  if (stop == nullptr) return stops;
  if (stop->is_string()) {
    stops.push_back(stop->get<std::string>());
  } else if (stop->is_array()) {
    for (const ordered_json& one : *stop) {
      if (!one.is_string()) return refused("stop: strings expected, found {}", describe(one));
      stops.push_back(one.get<std::string>());
    }
  } else {
    return refused("stop: a string or an array of strings expected, found {}", describe(*stop));
  }
  TRY_OK(StopMatcher::create(stops));
  return stops;
}

Result<OutputFormat> read_format(Fields& fields) {
  OutputFormat format;
  fields.read("grammar", format.grammar);
  ordered_json wanted;
  fields.read_structured("response_format", wanted, "an object");
  TRY_OK(fields.status());
  if (!wanted.is_object()) return format;
  Fields inner(wanted, "response_format");
  std::string type;
  inner.read_one_of("type", type, {"text", "json_object", "json_schema"});
  if (type.empty()) inner.refuse("type", "one of text, json_object, json_schema");
  if (type == "json_object") format.schema = ordered_json{{"type", "object"}};
  ordered_json named;
  inner.read_structured("json_schema", named, "an object");
  TRY_OK(inner.status());
  if (type == "json_schema") {
    if (!named.is_object()) {
      return refused("response_format.json_schema: an object expected, found none");
    }
    const auto schema = named.find("schema");
    if (schema == named.end() || !(schema->is_object() || schema->is_boolean())) {
      return refused("response_format.json_schema.schema: an object expected, found {}",
                     schema == named.end() ? "none" : describe(*schema));
    }
    format.schema = *schema;
  }
  if (format.schema && !format.grammar.empty()) {
    return refused("grammar: nothing expected beside response_format, found a grammar");
  }
  return format;
}

Status read_stream_options(Fields& fields, AnswerRequest& answer) {
  ordered_json options;
  fields.read_structured("stream_options", options, "an object");
  TRY_OK(fields.status());
  if (!options.is_object()) return Ok{};
  Fields inner(options, "stream_options");
  inner.read("include_usage", answer.include_usage);
  return inner.status();
}

// Negative: up to the end of the context, as nothing given is.
void read_limit(Fields& fields, int64_t& max_tokens) {
  fields.read("max_tokens", max_tokens, -1, INT64_MAX);
  fields.read("max_completion_tokens", max_tokens, -1, INT64_MAX);
}

Result<AnswerRequest> read_answer(Fields& fields, const RequestDefaults& defaults) {
  AnswerRequest answer;
  std::string unused;
  fields.read("model", unused);
  TRY(sampling, read_sampling_fields(fields, defaults));
  answer.sampling = std::move(sampling);
  read_limit(fields, answer.max_tokens);
  int64_t n = 1;
  fields.read("n", n, 1, kMaxAnswers);
  answer.n_answers = static_cast<uint32_t>(n);
  fields.read("ignore_eos", answer.ignore_eos);
  fields.read("stream", answer.stream);
  fields.read("return_progress", answer.progress);
  fields.read("cache_salt", answer.cache_salt);
  fields.read("cache_prompt", answer.use_cache);
  TRY_OK(fields.status());
  TRY(stops, read_stops(fields));
  answer.stops = std::move(stops);
  TRY_OK(read_stream_options(fields, answer));
  TRY(format, read_format(fields));
  answer.format = std::move(format);
  return answer;
}

// ---- conversations ----

// Parts that a text model cannot read.
Status check_parts(size_t message, const ordered_json& content) {
  if (!content.is_array()) return Ok{};
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& part = content[i];
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string() || *type == "text") continue;
    const std::string& kind = type->get_ref<const std::string&>();
    const std::string place = fmt::format("messages[{}].content[{}]", message, i);
    if (kind == "refusal") continue;
    if (kind.find("image") != std::string::npos) {
      return refused("{}: image input is not supported", place);
    }
    if (kind.find("audio") != std::string::npos) {
      return refused("{}: audio input is not supported", place);
    }
    return refused("{}.type: text expected, found {}", place, quote(kind));
  }
  return Ok{};
}

Status check_messages(const ordered_json& messages) {
  static constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  TRY_OK(normalized_messages(messages));
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i]["role"].get_ref<const std::string&>();
    if (std::ranges::find(kRoles, role) == std::end(kRoles)) {
      return refused("messages[{}].role: one of {} expected, found {}", i, fmt::join(kRoles, ", "),
                     quote(role));
    }
    const auto content = messages[i].find("content");
    if (content != messages[i].end()) TRY_OK(check_parts(i, *content));
  }
  return Ok{};
}

bool has_tool(const ordered_json& tools, const std::string& name) {
  return tools.is_array() && std::ranges::any_of(tools, [&](const ordered_json& tool) {
           const ordered_json& function = tool.contains("function") ? tool["function"] : tool;
           return function["name"] == name;
         });
}

Result<ToolChoice> read_named_choice(const ordered_json& choice, const ordered_json& tools) {
  const auto function = choice.find("function");
  const auto name =
      function == choice.end() || !function->is_object() ? choice.end() : function->find("name");
  if (function == choice.end() || !function->is_object() || name == function->end() ||
      !name->is_string()) {
    return refused("tool_choice.function.name: a string expected, found none");
  }
  const std::string& text = name->get_ref<const std::string&>();
  if (!has_tool(tools, text)) {
    return refused("tool_choice.function.name: the name of a tool expected, found {}", quote(text));
  }
  return ToolChoice{ToolChoice::Kind::kNamed, text};
}

Result<ToolChoice> read_tool_choice(const Fields& fields, const ordered_json& tools) {
  using Kind = ToolChoice::Kind;
  const ordered_json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return ToolChoice{};
  if (*choice == "none") return ToolChoice{Kind::kNone, {}};
  if (*choice == "required") {
    if (!tools.is_array()) return refused("tool_choice: tools expected beside it, found none");
    return ToolChoice{Kind::kRequired, {}};
  }
  if (choice->is_object()) return read_named_choice(*choice, tools);
  return refused("tool_choice: one of auto, none, required or an object expected, found {}",
                 describe(*choice));
}

// reasoning_effort, then chat_template_kwargs, which win.
Status read_chat_options(Fields& fields, ChatOptions& options) {
  std::string effort;
  fields.read_one_of("reasoning_effort", effort,
                     {"none", "minimal", "low", "medium", "high", "xhigh"});
  if (!effort.empty()) options.enable_thinking = effort != "none";
  fields.read_structured("chat_template_kwargs", options.variables, "an object");
  fields.read("add_generation_prompt", options.add_generation_prompt);
  TRY_OK(fields.status());
  if (!options.variables.is_object()) return Ok{};
  TRY_OK(check_nesting("chat_template_kwargs", options.variables));
  Fields inner(options.variables, "chat_template_kwargs");
  inner.read("enable_thinking", options.enable_thinking);
  return inner.status();
}

// ---- prompts ----

Result<std::vector<int32_t>> read_ids(std::string_view place, const ordered_json& array,
                                      size_t vocab_size) {
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const ordered_json& value : array) {
    const bool whole = value.is_number_integer();
    if (!whole || value.get<int64_t>() < 0 || value.get<uint64_t>() >= vocab_size) {
      return refused("{}: token ids from 0 to {} expected, found {}", place, vocab_size - 1,
                     describe(value));
    }
    ids.push_back(value.get<int32_t>());
  }
  return ids;
}

// A text or ids.
Result<PromptInput> read_prompt_input(const std::string& place, const ordered_json& value,
                                      size_t vocab_size) {
  if (value.is_string()) {
    if (value.get_ref<const std::string&>().empty()) {
      return refused("{}: at least one character expected, found none", place);
    }
    return PromptInput(value.get<std::string>());
  }
  if (!value.is_array()) {
    return refused("{}: a string or token ids expected, found {}", place, describe(value));
  }
  if (value.empty()) return refused("{}: at least one token expected, found none", place);
  TRY(ids, read_ids(place, value, vocab_size));
  return PromptInput(std::move(ids));
}

// A string, strings, ids, or lists of ids.
Result<std::vector<PromptInput>> read_prompt_inputs(const Fields& fields, const char* name,
                                                    size_t vocab_size) {
  std::vector<PromptInput> inputs;
  const ordered_json* value = fields.find(name);
  if (value == nullptr) return refused("{}: a string or an array expected, found none", name);
  const bool many = value->is_array() && !value->empty() && !value->front().is_number();
  if (!many) {
    TRY(input, read_prompt_input(name, *value, vocab_size));
    inputs.push_back(std::move(input));
    return inputs;
  }
  if (value->size() > kMaxPrompts) {
    return refused("{}: at most {} entries expected, found {}", name, kMaxPrompts, value->size());
  }
  for (size_t i = 0; i < value->size(); ++i) {
    TRY(input, read_prompt_input(fmt::format("{}[{}]", name, i), (*value)[i], vocab_size));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace

Result<ordered_json> parse_body(std::string_view body) {
  const Status fits = check_json_size(body, "body");
  if (!fits.ok()) return refused("{}", fits.error().message);
  ordered_json root = ordered_json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return refused("body: JSON in UTF-8 expected, found other bytes");
  if (!root.is_object()) return refused("body: a JSON object expected, found {}", describe(root));
  return root;
}

Result<ChatRequest> parse_conversation(const ordered_json& body, const RequestDefaults& defaults) {
  ChatRequest request;
  request.options.enable_thinking = defaults.enable_thinking;
  Fields fields(body);
  fields.read_structured("messages", request.messages, "an array");
  fields.read_structured("tools", request.tools, "an array");
  fields.read("parallel_tool_calls", request.parallel_tool_calls);
  TRY_OK(fields.status());
  TRY_OK(check_messages(request.messages));
  TRY_OK(normalized_tools(request.tools));
  if (request.tools.empty()) request.tools = nullptr;
  TRY(choice, read_tool_choice(fields, request.tools));
  request.tool_choice = std::move(choice);
  if (request.tool_choice.kind == ToolChoice::Kind::kNone) request.tools = nullptr;
  TRY_OK(read_chat_options(fields, request.options));
  return request;
}

Result<ChatRequest> parse_chat_request(const ordered_json& body, const RequestDefaults& defaults) {
  Fields fields(body);
  TRY(request, parse_conversation(body, defaults));
  TRY(answer, read_answer(fields, defaults));
  request.answer = std::move(answer);
  bool wanted = false;
  std::optional<int64_t> n_top;
  fields.read("logprobs", wanted);
  fields.read("top_logprobs", n_top, int64_t{0}, int64_t{kMaxTopLogProbs});
  TRY_OK(fields.status());
  if (n_top && !wanted) return refused("top_logprobs: logprobs true expected beside it");
  if (wanted) request.answer.n_top_log_probs = static_cast<uint32_t>(n_top.value_or(0));
  return request;
}

Result<CompletionRequest> parse_completion_request(const ordered_json& body,
                                                   const RequestDefaults& defaults) {
  CompletionRequest request;
  Fields fields(body);
  TRY(prompts, read_prompt_inputs(fields, "prompt", defaults.vocab_size));
  request.prompts = std::move(prompts);
  TRY(answer, read_answer(fields, defaults));
  request.answer = std::move(answer);
  fields.read("echo", request.echo);
  std::optional<int64_t> n_top;
  fields.read("logprobs", n_top, int64_t{0}, int64_t{kMaxTopLogProbs});
  int64_t best_of = request.answer.n_answers;
  fields.read("best_of", best_of, 1, kMaxAnswers);
  TRY_OK(fields.status());
  if (n_top) request.answer.n_top_log_probs = static_cast<uint32_t>(*n_top);
  if (fields.find("suffix") != nullptr && *fields.find("suffix") != "") {
    return refused("suffix: text behind the answer is not supported");
  }
  if (best_of != request.answer.n_answers) {
    return refused("best_of: as many as n expected, found {}", best_of);
  }
  if (request.echo && n_top) {
    return refused("echo: log-probabilities of a prompt are not supported");
  }
  return request;
}

Result<EmbeddingRequest> parse_embedding_request(const ordered_json& body,
                                                 const RequestDefaults& defaults) {
  EmbeddingRequest request;
  Fields fields(body);
  TRY(inputs, read_prompt_inputs(fields, "input", defaults.vocab_size));
  request.inputs = std::move(inputs);
  std::string format;
  std::string pooling;
  std::string unused;
  fields.read("model", unused);
  fields.read("cache_salt", request.cache_salt);
  fields.read_one_of("encoding_format", format, {"float", "base64"});
  request.base64 = format == "base64";
  int64_t dimensions = defaults.hidden_dim;
  fields.read("dimensions", dimensions, INT64_MIN, INT64_MAX);
  if (dimensions != defaults.hidden_dim) {
    fields.refuse("dimensions", fmt::format("{}", defaults.hidden_dim));
  }
  fields.read_one_of("pooling", pooling, {"last"});
  TRY_OK(fields.status());
  return request;
}

Result<TokenizeRequest> parse_tokenize_request(const ordered_json& body) {
  TokenizeRequest request;
  Fields fields(body);
  fields.read("content", request.content);
  if (fields.find("content") == nullptr) fields.refuse("content", "a string");
  fields.read("add_special", request.add_special);
  fields.read("parse_special", request.parse_special);
  fields.read("with_pieces", request.with_pieces);
  TRY_OK(fields.status());
  return request;
}

Result<std::vector<int32_t>> parse_detokenize_request(const ordered_json& body, size_t vocab_size) {
  Fields fields(body);
  ordered_json tokens;
  fields.read_structured("tokens", tokens, "an array");
  if (!tokens.is_array()) fields.refuse("tokens", "an array");
  TRY_OK(fields.status());
  return read_ids("tokens", tokens, vocab_size);
}

}  // namespace hf2q
