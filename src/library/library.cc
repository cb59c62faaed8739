// The public face over the engine: types of hf2q::v1 on one side, of hf2q on the other.

#include <algorithm>

#include "base/check.h"
#include "engine/conversation.h"
#include "engine/prompt.h"
#include "hf2q/hf2q.h"
#include "sample/file_sampling.h"
#include "sample/sample.h"

namespace hf2q::v1 {
namespace {

ErrorKind kind_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ErrorKind::kInvalidArgument;
    case ErrorCode::kNotFound:
      return ErrorKind::kNotFound;
    case ErrorCode::kCorrupt:
      return ErrorKind::kCorrupt;
    case ErrorCode::kUnsupported:
      return ErrorKind::kUnsupported;
    case ErrorCode::kOutOfMemory:
      return ErrorKind::kOutOfMemory;
    case ErrorCode::kIo:
      return ErrorKind::kIo;
  }
  return ErrorKind::kCorrupt;
}

Error public_error(const hf2q::Error& error) {
  return {kind_of(error.code), error.message};
}

Status public_status(const hf2q::Status& status) {
  if (!status.ok()) return public_error(status.error());
  return Done{};
}

// From one of ours to a public one.
template <class T>
Result<T> public_result(hf2q::Result<T> result) {
  if (!result.ok()) return public_error(result.error());
  return std::move(result.value());
}

hf2q::Result<KvFormat> cache_format(std::string_view field, const std::string& name) {
  if (const std::optional<KvFormat> format = parse_kv_format(name)) return *format;
  std::string known;
  for (const KvFormatInfo& info : kKvFormats) known.append(" ").append(info.name);
  return error(ErrorCode::kInvalidArgument, "{}: one of{} expected, found \"{}\"", field, known,
               name);
}

hf2q::Result<EngineOptions> engine_options(const ModelOptions& options) {
  if (options.sequences == 0 || options.batch_tokens < options.sequences) {
    return error(ErrorCode::kInvalidArgument,
                 "sequences: 1 to {} expected (batch_tokens), found {}", options.batch_tokens,
                 options.sequences);
  }
  TRY(k, cache_format("cache_k", options.cache_k));
  TRY(v, cache_format("cache_v", options.cache_v));
  EngineOptions engine;
  engine.n_ctx = options.context_tokens;
  engine.n_sequences = options.sequences;
  engine.max_rows = options.batch_tokens;
  engine.max_outputs = options.sequences;
  engine.n_threads = options.threads;
  engine.kv_formats = {k, v, k, v};
  engine.kv_budget_bytes = options.cache_bytes;
  engine.mmap = options.keep_mapping;
  engine.on_progress = options.on_progress;
  return engine;
}

hf2q::Result<SamplingParams> sampling_params(const Sampling& sampling, const GgufFile& file) {
  TRY(defaults, read_sampling(file));
  SamplingParams params = with_given(std::move(defaults), sampling);
  params.seed = sampling.seed;
  return params;
}

Finish finish_of(std::string_view reason) {
  if (reason == "length") return Finish::kLength;
  return reason == "stop" ? Finish::kStop : Finish::kCancelled;
}

nlohmann::ordered_json json_of(std::span<const Message> messages) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Message& message : messages) {
    json.push_back({{"role", message.role}, {"content", message.content}});
  }
  return json;
}

hf2q::ChatOptions chat_options(const ChatOptions& options) {
  hf2q::ChatOptions ours;
  ours.add_generation_prompt = options.answer_follows;
  ours.enable_thinking = options.thinking;
  return ours;
}

}  // namespace

struct Model::State {
  std::unique_ptr<Engine> engine;
  ChatTemplate chat_template;

  hf2q::Result<ChatTemplate> template_for(const ChatOptions& options) const {
    if (options.chat_template.empty()) return chat_template;
    return ChatTemplate::parse(options.chat_template);
  }
};

struct Sequence::State {
  std::shared_ptr<Model::State> model;
  Conversation conversation;
  std::vector<float> logits;

  // Keeps a copy of the engine's logits: another sequence may run next.
  void take_logits(std::span<const float> row) { logits.assign(row.begin(), row.end()); }
};

struct Decoder::State {
  std::shared_ptr<Model::State> model;
  StreamDecoder decoder;
};

std::string_view version() {
  return HF2Q_VERSION;
}

Model::Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<Model> Model::load(const std::string& path, const ModelOptions& options) {
  const auto load_state = [&]() -> hf2q::Result<std::shared_ptr<State>> {
    TRY(ours, engine_options(options));
    TRY(engine, Engine::load(path, ours));
    TRY(chat_template, chat_template_of(*engine));
    return std::make_shared<State>(State{std::move(engine), std::move(chat_template)});
  };
  hf2q::Result<std::shared_ptr<State>> state = load_state();
  if (!state.ok()) return public_error(state.error());
  return Model(std::move(state.value()));
}

ModelInfo Model::info() const {
  const Engine& engine = *state_->engine;
  ModelInfo info;
  if (const Value* name = engine.file().find("general.name"))
    info.name = name->as_string().value_or("");
  info.context_tokens = engine.n_ctx();
  info.trained_tokens = engine.config().n_ctx_train;
  info.vocabulary = engine.config().vocab_size;
  info.hidden = engine.config().hidden_dim;
  info.layers = engine.config().n_layers;
  info.weight_bytes = engine.memory().weights;
  info.scratch_bytes = engine.memory().scratch;
  info.cache_bytes = engine.memory().kv_budget;
  return info;
}

