#include "grammar/grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "support/value_of.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary_for_tests.h"

namespace hf2q {
namespace {

using Json = nlohmann::ordered_json;
using testing_support::value_of;
using tokenizer_test::bytes_of;

// The 256 bytes, pieces of JSON and of UTF-8, and the markers.
Tokenizer small_tokenizer() {
  nlohmann::json document = tokenizer_test::small_json();
  int id = 267;
  for (const char* text :
       {"\"", "\",", "\"}", "\":", "▁\"",  "{\"", "},",      "}}",   "[",     "]]",   "],",
        "▁▁", "\\",  "\\n", "\\u", "\\\"", "a\"", "b\",▁\"", "true", "false", "null", "tr",
        "1",  "12",  "0.",  "-",   "é",    "日",  "日本",    "éa\"", "<div>", "\n",   "\n▁▁",
        "x",  "xy",  "ing", "end", ")",    "(",   "+",       "a+",   "b)"}) {
    document["model"]["vocab"][text] = id++;
  }
  for (const char* text : {"<|\"|>", "<|tool_call>", "<tool_call|>", "<|channel>", "<channel|>"}) {
    tokenizer_test::add_token(document, id, text, true, false);
    document["model"]["vocab"][text] = id++;
  }
  Vocabulary vocabulary = value_of(parse_tokenizer_json(bytes_of(document.dump()), "test"));
  vocabulary.stop_ids = {1};
  return value_of(Tokenizer::create(std::move(vocabulary)));
}

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = small_tokenizer();
  return kTokenizer;
}
const std::shared_ptr<const GrammarVocabulary>& vocabulary() {
  static const auto kVocabulary = GrammarVocabulary::create(tokenizer());
  return kVocabulary;
}

TokenBits mask_of(const GrammarState& state) {
  TokenBits bits(vocabulary()->n_words(), ~uint64_t{0});
  state.allowed(bits);
  return bits;
}

// Whether the state can read the text byte by byte.
bool reads(GrammarState& state, std::string_view text) {
  for (const char c : text) {
    if (!state.accept(tokenizer().find(token_of_byte(static_cast<uint8_t>(c))))) return false;
  }
  return true;
}
bool matches(const Grammar::Shared& grammar, std::string_view text) {
  GrammarState state(grammar);
  return reads(state, text) && state.may_end();
}

Grammar::Shared gbnf(std::string_view text) {
  return value_of(Grammar::from_gbnf(text, vocabulary()));
}
Grammar::Shared schema(std::string_view text) {
  return value_of(Grammar::from_json_schema(Json::parse(text), vocabulary()));
}

TEST(Grammar, ArithmeticInGbnf) {
  const Grammar::Shared grammar = gbnf(R"gbnf(
    # sums of products
    root   ::= sum "\n"?
    sum    ::= term (("+" | "-") term)*
    term   ::= number | "(" sum ")"
    number ::= [0-9]+
  )gbnf");
  for (const char* text : {"1", "12+3", "(1+2)-3\n", "((((7))))"}) {
    EXPECT_TRUE(matches(grammar, text)) << text;
  }
  for (const char* text : {"", "+1", "1+", "(1", "1)", "a", "1\n\n"}) {
    EXPECT_FALSE(matches(grammar, text)) << text;
  }
}

// The mask of each step against reading each token's bytes one by one.
void expect_masks_are_exact(const Grammar::Shared& grammar, uint32_t seed) {
  std::mt19937 random(seed);
  GrammarState state(grammar);
  for (int n = 0; n < 60; ++n) {
    const TokenBits mask = mask_of(state);
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < static_cast<int32_t>(vocabulary()->n_tokens()); ++id) {
      GrammarState copy = state;
      const bool expected = copy.accept(id);
      ASSERT_EQ(has_bit(mask, static_cast<size_t>(id)), expected) << tokenizer().token_text(id);
      if (expected && id != 1) allowed.push_back(id);
    }
    ASSERT_EQ(allowed.empty(), state.must_end());
    if (allowed.empty()) break;
    ASSERT_TRUE(state.accept(allowed[random() % allowed.size()]));
  }
}

TEST(Grammar, MasksAreThoseOfReadingEachToken) {
  for (
      const auto& grammar :
      {gbnf(R"(root ::= "a" root "b" | "x"+)"), gbnf("root ::= [^a]* \"a\" .{0,3}"),
       gbnf("root ::= a | b\na ::= \"x\" a \"a\" | \"x\"\nb ::= \"x\" b \"b\" | \"x\""),
       schema("{}"), schema(R"({"type":"object"})"),
       schema(
           R"({"type":"object","properties":{"a":{"type":"string","maxLength":3},"é":{"type":"array","items":{"type":"integer"},"minItems":1}},"required":["a"]})")}) {
    for (uint32_t seed = 0; seed < 20; ++seed) expect_masks_are_exact(grammar, seed);
  }
}

}  // namespace
}  // namespace hf2q
