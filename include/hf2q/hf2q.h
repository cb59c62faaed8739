#pragma once
// hf2q as a library: load a GGUF file of Gemma 4, turn text into tokens and back, and let it write.
//
//   auto model = hf2q::v1::Model::load("model.gguf");
//   if (!model) return fail(model.error().message);
//   auto prompt = model->chat_tokens({{"user", "What is the capital of Norway?"}});
//   auto sequence = model->new_sequence();
//   auto answer = sequence.generate(*prompt, {.on_text = [](auto text) { ...; return true; }});
//
// Link `hf2q::hf2q` of the CMake package `hf2q`. This header needs the C++20 standard library only.
//
// Errors: whatever the world can get wrong returns a Result; its message names the thing, the
// expected and the found value. Nothing throws but std::bad_alloc. Reading value() of an error, or
// error() of a value, is undefined.
// Threads: a Model computes with threads of its own. Functions marked [any thread] may be called at
// the same time from several threads; of all others of a model and its sequences, one at a time.
// Lifetime: copies of a Model are the same model; it lives as long as a copy, sequence or decoder.
// Results: a token's logits are a function of the model and of the tokens before it alone. They do
// not change with batches, threads, other sequences, or with what was reused.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hf2q::v1 {

enum class ErrorKind {
  kInvalidArgument,  // an argument that cannot be meant, or does not fit the context
  kNotFound,         // a file, tensor or key that should be there and readable
  kCorrupt,          // a file that breaks its format, or numbers that are not finite
  kUnsupported,      // a good file that this library does not handle
  kOutOfMemory,      // of the system, or of the cache budget
  kIo,               // the operating system refused
};

struct Error {
  ErrorKind kind = ErrorKind::kInvalidArgument;
  std::string message;  // one line for people
};

// A value or an error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design
  explicit operator bool() const { return state_.index() == 0; }
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }
  T& operator*() { return value(); }
  T* operator->() { return &value(); }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
using Status = Result<Done>;  // an error or nothing

// "0.1.0". [any thread]
std::string_view version();

struct ModelOptions {
  uint32_t context_tokens = 0;  // most tokens of one sequence; 0: what the model was made for
  uint32_t sequences = 1;       // that the default cache budget has room for, and run() at once
  uint32_t batch_tokens = 512;  // most tokens computed at once; costs memory, changes no result
  size_t threads = 0;           // at most 1024; 0: one for each processor
  // Formats of cached K and V: f32 f16 bf16 q8_0 tq8 tq6 tq5 tq4 tq3 tq2 tq3.5 tq2.5. Fewer bits
  // take less memory and are less exact; tq* are TurboQuant's, for head sizes that are powers of
  // two.
  std::string cache_k = "f16";
  std::string cache_v = "tq8";
  uint64_t cache_bytes = 0;   // budget of the cache; 0: full contexts, at most half of free memory
  bool keep_mapping = false;  // read tables of rows from the mapped file instead of copying them
  // Bytes of weights so far and in all, while they are loaded, from the calling thread.
  std::function<void(uint64_t done, uint64_t total)> on_progress;
};

struct ModelInfo {
  std::string name;             // general.name of the file, may be empty
  uint32_t context_tokens = 0;  // most tokens of one sequence
  uint32_t trained_tokens = 0;  // what the model was made for
  uint32_t vocabulary = 0;      // token ids are 0 to vocabulary - 1
  uint32_t hidden = 0;          // length of a hidden state
  uint32_t layers = 0;
  uint64_t weight_bytes = 0;   // in memory
  uint64_t scratch_bytes = 0;  // in memory
  uint64_t cache_bytes = 0;    // budget, taken as it is needed
};

struct Message {
  std::string role;     // "system", "user" or "assistant"
  std::string content;  // UTF-8; markers like <|turn> in it stay text
};

struct ChatOptions {
  bool thinking = false;           // let the model think before it answers
  bool answer_follows = true;      // end with the beginning of the model's turn
  std::string chat_template = {};  // Jinja text; empty: the file's, else Gemma 4's
};

// How a token is chosen. What is not set comes from the file, else changes nothing.
struct Sampling {
  std::optional<float> temperature;        // 0: always the most likely token
  std::optional<int64_t> top_k;            // only the k most likely tokens; 0: all
  std::optional<float> top_p;              // 0 to 1: the fewest tokens that hold this share
  std::optional<float> min_p;              // 0 to 1: at least this fraction as likely as the best
  std::optional<float> repeat_penalty;     // 0.01 to 100; 1: none
  std::optional<float> presence_penalty;   // -2 to 2, for tokens of the answer, once each
  std::optional<float> frequency_penalty;  // -2 to 2, for tokens of the answer, each time
  uint64_t seed = 0;                       // same seed, same tokens
};

