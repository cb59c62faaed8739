#include "sample/stop.h"

#include <algorithm>
#include <utility>

namespace hf2q {
namespace {

// The failure function of Knuth, Morris and Pratt.
std::vector<size_t> fallbacks(std::string_view text) {
  std::vector<size_t> fallback(text.size(), 0);
  for (size_t i = 1; i < text.size(); ++i) {
    size_t length = fallback[i - 1];
    while (length > 0 && text[length] != text[i]) length = fallback[length - 1];
    fallback[i] = text[length] == text[i] ? length + 1 : 0;
  }
  return fallback;
}

}  // namespace

Result<StopMatcher> StopMatcher::create(std::vector<std::string> stops) {
  if (stops.size() > kMaxStops) {
    return error(ErrorCode::kInvalidArgument, "stop: at most {} strings expected, found {}",
                 kMaxStops, stops.size());
  }
  std::vector<Pattern> patterns;
  for (std::string& text : stops) {
    if (text.empty() || text.size() > kMaxStopBytes) {
      return error(ErrorCode::kInvalidArgument, "stop: strings of 1 to {} bytes expected, found {}",
                   kMaxStopBytes, text.size());
    }
    std::vector<size_t> fallback = fallbacks(text);
    patterns.push_back({std::move(text), std::move(fallback)});
  }
  return StopMatcher(std::move(patterns));
}

void StopMatcher::advance(Pattern& pattern, char byte) {
  size_t& length = pattern.matched;
  while (length > 0 && pattern.text[length] != byte) length = pattern.fallback[length - 1];
  if (pattern.text[length] == byte) ++length;
}

// Adds one byte to the text; returns how many bytes at its end may begin a stop string.
size_t StopMatcher::add(char byte) {
  held_ += byte;
  size_t longest = 0;
  size_t longest_match = 0;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& pattern = patterns_[i];
    advance(pattern, byte);
    longest = std::max(longest, pattern.matched);
    if (pattern.matched == pattern.text.size() && pattern.matched > longest_match) {
      longest_match = pattern.matched;
      matched_ = i;
    }
  }
  return stopped() ? longest_match : longest;
}

std::string StopMatcher::feed(std::string_view piece) {
  size_t unsafe = held_.size();
  for (size_t i = 0; i < piece.size() && !stopped(); ++i) unsafe = add(piece[i]);
  std::string safe = held_.substr(0, held_.size() - unsafe);
  held_.erase(0, safe.size());
  if (stopped()) held_.clear();
  return safe;
}

std::string StopMatcher::flush() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace hf2q
