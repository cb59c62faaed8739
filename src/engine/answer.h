#pragma once
// One answer as it is written: logits in, tokens and text out. What it says does not depend on when
// it is asked, so an answer may pause, and its sequence be read again, at any token.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/answer_mask.h"
#include "engine/engine.h"
#include "engine/text_stream.h"
#include "sample/params.h"
#include "sample/sample.h"

namespace hf2q {

struct AnswerOptions {
  SamplingParams sampling;  // as answer_params() returns them
  size_t limit = 0;         // most tokens
  bool ignore_eos = false;
  std::shared_ptr<const Grammar> grammar;    // or none
  SpecialText special = SpecialText::kHide;  // control tokens in the text
  uint32_t choice = 0;                       // which of several answers to one prompt
};

class Answer {
 public:
  // The engine outlives it.
  Answer(const Engine& engine, AnswerOptions options, StopMatcher stops);

  // Chooses the next token, which ids() ends with then. CHECKs goes_on(). Errors as sample().
  Result<int32_t> choose(std::span<const float> logits, std::span<const int32_t> prompt,
                         SampleScratch& scratch);
  // Takes a token that was chosen before in place of choose(): false where the grammar does not let
  // it come. CHECKs goes_on().
  bool take(int32_t token);
  // Text that the token chosen last makes sure: whole UTF-8, no part of a stop string. To be called
  // once for each token that did not end the answer.
  std::string show();
  // The text that was held back; the answer is over.
  std::string finish() { return stream_.finish(); }

  bool goes_on() const { return finish_reason_.empty(); }
  std::string_view finish_reason() const { return finish_reason_; }  // "stop" or "length"
  bool stopped_by_text() const { return stream_.stopped(); }
  std::span<const int32_t> ids() const { return ids_; }  // the stop token included

 private:
  const Tokenizer& tokenizer_;
  AnswerOptions options_;
  TextStream stream_;
  AnswerMask mask_;
  std::vector<int32_t> ids_;
  std::string_view finish_reason_;
};

}  // namespace hf2q
