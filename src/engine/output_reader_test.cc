#include "engine/output_reader.h"

#include <gtest/gtest.h>

#include "support/value_of.h"
#include "tokenizer/tokenizer_json.h"

namespace hf2q {
namespace {

using testing_support::value_of;
using Kind = OutputEvent::Kind;

class OutputReaderTest : public ::testing::Test {
 protected:
  // What is written, each run of one kind as one text: "content|", "(thought)", "[call]".
  static std::string written(const std::vector<OutputEvent>& events) {
    std::string text;
    for (const OutputEvent& event : events) {
      if (event.kind == Kind::kContent) text += event.text;
      if (event.kind == Kind::kReasoning) text += "(" + event.text + ")";
      if (event.kind == Kind::kCallBegin) text += "[" + event.text + " ";
      if (event.kind == Kind::kArguments) text += event.text;
      if (event.kind == Kind::kCallEnd) text += "]";
    }
    return text;
  }
  std::vector<int32_t> ids(std::string_view text) {
    return tokenizer_.encode(text, {.parse_special = true});
  }
  void push(std::string_view text) {
    for (const int32_t id : ids(text)) reader_.push(id);
  }
  // Token by token, all text at once.
  std::string read(std::string_view text) {
    std::string result;
    for (const int32_t id : ids(text)) {
      reader_.push(id);
      result += written(reader_.show(OutputReader::kAll));
    }
    return result + written(reader_.finish(OutputReader::kAll));
  }

  Tokenizer tokenizer_ = value_of(
      Tokenizer::create(value_of(read_tokenizer_json(HF2Q_MODELS "/tiny-gemma4/tokenizer.json"))));
  OutputReader reader_{tokenizer_, output_markers(tokenizer_), false};
};

// U+1F9FF has no token of its own: four byte tokens.
TEST_F(OutputReaderTest, BytesRightBeforeAMarkerAreNotLost) {
  ASSERT_EQ(ids("\U0001F9FF").size(), 4U);
  EXPECT_EQ(read("a\U0001F9FF<|channel>thought\nb\U0001F9FF<channel|>\U0001F9FF"
                 "<|tool_call>call:f{x:<|\"|>\U0001F9FF<|\"|>}<tool_call|>"),
            "a\U0001F9FF(b)(\U0001F9FF)\U0001F9FF[f {\"x\":\"\U0001F9FF\"}]");
}

TEST_F(OutputReaderTest, TextIsReadNoFasterThanItIsSure) {
  push("Hello<|tool_call>call:f{}<tool_call|>");
  EXPECT_EQ(written(reader_.show(3)), "Hel");
  EXPECT_EQ(written(reader_.show(0)), "");
  EXPECT_EQ(written(reader_.show(2 + 5)), "lo");           // five bytes of the marker
  EXPECT_EQ(written(reader_.show(7 + 8 + 12)), "[f {}]");  // the rest, the body, the end
  EXPECT_EQ(written(reader_.finish(OutputReader::kAll)), "");
}

TEST_F(OutputReaderTest, AMarkerThatAStopStringCutsOffDoesNotCount) {
  push("Hello<|tool_call>call:f{}<tool_call|>");
  EXPECT_EQ(written(reader_.finish(5)), "Hello");
}

TEST_F(OutputReaderTest, ACallThatIsCutOffIsContent) {
  push("<|tool_call>call:f{a:<|\"|>b");
  EXPECT_EQ(written(reader_.finish(OutputReader::kAll)), "call:f{a:\"b");
}

// The end of a turn has no text; a marker among a user's words is no token.
TEST_F(OutputReaderTest, HiddenTokensAndWordsLikeMarkers) {
  EXPECT_EQ(read("a<turn|>b"), "ab");
  OutputReader words(tokenizer_, output_markers(tokenizer_), false);
  for (const int32_t id : tokenizer_.encode("<|tool_call>x", {.parse_special = false})) {
    words.push(id);
  }
  EXPECT_EQ(written(words.finish(OutputReader::kAll)), "<|tool_call>x");
}

}  // namespace
}  // namespace hf2q