std::vector<int32_t> Model::tokenize(std::string_view text, bool bos, bool markers) const {
  return state_->engine->tokenizer().encode(text, {.add_bos = bos, .parse_special = markers});
}

std::string Model::detokenize(std::span<const int32_t> ids) const {
  return state_->engine->tokenizer().decode(ids);
}

bool Model::is_end(int32_t id) const {
  return state_->engine->tokenizer().is_stop(id);
}

Result<std::string> Model::render_chat(std::span<const Message> messages,
                                       const ChatOptions& options) const {
  const auto jinja = state_->template_for(options);
  if (!jinja.ok()) return public_error(jinja.error());
  return public_result(jinja.value().render(json_of(messages), nullptr, chat_options(options)));
}

Result<std::vector<int32_t>> Model::chat_tokens(std::span<const Message> messages,
                                                const ChatOptions& options) const {
  const auto jinja = state_->template_for(options);
  if (!jinja.ok()) return public_error(jinja.error());
  return public_result(chat_prompt(state_->engine->tokenizer(), jinja.value(), json_of(messages),
                                   nullptr, chat_options(options)));
}

Result<std::vector<int32_t>> Model::chat_tokens(std::initializer_list<Message> messages,
                                                const ChatOptions& options) const {
  return chat_tokens(std::span(messages.begin(), messages.size()), options);
}

Sequence Model::new_sequence() const {
  return Sequence(std::make_unique<Sequence::State>(
      Sequence::State{state_, Conversation(*state_->engine), {}}));
}

Status Model::run(std::span<const Part> parts) const {
  std::vector<ConversationPart> ours;
  for (const Part& part : parts) {
    if (part.sequence == nullptr || part.sequence->state_->model != state_) {
      return Error{ErrorKind::kInvalidArgument, "run: sequences of this model expected"};
    }
    ours.push_back({&part.sequence->state_->conversation, part.tokens});
  }
  Engine& engine = *state_->engine;
  const hf2q::Status status = append_all(engine, ours);
  if (!status.ok()) return public_error(status.error());
  const size_t n_vocab = engine.config().vocab_size;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].sequence->state_->take_logits(engine.logits().subspan(i * n_vocab, n_vocab));
  }
  return Done{};
}

Sequence::Sequence(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

std::span<const int32_t> Sequence::tokens() const {
  return state_->conversation.ids();
}

Status Sequence::read(std::span<const int32_t> ids) {
  state_->logits.clear();
  const hf2q::Status status = state_->conversation.append(ids);
  if (status.ok()) state_->take_logits(state_->model->engine->logits());
  return public_status(status);
}

std::span<const float> Sequence::logits() const {
  return state_->logits;
}

Result<int32_t> Sequence::sample(const Sampling& sampling, size_t prompt_tokens) const {
  const std::span<const int32_t> ids = tokens();
  if (state_->logits.empty() || prompt_tokens > ids.size()) {
    return Error{ErrorKind::kInvalidArgument,
                 "sample: logits and a prompt within the tokens held expected"};
  }
  const Engine& engine = *state_->model->engine;
  const auto choose = [&]() -> hf2q::Result<int32_t> {
    TRY(given, sampling_params(sampling, engine.file()));
    TRY(params, answer_params(engine, std::move(given)));
    SampleScratch scratch;
    return hf2q::sample(
        {state_->logits, ids.first(prompt_tokens), ids.subspan(prompt_tokens), {}, 0}, params,
        scratch);
  };
  return public_result(choose());
}

Result<Answer> Sequence::generate(std::span<const int32_t> prompt, const GenerateOptions& options) {
  state_->logits.clear();
  hf2q::Result<SamplingParams> params =
      sampling_params(options.sampling, state_->model->engine->file());
  if (!params.ok()) return public_error(params.error());
  hf2q::GenerateOptions ours;
  ours.sampling = std::move(params.value());
  ours.n_predict = options.max_tokens;
  ours.stops = options.stop;
  ours.ignore_eos = options.ignore_end;
  ours.on_text = options.on_text;
  if (options.on_prompt) ours.cancelled = [&] { return !options.on_prompt(); };
  const std::vector<int32_t> copy(prompt.begin(), prompt.end());  // perhaps a part of tokens()
  hf2q::Result<Generation> made = state_->conversation.answer(copy, ours);
  if (!made.ok()) return public_error(made.error());
  Generation& generation = made.value();
  Answer answer;
  answer.tokens = std::move(generation.token_ids);
  answer.text = std::move(generation.text);
  answer.finish = finish_of(generation.finish_reason);
  answer.reused_tokens = state_->conversation.n_reused();
  answer.prompt_seconds = generation.prompt_seconds;
  answer.answer_seconds = generation.answer_seconds;
  return answer;
}

Status Sequence::truncate(size_t length) {
  state_->logits.clear();
  const size_t most = state_->model->engine->n_ctx();
  return public_status(
      state_->conversation.truncate(static_cast<uint32_t>(std::min(length, most + 1))));
}

Sequence Sequence::fork() const {
  return Sequence(std::make_unique<State>(State{state_->model, state_->conversation.fork(), {}}));
}

Decoder::Decoder(const Model& model)
    : state_(std::make_unique<State>(
          State{model.state_, StreamDecoder(model.state_->engine->tokenizer())})) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

std::string Decoder::push(int32_t id) {
  return state_->decoder.push(id);
}

std::string Decoder::finish() {
  return state_->decoder.finish();
}

}  // namespace hf2q::v1
