#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tokenizer/text_replace.h"
#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

Status check_id(const Vocabulary& vocabulary, std::string_view what, int32_t id) {
  if (id >= 0 && static_cast<size_t>(id) < vocabulary.tokens.size()) return Ok{};
  return error(ErrorCode::kCorrupt, "{}: an id below {} expected, found {}", what,
               vocabulary.tokens.size(), id);
}

Status check_ids(const Vocabulary& vocabulary) {
  const std::pair<std::string_view, int32_t> roles[] = {{"eos token", vocabulary.eos},
                                                        {"unk token", vocabulary.unk},
                                                        {"pad token", vocabulary.pad},
                                                        {"mask token", vocabulary.mask}};
  TRY_OK(check_id(vocabulary, "bos token", vocabulary.bos));
  for (const auto& [what, id] : roles) {
    if (id != kNoToken) TRY_OK(check_id(vocabulary, what, id));
  }
  for (const int32_t id : vocabulary.stop_ids) TRY_OK(check_id(vocabulary, "stop token", id));
  for (const int32_t id : vocabulary.suppress_ids) {
    TRY_OK(check_id(vocabulary, "suppressed token", id));
  }
  for (const AddedToken& token : vocabulary.added) {
    TRY_OK(check_id(vocabulary, "added token", token.id));
  }
  return Ok{};
}

AddedTokenFinder finder_of(const Vocabulary& vocabulary, bool normalized, bool special_too) {
  std::vector<AddedTokenFinder::Entry> entries;
  for (const AddedToken& token : vocabulary.added) {
    if (token.normalized != normalized || (token.special && !special_too)) continue;
    const std::string& text = vocabulary.tokens[static_cast<size_t>(token.id)];
    entries.push_back({normalized ? replace_all(text, " ", kSpaceMark) : text, token.id});
  }
  return AddedTokenFinder(std::move(entries));
}

// Calls `between(part)` for the text around matches and appends the ids of the matches.
template <class Between>
void split_at_added(const AddedTokenFinder& finder, std::string_view text,
                    std::vector<int32_t>& ids, const Between& between) {
  size_t at = 0;
  while (const auto match = finder.find(text, at)) {
    between(text.substr(at, match->begin - at));
    ids.push_back(match->id);
    at = match->end;
  }
  between(text.substr(at));
}

std::string text_of_bytes(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) text += kReplacement;
  return text;
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, Bpe bpe)
    : vocabulary_(std::move(vocabulary)),
      bpe_(std::move(bpe)),
      raw_{finder_of(vocabulary_, false, false), finder_of(vocabulary_, false, true)},
      normalized_{finder_of(vocabulary_, true, false), finder_of(vocabulary_, true, true)} {}

Result<Tokenizer> Tokenizer::create(Vocabulary vocabulary, std::string_view source) {
  CHECK(vocabulary.types.size() == vocabulary.tokens.size());
  const Status ids = check_ids(vocabulary);
  Result<Bpe> bpe = ids.ok() ? Bpe::create(vocabulary) : ids.error();
  if (!bpe.ok()) return error(bpe.error().code, "{}: {}", source, bpe.error().message);
  return Tokenizer(std::move(vocabulary), std::move(bpe.value()));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_bos) ids.push_back(vocabulary_.bos);
  Bpe::Scratch scratch;
  split_at_added(raw_[options.parse_special ? 1 : 0], text, ids, [&](std::string_view part) {
    encode_normalized(part, options.parse_special, scratch, ids);
  });
  return ids;
}

void Tokenizer::encode_normalized(std::string_view text, bool parse_special, Bpe::Scratch& scratch,
                                  std::vector<int32_t>& ids) const {
  const AddedTokenFinder& finder = normalized_[parse_special ? 1 : 0];
  if (finder.empty()) return bpe_.encode(text, scratch, ids);  // takes spaces and U+2581 alike
  const std::string normalized = replace_all(text, " ", kSpaceMark);
  split_at_added(finder, normalized, ids,
                 [&](std::string_view part) { bpe_.encode(part, scratch, ids); });
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialText special) const {
  StreamDecoder decoder(*this, special);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::string Tokenizer::token_text(int32_t id) const {
  return has(id) ? replace_all(vocabulary_.tokens[static_cast<size_t>(id)], kSpaceMark, " ") : "";
}

bool Tokenizer::is_stop(int32_t id) const {
  return std::ranges::find(vocabulary_.stop_ids, id) != vocabulary_.stop_ids.end();
}

std::string StreamDecoder::push(int32_t id) {
  if (!tokenizer_->has(id)) return "";
  const Vocabulary& vocabulary = tokenizer_->vocabulary();
  if (const auto byte = byte_of_token(vocabulary.tokens[static_cast<size_t>(id)])) {
    bytes_.push_back(static_cast<char>(*byte));
    return "";
  }
  const TokenType type = vocabulary.types[static_cast<size_t>(id)];
  const bool silent = type == TokenType::kControl || type == TokenType::kUnknown;
  if (silent && special_ == SpecialText::kHide) return "";
  return finish() + tokenizer_->token_text(id);
}

std::string StreamDecoder::finish() {
  return text_of_bytes(std::exchange(bytes_, {}));
}

}  // namespace hf2q