struct GenerateOptions {
  Sampling sampling = {};
  int64_t max_tokens = -1;             // of the answer; negative: up to the end of the context
  std::vector<std::string> stop = {};  // the text ends before any of these; at most 64
  bool ignore_end = false;             // go on behind the end of the turn
  // Text as soon as it is sure: whole UTF-8, no part of a stop string. False ends the answer.
  // Called on the calling thread; it may not call the model.
  std::function<bool(std::string_view text)> on_text = {};
  // Before each batch of the prompt (ModelOptions::batch_tokens), on the calling thread; it may not
  // call the model. False ends the reading: no answer, Finish::kCancelled, what was read is held.
  std::function<bool()> on_prompt = {};
};

enum class Finish { kStop, kLength, kCancelled };

struct Answer {
  std::vector<int32_t> tokens;  // with the one that ended the turn
  std::string text;             // control tokens left out; markers of thinking and tools stay
  Finish finish = Finish::kStop;
  size_t reused_tokens = 0;   // of the prompt that were not computed again
  double prompt_seconds = 0;  // until the prompt was read and the first token, if any, chosen
  double answer_seconds = 0;  // from the first token on
};

class Sequence;
class Decoder;
struct Part;

// A loaded file.
class Model {
 public:
  // Reads and checks the file; of several shards, `path` is the first. Every ErrorKind but kIo.
  static Result<Model> load(const std::string& path, const ModelOptions& options = {});

  ModelInfo info() const;  // [any thread]

  // Ids of a text. `bos`: with the beginning-of-sequence token first. `markers`: texts like <|turn>
  // become their tokens; leave it out for words that others wrote. [any thread]
  std::vector<int32_t> tokenize(std::string_view text, bool bos, bool markers) const;
  // Text of ids, always whole UTF-8; ids outside of the vocabulary have none. [any thread]
  std::string detokenize(std::span<const int32_t> ids) const;
  // Whether the model's turn ends with this token. [any thread]
  bool is_end(int32_t id) const;

  // A conversation as the text that the model reads. kInvalidArgument for a message that cannot be
  // rendered, kCorrupt or kUnsupported for a template, naming it. [any thread]
  Result<std::string> render_chat(std::span<const Message> messages,
                                  const ChatOptions& options = {}) const;
  // The same as ids, where markers in messages stay text: what to give to generate(). [any thread]
  Result<std::vector<int32_t>> chat_tokens(std::span<const Message> messages,
                                           const ChatOptions& options = {}) const;
  Result<std::vector<int32_t>> chat_tokens(std::initializer_list<Message> messages,
                                           const ChatOptions& options = {}) const;

  // Empty; takes no memory until it reads.
  Sequence new_sequence() const;
  // Every sequence reads its tokens, all in one pass: how several answers grow together. At most
  // ModelOptions::sequences parts of different sequences, at most batch_tokens tokens in all, at
  // least one each. On an error nothing was read.
  Status run(std::span<const Part> parts) const;

 private:
  friend class Sequence;
  friend class Decoder;
  struct State;
  explicit Model(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// Tokens that a model has read, with their cache. Movable; fork() copies.
class Sequence {
 public:
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;
  ~Sequence();

  std::span<const int32_t> tokens() const;  // those read; valid until the next change

  // Reads tokens behind those it holds. kInvalidArgument: none, an id outside of the vocabulary, or
  // more than the context; kOutOfMemory: the cache budget. What was read before an error stays.
  Status read(std::span<const int32_t> ids);
  // Scores of the next token [vocabulary], natural logarithms up to a constant. Empty before the
  // first read and after truncate() and generate(). Valid until the next change of this sequence.
  std::span<const float> logits() const;
  // Chooses the next token from logits(), which must not be empty; reads nothing. The penalties see
  // `prompt_tokens` of tokens() as the prompt and the rest as the answer, and the draw depends on
  // the seed and the length of the answer.
  Result<int32_t> sample(const Sampling& sampling, size_t prompt_tokens) const;

  // Answers `prompt`, which is everything from the first token on: what the sequence holds of it is
  // not computed again, what else it holds is taken back. Afterwards it holds the prompt and the
  // answer but for its last token. Errors as read(), and kInvalidArgument for a sampling value or
  // stop string that cannot be meant.
  Result<Answer> generate(std::span<const int32_t> prompt, const GenerateOptions& options = {});

  // Keeps the first `length` tokens. kInvalidArgument: fewer are held, or sliding windows have
  // passed there (never within the last 64 tokens; start a new sequence then).
  Status truncate(size_t length);
  // A second sequence with the same tokens, which share their memory until one goes on.
  // Its logits() are empty.
  Sequence fork() const;

 private:
  friend class Model;
  struct State;
  explicit Sequence(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What a sequence is to read in Model::run.
struct Part {
  Sequence* sequence = nullptr;
  std::span<const int32_t> tokens;
};

// Tokens to text one by one: the pieces, one after another, are detokenize() of all ids, and each
// is whole UTF-8. One thread at a time.
class Decoder {
 public:
  explicit Decoder(const Model& model);
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  ~Decoder();
  std::string push(int32_t id);
  std::string finish();  // what was held back; the decoder is then as new

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hf2q::v1
