#include "grammar/grammar.h"

#include <gtest/gtest.h>

#include <random>

#include "grammar/grammar_for_tests.h"

namespace hf2q {
namespace {

using grammar_test::gbnf;
using grammar_test::mask_of;
using grammar_test::matches;
using grammar_test::reads;
using grammar_test::schema;
using grammar_test::tokenizer;
using grammar_test::vocabulary;

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
