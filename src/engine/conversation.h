#pragma once
// Turns of one conversation on one sequence. Each prompt is the whole conversation so far; of it,
// only what neither the sequence nor the engine's prefix tree holds is computed. There are resume
// points behind each prompt and each answer.
//
// The same bits as a fresh sequence would give: a row depends on its own sequence alone.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace hf2q {

struct ConversationPart;

class Conversation {
 public:
  // Conversations of other namespaces share nothing with it.
  explicit Conversation(Engine& engine, std::string name_space = {});
  Conversation(Conversation&&) = default;
  Conversation& operator=(Conversation&&) = default;

  // Begins with as much of `prompt`, and of options.begun behind it, as is held or in the tree,
  // reads the rest and answers (options.n_held is set here). Errors as check_prompt and generate();
  // what was read stays.
  Result<Generation> answer(std::span<const int32_t> prompt, GenerateOptions options);

  // Reads tokens behind those held, the first ones from the tree; engine.logits() are those behind
  // the last one.
  Status append(std::span<const int32_t> ids);
  // Errors as Sequence::truncate.
  Status truncate(uint32_t length);
  // A second conversation with the same tokens; their pages are shared.
  Conversation fork() const;
  void reset();

  std::span<const int32_t> ids() const { return ids_; }  // the tokens held
  std::span<const TokenKey> keys() const { return keys_; }
  const std::string& name_space() const { return name_space_; }
  Sequence& sequence() { return sequence_; }
  // Tokens of the last prompt, and of the answer begun behind it, that were not computed again.
  size_t n_reused() const { return n_reused_; }

 private:
  friend Status append_all(Engine& engine, std::span<const ConversationPart> parts);
  size_t begin_with(std::span<const TokenKey> keys);
  Status read_until(std::span<const int32_t> prompt, size_t end, const GenerateOptions& options);
  void hold_answer(std::span<const int32_t> prompt, std::vector<TokenKey> keys,
                   const Result<Generation>& generation);
  void hold(std::span<const int32_t> ids, std::span<const TokenKey> keys);

  Engine* engine_;
  std::string name_space_;
  Sequence sequence_;
  std::vector<int32_t> ids_;
  std::vector<TokenKey> keys_;  // of ids_
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
