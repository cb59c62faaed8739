#include "grammar/grammar_vocabulary.h"

#include <algorithm>

#include "tokenizer/text_replace.h"
#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

bool is_text(TokenType type, std::string_view name) {
  if (is_output_marker(name)) return false;
  return type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kByte;
}

std::string bytes_of_token(std::string_view name) {
  if (const auto byte = byte_of_token(name)) return std::string(1, static_cast<char>(*byte));
  return replace_all(name, kSpaceMark, " ");
}

// The number of characters of a plain text; 0 for any other.
size_t plain_characters(std::string_view text) {
  size_t n = 0;
  for (; !text.empty(); ++n) {
    const CodePoint character = first_code_point(text);
    if (character.value == kInvalidCodePoint || character.value < 0x20) return 0;
    if (character.value == '"' || character.value == '\\') return 0;
    text.remove_prefix(character.n_bytes);
  }
  return n;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  std::vector<uint32_t> path = {0};  // the nodes from the root to the last one
  nodes_.push_back({0, 0, 0, 0, 0});
  std::string_view last;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
  };
  for (const Entry& entry : entries) {
    const auto [here, there] = std::ranges::mismatch(last, entry.bytes);
    leave(static_cast<size_t>(here - last.begin()));
    for (size_t i = path.size() - 1; i < entry.bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), 0, static_cast<uint16_t>(i + 1),
                        static_cast<uint8_t>(entry.bytes[i])});
    }
    ++nodes_.back().n_tokens;
    tokens_.push_back(entry.id);
    last = entry.bytes;
  }
  leave(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
}

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::create(const Tokenizer& tokenizer) {
  std::shared_ptr<GrammarVocabulary> result(new GrammarVocabulary());
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  result->stop_ids_ = vocabulary.stop_ids;
  std::erase_if(result->stop_ids_, [&](int32_t id) { return !tokenizer.has(id); });
  result->bytes_.resize(vocabulary.tokens.size());
  result->plain_.assign(kMaxPlainCharacters, TokenBits(result->n_words(), 0));
  std::vector<TokenTrie::Entry> all;
  std::vector<TokenTrie::Entry> others;
  for (size_t t = 0; t < vocabulary.tokens.size(); ++t) {
    const std::string& name = vocabulary.tokens[t];
    const auto id = static_cast<int32_t>(t);
    if (!is_text(vocabulary.types[t], name)) {
      result->markers_.emplace_back(name, id);
      continue;
    }
    if (name.empty() || result->is_stop(id)) continue;
    result->bytes_[t] = bytes_of_token(name);
    all.push_back({result->bytes_[t], id});
    const size_t n = plain_characters(result->bytes_[t]);
    if (n == 0 || n > kMaxPlainCharacters) {
      others.push_back(all.back());
    } else {
      for (size_t i = n; i <= kMaxPlainCharacters; ++i) set_bit(result->plain_[i - 1], t);
    }
  }
  result->trie_ = std::make_unique<TokenTrie>(std::move(all));
  result->other_trie_ = std::make_unique<TokenTrie>(std::move(others));
  return result;
}

bool GrammarVocabulary::is_stop(int32_t id) const {
  return std::ranges::find(stop_ids_, id) != stop_ids_.end();
}

std::optional<int32_t> GrammarVocabulary::marker(std::string_view name) const {
  const auto found = std::ranges::find(markers_, name, &std::pair<std::string, int32_t>::first);
  if (found == markers_.end()) return std::nullopt;
  return found->second;
}

}  // namespace hf2q
