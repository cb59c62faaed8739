#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"

namespace hf2q {
namespace {

using Fragment = RuleBuilder::Fragment;

Result<uint32_t> with_thought(RuleBuilder& builder, uint32_t root, Thought thought,
                              const GrammarVocabulary& vocabulary, std::string_view what) {
  if (thought == Thought::kNone) return root;
  const auto begin = vocabulary.marker("<|channel>");
  const auto end = vocabulary.marker("<channel|>");
  if (!begin || !end) {
    return error(ErrorCode::kUnsupported,
                 "{}: the tokens <|channel> and <channel|> expected in the vocabulary", what);
  }
  Fragment prefix = builder.sequence(
      {builder.any_number(builder.character(CodePointSet::all())), builder.token(*end),
       builder.repeat(builder.character({{'\n', '\n'}, {' ', ' '}}), 0, 2)});
  if (thought == Thought::kMay) {
    prefix = builder.optional(builder.sequence(builder.token(*begin), prefix));
  }
  return builder.add_rule("the answer", builder.sequence(prefix, builder.call(root)));
}

}  // namespace

Grammar::Grammar(Pushdown pushdown, Vocabulary vocabulary)
    : pushdown_(std::move(pushdown)),
      vocabulary_(std::move(vocabulary)),
      masks_(pushdown_, *vocabulary_) {}

Result<Grammar::Shared> Grammar::from_rules(RuleBuilder& builder, uint32_t root,
                                            std::string_view what, Vocabulary vocabulary,
                                            const GrammarOptions& options) {
  TRY(top, with_thought(builder, root, options.thought, *vocabulary, what));
  TRY(pushdown, Pushdown::compile(builder, top, what));
  return Shared(new Grammar(std::move(pushdown), std::move(vocabulary)));
}

Result<Grammar::Shared> Grammar::from_gbnf(std::string_view text, Vocabulary vocabulary,
                                           const GrammarOptions& options) {
  RuleBuilder builder;
  TRY(root, add_gbnf(builder, text));
  return from_rules(builder, root, "grammar", std::move(vocabulary), options);
}

Result<Grammar::Shared> Grammar::from_json_schema(const nlohmann::ordered_json& schema,
                                                  Vocabulary vocabulary,
                                                  const GrammarOptions& options) {
  RuleBuilder builder;
  TRY(root, add_json_schema(builder, schema));
  return from_rules(builder, root, "schema", std::move(vocabulary), options);
}

Result<Grammar::Shared> Grammar::json_object(Vocabulary vocabulary, const GrammarOptions& options) {
  return from_json_schema({{"type", "object"}}, std::move(vocabulary), options);
}

GrammarState::GrammarState(Grammar::Shared grammar) : grammar_(std::move(grammar)) {
  const Pushdown& pushdown = grammar_->pushdown();
  places_.push_back({pushdown.start(pushdown.root()), 0});
  ended_ = pushdown.matches_empty(pushdown.root());
}

void GrammarState::allowed(std::span<uint64_t> bits) const {
  const GrammarVocabulary& vocabulary = grammar_->vocabulary();
  CHECK(bits.size() >= vocabulary.n_words());
  std::ranges::fill(bits, 0);
  grammar_->masks_.add(places_, store_, bits);
  if (!ended_) return;
  for (const int32_t id : vocabulary.stop_ids()) set_bit(bits, static_cast<size_t>(id));
}

bool GrammarState::accept(int32_t token) {
  const GrammarVocabulary& vocabulary = grammar_->vocabulary();
  if (token < 0 || static_cast<size_t>(token) >= vocabulary.n_tokens()) return false;
  if (ended_ && vocabulary.is_stop(token)) {
    places_.clear();
    return true;
  }
  const Pushdown& pushdown = grammar_->pushdown();
  StepScratch scratch;
  std::vector<Place> from = places_;
  std::vector<Place> to;
  bool ended = false;
  const auto read = [&](uint32_t symbol) {
    ended = step(pushdown, store_, from, symbol, scratch, to);
    std::swap(from, to);
    return ended || !from.empty();
  };
  const auto named = std::ranges::find(pushdown.tokens(), token);
  if (named != pushdown.tokens().end()) {
    const auto index = static_cast<uint32_t>(named - pushdown.tokens().begin());
    if (!read(RuleBuilder::kFirstToken + index)) return false;
  } else {
    const std::string_view bytes = vocabulary.bytes(token);
    if (bytes.empty()) return false;
    for (const char byte : bytes) {
      if (!read(static_cast<uint8_t>(byte))) return false;
    }
  }
  places_ = std::move(from);
  ended_ = ended;
  drop_unused_stacks();
  return true;
}

// Each time there are twice as many as last time, so that it costs little.
void GrammarState::drop_unused_stacks() {
  if (store_.size() < 2 * n_stacks_kept_ + 64) return;
  store_.keep_only(places_);
  n_stacks_kept_ = store_.size();
}

}  // namespace hf2q
