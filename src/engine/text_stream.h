#pragma once
// Turns the tokens of an answer into text that may be shown, and knows when the text is over.

#include <cstdint>
#include <string>
#include <utility>

#include "sample/stop.h"
#include "tokenizer/tokenizer.h"

namespace hf2q {

class TextStream {
 public:
  // `tokenizer` has to outlive it.
  TextStream(const Tokenizer& tokenizer, StopMatcher stops,
             SpecialText special = SpecialText::kHide)
      : decoder_(tokenizer, special), stops_(std::move(stops)) {}

  // What is sure now: whole UTF-8, no part of a stop string.
  std::string push(int32_t id) { return stops_.feed(decoder_.push(id)); }
  // What was held back; the answer is over.
  std::string finish() {
    std::string text = stops_.feed(decoder_.finish());
    return text += stops_.flush();
  }
  // A stop string is complete.
  bool stopped() const { return stops_.stopped(); }

 private:
  StreamDecoder decoder_;
  StopMatcher stops_;
};

}  // namespace hf2q
