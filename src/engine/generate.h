#pragma once
// One answer of one sequence: prompt in, tokens and text out as they come.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "grammar/grammar.h"
#include "sample/params.h"

namespace hf2q {

// Rows in place of the embeddings from `position` of the prompt on.
struct SoftRows {
  uint32_t position = 0;
  uint32_t n_rows = 0;
  std::vector<float> values;  // [n_rows, hidden]; what stands behind them is ignored
  bool block = false;         // they see each other as an image
  Digest digest = {};         // what a prefix tree knows them by; zeros: their values
};

struct GenerateOptions {
  SamplingParams sampling;
  int64_t n_predict = -1;  // negative: up to the end of the context
  std::vector<std::string> stops;
  // The answer goes on behind a token that ends the turn; with a grammar only while its text can.
  bool ignore_eos = false;
  std::shared_ptr<const Grammar> grammar;    // what the answer has to follow; none: anything
  std::vector<SoftRows> soft;                // in the whole prompt
  SpecialText special = SpecialText::kHide;  // control tokens in the text
  // First tokens of the answer, chosen by an earlier run with this sampling and grammar: the answer
  // begins with them and goes on as that run would have. None may be outside of the vocabulary.
  std::vector<int32_t> begun;
  size_t n_held = 0;  // first tokens of prompt and `begun` that the sequence holds, fewer than all
  // Asked before each batch of the prompt; true: the rest is not read, and nothing is answered.
  std::function<bool()> cancelled;
  // Text as soon as it is sure: whole UTF-8, no part of a stop string. False ends the answer; it is
  // not called again then.
  std::function<bool(std::string_view text)> on_text;
  // Every token before its text, but not the one that ends the turn. False ends the answer.
  std::function<bool(int32_t id)> on_token;
};

struct Generation {
  std::vector<int32_t> token_ids;  // the stop token included
  size_t n_begun = 0;              // of them, those that came with the options
  std::string text;                // what on_text got
  std::string_view finish_reason;  // "stop", "length" or "cancelled"
  double prompt_seconds = 0;       // until the prompt was read and the first token, if any, chosen
  double answer_seconds = 0;       // from the first token on
};

// Checks of the soft rows against a prompt of n_prompt tokens, read in batches of max_rows:
// kInvalidArgument naming the range, or the block that no batch can hold.
Status check_soft_rows(std::span<const SoftRows> soft, size_t n_prompt, size_t hidden_dim,
                       size_t max_rows);

// What a prefix tree knows the prompt by. `soft` is as check_soft_rows wants it.
std::vector<TokenKey> prompt_keys(std::span<const int32_t> ids, std::span<const SoftRows> soft = {},
                                  size_t hidden_dim = 0);

// For who looks at more of a prompt than its last row, or has a part of it already.
struct PromptHooks {
  size_t n_held = 0;       // first tokens that are not read: the sequence ends with them
  bool every_row = false;  // every row wants what the last one does
  const Observer* observer = nullptr;  // of each batch
  std::function<void()> after_batch;   // engine.logits() or engine.hidden() are those of the batch
  std::function<bool()> cancelled;     // asked before each batch; true: the rest is not read
};

// kCorrupt, naming the first of the values that is NaN or infinite.
Status check_finite(std::string_view what, std::span<const float> values);

// kInvalidArgument: an empty prompt, an id outside of the vocabulary, more than `room` tokens (with
// both numbers).
Status check_prompt(const Engine& engine, size_t room, std::span<const int32_t> ids);

// Reads `ids` behind what the sequence holds (but for the first hooks.n_held), in batches of the
// engine's size; the last row's logits are in engine.logits() afterwards. Positions of soft rows
// count from the first of `ids`. Errors as check_prompt for what is left of the context,
// check_soft_rows and Engine::run. With PromptKv::kExact an empty sequence's prompt attends to its
// own rows in F32.
Status read_prompt(Engine& engine, Sequence& sequence, std::span<const int32_t> ids, Wants wants,
                   std::span<const SoftRows> soft = {}, const PromptHooks& hooks = {});

// Checked as validate() does, and with the tokens that the model never writes.
Result<SamplingParams> answer_params(const Engine& engine, SamplingParams params);

// Answers `prompt`, of which (and of options.begun behind it) the sequence holds the first
// options.n_held tokens and no others (no part of a block of soft rows). It holds a beginning of
// prompt and answer afterwards, also on an error: the last token of an answer is not read.
Result<Generation> generate(Engine& engine, Sequence& sequence, std::span<const int32_t> prompt,
                            const GenerateOptions& options);

}  // namespace hf2q
