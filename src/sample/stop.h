#pragma once
// Stop strings in streamed text. Text goes in piece by piece and comes out as soon as it cannot be
// part of a stop string any more; of a stop string itself nothing ever comes out.
//
// The text ends before the stop string that is complete first; of several that complete at the same
// byte, before the longest. So the outcome does not depend on how the text is cut into pieces. When
// pieces and stop strings are whole UTF-8, so is what comes out.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hf2q {

class StopMatcher {
 public:
  static constexpr size_t kMaxStops = 64;
  static constexpr size_t kMaxStopBytes = 4096;

  // None at all is fine: then all text comes straight out. Fails with kInvalidArgument on an empty
  // string, one above kMaxStopBytes, or more than kMaxStops of them.
  static Result<StopMatcher> create(std::vector<std::string> stops);

  // Adds `piece` to the text; returns the bytes that are safe now. Once a stop string is complete,
  // all later text is dropped.
  std::string feed(std::string_view piece);
  // The text is over: returns what was held back (nothing after a stop).
  std::string flush();

  bool stopped() const { return matched_.has_value(); }
  // The index of the stop string that ended the text.
  std::optional<size_t> matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // [i]: longest proper prefix of text that ends text[0..i]
    size_t matched = 0;            // longest prefix of text that ends the text so far
  };

  explicit StopMatcher(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {}
  static void advance(Pattern& pattern, char byte);
  size_t add(char byte);

  std::vector<Pattern> patterns_;
  std::string held_;  // the end of the text that may begin a stop string
  std::optional<size_t> matched_;
};

}  // namespace hf2q
