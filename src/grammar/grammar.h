#pragma once
// What a model may write: a set of texts, given as rules, and for every text that has been written
// the tokens that can come next.
//
//   GBNF (gbnf.h), a JSON schema (json_schema.h), any JSON object, a tool call (tool_grammar.h)
//     -> Grammar, shared by all sequences that follow it
//     -> GrammarState, one for each sequence: allowed() before, accept() after each token
//
// A token can come when its bytes, appended to those written so far, begin some text of the
// grammar: it may end inside of a character or span several rules. A stop token can come exactly
// where the text may end.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/grammar_vocabulary.h"
#include "grammar/pushdown.h"
#include "grammar/stacks.h"
#include "grammar/token_masks.h"

namespace hf2q {

// What comes before the text that the rules describe.
enum class Thought {
  kNone,
  kMay,   // <|channel> any text <channel|>, or nothing
  kOpen,  // any text <channel|>: the prompt ended inside of the thought
};

struct GrammarOptions {
  Thought thought = Thought::kNone;
};

// Immutable: any number of threads may use one at the same time.
class Grammar {
 public:
  using Vocabulary = std::shared_ptr<const GrammarVocabulary>;
  using Shared = std::shared_ptr<const Grammar>;

  // Errors of gbnf.h.
  static Result<Shared> from_gbnf(std::string_view text, Vocabulary vocabulary,
                                  const GrammarOptions& options = {});
  // Errors of json_schema.h.
  static Result<Shared> from_json_schema(const nlohmann::ordered_json& schema,
                                         Vocabulary vocabulary, const GrammarOptions& options = {});
  static Result<Shared> json_object(Vocabulary vocabulary, const GrammarOptions& options = {});
  // The rule `root` of `builder`, with the errors of Pushdown::compile, which begin with `what`;
  // kUnsupported when options name a thought and the vocabulary lacks its markers.
  static Result<Shared> from_rules(RuleBuilder& builder, uint32_t root, std::string_view what,
                                   Vocabulary vocabulary, const GrammarOptions& options = {});

  const Pushdown& pushdown() const { return pushdown_; }
  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }

 private:
  friend class GrammarState;
  Grammar(Pushdown pushdown, Vocabulary vocabulary);

  Pushdown pushdown_;
  Vocabulary vocabulary_;
  mutable TokenMasks masks_;  // fills as it is asked
};

// A text so far. Copies go on independently.
class GrammarState {
 public:
  explicit GrammarState(Grammar::Shared grammar);

  // `bits` cover at least the vocabulary's tokens, bit t % 64 of word t / 64 (as in SampleInput):
  // set for the tokens that can come, cleared for all others.
  void allowed(std::span<uint64_t> bits) const;
  // Appends the token. False, and nothing changes, when it cannot come. Behind a stop token only
  // stop tokens can come.
  bool accept(int32_t token);
  // The text so far is one of the grammar's.
  bool may_end() const { return ended_; }
  // Nothing but a stop token can come.
  bool must_end() const { return places_.empty(); }

 private:
  void drop_unused_stacks();

  Grammar::Shared grammar_;
  StackStore store_;
  std::vector<Place> places_;
  bool ended_ = false;
  uint32_t n_stacks_kept_ = 0;  // when those without use were dropped last
};

}  // namespace hf2q
