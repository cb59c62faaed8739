#pragma once
// The tokens of an answer to content, reasoning and tool calls (chat/output_parser.h), no faster
// than its text is sure.
//
// Tokens come one by one, and beside them what may be shown of the text that they make together: it
// may lag behind, by the bytes of an unfinished character or the beginning of a stop string. A
// marker counts when its own text may be shown: one that a stop string cuts off never does.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "chat/output_parser.h"
#include "tokenizer/tokenizer.h"

namespace hf2q {

// The markers of a vocabulary. Looks at every token: for start-up.
MarkerIds output_markers(const Tokenizer& tokenizer);

class OutputReader {
 public:
  static constexpr size_t kAll = SIZE_MAX;

  // `tokenizer` has to outlive it; `in_thought` as in OutputParser.
  OutputReader(const Tokenizer& tokenizer, const MarkerIds& markers, bool in_thought)
      : decoder_(tokenizer, SpecialText::kHide),
        tokenizer_(tokenizer),
        markers_(markers),
        parser_(markers, in_thought) {}

  // The next token. Its text is what a StreamDecoder that hides special tokens makes of it.
  void push(int32_t id);
  // The next `n_bytes` of the text may be shown, whole characters; kAll: as far as it goes.
  std::vector<OutputEvent> show(size_t n_bytes);
  // The last `n_bytes`; the answer is over, and what has not been shown never will be.
  std::vector<OutputEvent> finish(size_t n_bytes);

 private:
  struct Piece {
    int32_t marker;  // or kNoMarker: plain text
    std::string text;
  };
  static constexpr int32_t kNoMarker = -1;

  void add(int32_t marker, std::string text);

  StreamDecoder decoder_;
  const Tokenizer& tokenizer_;
  MarkerIds markers_;
  OutputParser parser_;
  std::deque<Piece> pieces_;  // not yet shown
  size_t n_held_ = 0;         // bytes of them
  size_t n_sure_ = 0;         // of these, the first that may be shown: less than a marker's
};

}  // namespace hf2q
