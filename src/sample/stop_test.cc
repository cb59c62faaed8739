#include "sample/stop.h"

#include <gtest/gtest.h>

#include <random>

namespace hf2q {
namespace {

using Strings = std::vector<std::string>;

struct Outcome {
  Strings emitted;  // after each piece, then what flush gave
  bool stopped = false;
};

Outcome run(const Strings& stops, const Strings& pieces) {
  StopMatcher matcher = StopMatcher::create(stops).value();
  Outcome outcome;
  for (const std::string& piece : pieces) outcome.emitted.push_back(matcher.feed(piece));
  outcome.emitted.push_back(matcher.flush());
  outcome.stopped = matcher.stopped();
  return outcome;
}

TEST(StopMatcher, WithoutStopsEverythingPasses) {
  EXPECT_EQ(run({}, {"a", "", "bc"}).emitted, (Strings{"a", "", "bc", ""}));
}

TEST(StopMatcher, HoldsBackWhatMayBeginAStop) {
  EXPECT_EQ(run({"STOP"}, {"a S", "TO", "x"}).emitted, (Strings{"a ", "", "STOx", ""}));
  EXPECT_EQ(run({"STOP"}, {"a S", "TO"}).emitted, (Strings{"a ", "", "STO"}));
  EXPECT_EQ(run({"STOP"}, {"a S", "TOP b", "c"}).emitted, (Strings{"a ", "", "", ""}));
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b"}).emitted, (Strings{"", "", "a", "", ""}));
}

TEST(StopMatcher, FirstToCompleteWinsThenTheLongest) {
  StopMatcher matcher = StopMatcher::create({"bc", "abcd", "xbc"}).value();
  EXPECT_EQ(matcher.feed("1abcd"), "1a");
  EXPECT_EQ(matcher.matched(), 0U);
  matcher = StopMatcher::create({"bc", "xbc", "c"}).value();
  EXPECT_EQ(matcher.feed("1xbcd"), "1");
  EXPECT_EQ(matcher.matched(), 1U);
  EXPECT_EQ(matcher.feed("more"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, FlushStartsAfresh) {
  StopMatcher matcher = StopMatcher::create({"ab"}).value();
  EXPECT_EQ(matcher.feed("a"), "");
  EXPECT_EQ(matcher.flush(), "a");
  EXPECT_EQ(matcher.feed("b"), "b");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, RefusesWhatCannotBeMeant) {
  EXPECT_FALSE(StopMatcher::create({""}).ok());
  EXPECT_FALSE(StopMatcher::create({std::string(4097, 'x')}).ok());
  EXPECT_FALSE(StopMatcher::create(Strings(65, "x")).ok());
  EXPECT_TRUE(StopMatcher::create(Strings(64, std::string(4096, 'x'))).ok());
}

// The text up to the stop string that completes first (the longest of those), by trying all ends.
struct Reference {
  std::string kept;
  bool stopped = false;
};

Reference cut(const std::string& text, const Strings& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      const bool here = std::string_view(text).substr(0, end).ends_with(stop);
      if (here) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

// Bytes at the end of `text` that could still become a stop string.
size_t must_hold(const std::string& text, const Strings& stops) {
  for (size_t length = text.size(); length > 0; --length) {
    for (const std::string& stop : stops) {
      if (stop.starts_with(std::string_view(text).substr(text.size() - length))) return length;
    }
  }
  return 0;
}

TEST(StopMatcher, MatchesTheNaiveReferenceOnRandomText) {
  std::mt19937 random(1);
  const auto random_text = [&](size_t least, size_t most, uint32_t letters) {
    std::string text(least + random() % (most - least + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % letters);
    return text;
  };
  int stops_seen = 0;
  for (int round = 0; round < 20000; ++round) {
    const uint32_t letters = 2 + random() % 2;
    Strings stops;
    for (size_t i = random() % 4; i > 0; --i) stops.push_back(random_text(2, 9, letters));
    StopMatcher matcher = StopMatcher::create(stops).value();
    std::string text;
    std::string emitted;
    while (text.size() < 40) {
      const std::string piece = random_text(0, 6, letters);
      text += piece;
      emitted += matcher.feed(piece);
      const Reference reference = cut(text, stops);
      ASSERT_EQ(matcher.stopped(), reference.stopped) << text;
      const size_t held = reference.stopped ? 0 : must_hold(text, stops);
      ASSERT_EQ(emitted, reference.kept.substr(0, reference.kept.size() - held)) << text;
    }
    emitted += matcher.flush();
    ASSERT_EQ(emitted, cut(text, stops).kept);
    stops_seen += matcher.stopped() ? 1 : 0;
  }
  EXPECT_GT(stops_seen, 5000);
}

}  // namespace
}  // namespace hf2q
