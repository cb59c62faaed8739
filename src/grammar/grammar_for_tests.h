#pragma once
// A small vocabulary and readers that the tests of grammars share.

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "support/value_of.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary_for_tests.h"

namespace hf2q::grammar_test {

// The 256 bytes, pieces of JSON and of UTF-8, and the markers; id 1 is the stop token.
inline Tokenizer make_tokenizer() {
  nlohmann::json document = tokenizer_test::small_json();
  int id = 267;
  for (const char* text :
       {"\"", "\",", "\"}", "\":", "▁\"",  "{\"", "},",      "}}",   "[",     "]]",   "],",
        "▁▁", "\\",  "\\n", "\\u", "\\\"", "a\"", "b\",▁\"", "true", "false", "null", "tr",
        "1",  "12",  "0.",  "-",   "é",    "日",  "日本",    "éa\"", "<div>", "\n",   "\n▁▁",
        "x",  "xy",  "ing", "end", ")",    "(",   "+",       "a+",   "b)",    "<0x41"}) {
    document["model"]["vocab"][text] = id++;
  }
  for (const char* text : {"<|\"|>", "<|tool_call>", "<tool_call|>", "<|channel>", "<channel|>"}) {
    tokenizer_test::add_token(document, id, text, true, false);
    document["model"]["vocab"][text] = id++;
  }
  Vocabulary vocabulary = testing_support::value_of(
      parse_tokenizer_json(tokenizer_test::bytes_of(document.dump()), "test"));
  vocabulary.stop_ids = {1};
  return testing_support::value_of(Tokenizer::create(std::move(vocabulary)));
}

inline const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = make_tokenizer();
  return kTokenizer;
}
inline const std::shared_ptr<const GrammarVocabulary>& vocabulary() {
  static const auto kVocabulary = GrammarVocabulary::create(tokenizer());
  return kVocabulary;
}

inline Grammar::Shared gbnf(std::string_view text, const GrammarOptions& options = {}) {
  return testing_support::value_of(Grammar::from_gbnf(text, vocabulary(), options));
}
inline Grammar::Shared schema(std::string_view text) {
  return testing_support::value_of(
      Grammar::from_json_schema(nlohmann::ordered_json::parse(text), vocabulary()));
}

inline TokenBits mask_of(const GrammarState& state) {
  TokenBits bits(vocabulary()->n_words(), ~uint64_t{0});
  state.allowed(bits);
  return bits;
}
inline bool reads(GrammarState& state, std::string_view text) {
  for (const char c : text) {
    const size_t byte = static_cast<uint8_t>(c);
    if (!state.accept(static_cast<int32_t>(4 + byte))) return false;
  }
  return true;
}
inline bool matches(const Grammar::Shared& grammar, std::string_view text) {
  GrammarState state(grammar);
  return reads(state, text) && state.may_end();
}

// A text of random tokens, each of which the mask allows; after some 40 bytes those that end
// strings, arrays and objects come first. Markers are shown by their names.
inline std::string random_text(const Grammar::Shared& grammar, uint32_t seed) {
  std::mt19937 random(seed);
  GrammarState state(grammar);
  std::string text;
  std::vector<int32_t> closing = {*vocabulary()->marker("<|\"|>")};
  for (const char c : std::string_view("\"]}0,:efulaxyA1")) closing.push_back(4 + c);
  for (int n = 0; n < 4000; ++n) {
    if (state.must_end() || (state.may_end() && random() % 8 == 0)) return text;
    const TokenBits mask = mask_of(state);
    std::vector<int32_t> allowed;
    for (int32_t id = 2; id < static_cast<int32_t>(vocabulary()->n_tokens()); ++id) {
      if (has_bit(mask, static_cast<size_t>(id))) allowed.push_back(id);
    }
    if (allowed.empty()) return text + "<no token>";
    int32_t id = allowed[random() % allowed.size()];
    for (size_t i = 0; text.size() > 40 && i < closing.size(); ++i) {
      const int32_t end = closing[random() % 2 == 0 ? i : random() % closing.size()];
      if (!has_bit(mask, static_cast<size_t>(end))) continue;
      id = end;
      break;
    }
    if (!state.accept(id)) return text + "<refused token>";
    text += vocabulary()->bytes(id).empty() ? tokenizer().token_text(id)
                                            : std::string(vocabulary()->bytes(id));
  }
  return text + "<no end>";
}

}  // namespace hf2q::grammar_test
