#pragma once
// Turns of one conversation on one sequence. Each prompt is the whole conversation so far; of it,
// only what the sequence does not hold is computed.
//
// The same bits as a fresh sequence would give: a row depends on its own sequence alone.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace hf2q {

struct ConversationPart;

class Conversation {
 public:
  explicit Conversation(Engine& engine);
  Conversation(Conversation&&) = default;
  Conversation& operator=(Conversation&&) = default;

  // Keeps the longest common beginning of `prompt` and what is held, takes the rest back, reads
  // what is new and answers (options.n_held is set here). `cancelled` is asked before each batch of
  // the prompt. Errors as check_prompt and generate(); what was read stays.
  Result<Generation> answer(std::span<const int32_t> prompt, GenerateOptions options,
                            const std::function<bool()>& cancelled = {});

  // Reads tokens behind those held; engine.logits() are those behind the last one.
  Status append(std::span<const int32_t> ids);
  // Errors as Sequence::truncate.
  Status truncate(uint32_t length);
  // A second conversation with the same tokens; their pages are shared.
  Conversation fork() const;
  void reset();

  std::span<const int32_t> ids() const { return ids_; }  // the tokens held
  Sequence& sequence() { return sequence_; }
  // Tokens of the last prompt that were not computed again.
  size_t n_reused() const { return n_reused_; }

 private:
  friend Status append_all(Engine& engine, std::span<const ConversationPart> parts);
  size_t rewind(std::span<const int32_t> prompt);
  void set_ids(std::span<const int32_t> prompt, std::span<const int32_t> answer);

  Engine* engine_;
  Sequence sequence_;
  std::vector<int32_t> ids_;
  // As it was before the last token of the last prompt: the next prompt leaves the held tokens
  // there when the answer changes its form in the template (a thought is dropped), and a window may
  // have passed by then. Its tokens are a beginning of ids_.
  std::optional<Sequence> resume_;
  size_t n_reused_ = 0;
};

struct ConversationPart {
  Conversation* conversation = nullptr;
  std::span<const int32_t> ids;
};

// Reads the parts in one pass: row i of engine.logits() is what follows part i. kInvalidArgument:
// no part, more than Engine::max_outputs, a conversation twice, more tokens than a batch holds, and
// as check_prompt for each. On an error nothing was read.
Status append_all(Engine& engine, std::span<const ConversationPart> parts);

}  // namespace hf2q
