#include "tokenizer/gguf_vocabulary.h"

#include <algorithm>

#include "base/quote.h"
#include "tokenizer/text_replace.h"
#include "tokenizer/token_index.h"
#include "tokenizer/utf8.h"

namespace hf2q {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kChatTemplate = "tokenizer.chat_template";
constexpr std::string_view kAddSpacePrefix = "tokenizer.ggml.add_space_prefix";
constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kSuppress = "tokenizer.ggml.suppress_tokens";
constexpr std::string_view kStopIds = "hf2q.stop_token_ids";
constexpr std::string_view kAddedIds = "hf2q.added_token_ids";
constexpr std::string_view kNormalizedIds = "hf2q.normalized_token_ids";

// Several times as many as the largest vocabulary has.
constexpr uint64_t kMaxMerges = uint64_t{1} << 22;

constexpr std::string_view kSpaceInMerge = "\xC4\xA0";  // U+0120

struct Role {
  std::string_view key;
  int32_t Vocabulary::*id;
};
constexpr Role kRoles[] = {
    {"tokenizer.ggml.bos_token_id", &Vocabulary::bos},
    {"tokenizer.ggml.eos_token_id", &Vocabulary::eos},
    {"tokenizer.ggml.unknown_token_id", &Vocabulary::unk},
    {"tokenizer.ggml.padding_token_id", &Vocabulary::pad},
    {"tokenizer.ggml.mask_token_id", &Vocabulary::mask},
};

Status check_model(const GgufFile& file) {
  TRY(model, file.get_string(kModel));
  const bool known = model == "gemma4" || (model == "llama" && file.find(kMerges) != nullptr);
  if (known) return Ok{};
  return error(ErrorCode::kUnsupported, "{}: {}: gemma4, or llama with merges, expected, found {}",
               file.path(), kModel, quote(model));
}

Status read_tokens(const GgufFile& file, Vocabulary& vocabulary) {
  TRY(texts, file.get_strings(kTokens));
  for (size_t id = 0; id < texts.size(); ++id) {
    if (texts[id].empty() || texts[id].size() > kMaxTokenBytes || !is_valid_utf8(texts[id])) {
      return error(ErrorCode::kCorrupt,
                   "{}: {}[{}]: 1 to {} bytes of UTF-8 expected, found {} bytes", file.path(),
                   kTokens, id, kMaxTokenBytes, texts[id].size());
    }
  }
  vocabulary.tokens.assign(texts.begin(), texts.end());
  return Ok{};
}

Status read_types(const GgufFile& file, Vocabulary& vocabulary) {
  TRY(types, file.get_integers(kTypes));
  if (types.size() != vocabulary.tokens.size()) {
    return error(ErrorCode::kCorrupt, "{}: {}: {} values expected, one for each token, found {}",
                 file.path(), kTypes, vocabulary.tokens.size(), types.size());
  }
  for (const int32_t type : types) {
    if (type < static_cast<int32_t>(TokenType::kNormal) ||
        type > static_cast<int32_t>(TokenType::kByte)) {
      return error(ErrorCode::kCorrupt, "{}: {}[{}]: 1 to 6 expected, found {}", file.path(),
                   kTypes, vocabulary.types.size(), type);
    }
    const std::string& text = vocabulary.tokens[vocabulary.types.size()];
    if (type == static_cast<int32_t>(TokenType::kByte) && !byte_of_token(text)) {
      return error(ErrorCode::kCorrupt,
                   "{}: {}[{}]: <0x00> to <0xFF> expected for a byte, found {}", file.path(),
                   kTokens, vocabulary.types.size(), quote(text));
    }
    vocabulary.types.push_back(static_cast<TokenType>(type));
  }
  return Ok{};
}

// Text in the brackets of a marker: "<|turn>", "<turn|>", "<|think|>".
bool looks_like_marker(std::string_view text) {
  const bool long_enough = text.size() > 3;
  return long_enough && text.front() == '<' && text.back() == '>' &&
         (text[1] == '|' || text[text.size() - 2] == '|');
}

// Types for a file that has none, from what the tokens are and how they are spelled.
void set_types_by_text(Vocabulary& vocabulary) {
  for (const std::string& text : vocabulary.tokens) {
    TokenType type = TokenType::kNormal;
    if (byte_of_token(text)) {
      type = TokenType::kByte;
    } else if (is_output_marker(text)) {
      type = TokenType::kUserDefined;
    } else if (looks_like_marker(text)) {
      type = TokenType::kControl;
    }
    vocabulary.types.push_back(type);
  }
  for (const Role& role : kRoles) {
    const int32_t id = vocabulary.*role.id;
    if (id != kNoToken) vocabulary.types[static_cast<size_t>(id)] = TokenType::kControl;
  }
}

// Nothing uses the scores, but an array of another length is of another vocabulary.
Status check_scores(const GgufFile& file, size_t n_tokens) {
  const Value* scores = file.find(kScores);
  if (scores == nullptr || (scores->type == ValueType::kArray && scores->count == n_tokens)) {
    return Ok{};
  }
  return error(ErrorCode::kCorrupt, "{}: {}: {} values expected, one for each token, found {}",
               file.path(), kScores, n_tokens, describe(*scores));
}

// A merge that is incomplete as the file spells it, with its U+0120 read as spaces.
Merge find_spaced_merge(const TokenIndex& index, const MergeHalves& halves) {
  const std::string left = replace_all(halves.first, kSpaceInMerge, " ");
  const std::string right = replace_all(halves.second, kSpaceInMerge, " ");
  const MergeHalves spaced[] = {{left, right}};
  return find_merges(index, spaced)[0];
}

Status check_unique(const GgufFile& file, const TokenIndex& index, const Vocabulary& vocabulary) {
  const int32_t repeated = index.repeated();
  if (repeated != kNoToken) {
    return error(ErrorCode::kCorrupt, "{}: {}[{}]: a text of its own expected, found {} again",
                 file.path(), kTokens, repeated,
                 quote(vocabulary.tokens[static_cast<size_t>(repeated)]));
  }
  return Ok{};
}

Status read_merges(const GgufFile& file, const TokenIndex& index, Vocabulary& vocabulary) {
  const Value* value = file.find(kMerges);
  if (value != nullptr && value->count > kMaxMerges) {
    return error(ErrorCode::kCorrupt, "{}: {}: at most {} expected, found {}", file.path(), kMerges,
                 kMaxMerges, value->count);
  }
  TRY(texts, file.get_strings(kMerges));
  std::vector<MergeHalves> halves;
  halves.reserve(texts.size());
  for (const std::string_view text : texts) {
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == text.size()) {
      return error(ErrorCode::kCorrupt,
                   "{}: {}[{}]: two halves parted by a space expected, found {}", file.path(),
                   kMerges, halves.size(), quote(text));
    }
    halves.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  vocabulary.merges = find_merges(index, halves);
  for (size_t rank = 0; rank < halves.size(); ++rank) {
    Merge& merge = vocabulary.merges[rank];
    if (!is_complete(merge)) merge = find_spaced_merge(index, halves[rank]);
  }
  const auto broken = std::ranges::find_if_not(vocabulary.merges, is_complete);
  if (broken == vocabulary.merges.end()) return Ok{};
  if (std::ranges::none_of(vocabulary.merges, is_complete)) {
    vocabulary.merges.clear();
    return Ok{};
  }
  const auto rank = static_cast<size_t>(broken - vocabulary.merges.begin());
  return error(ErrorCode::kCorrupt, "{}: {}[{}]: two tokens and their union expected, found {}",
               file.path(), kMerges, rank, quote(texts[rank]));
}

Status check_id(const GgufFile& file, std::string_view key, int64_t id, size_t n_tokens) {
  if (id >= 0 && static_cast<uint64_t>(id) < n_tokens) return Ok{};
  return error(ErrorCode::kCorrupt, "{}: {}: an id below {} expected, found {}", file.path(), key,
               n_tokens, id);
}

Status read_roles(const GgufFile& file, Vocabulary& vocabulary) {
  for (const Role& role : kRoles) {
    if (file.find(role.key) == nullptr) continue;
    TRY(id, file.get_u32(role.key));
    TRY_OK(check_id(file, role.key, id, vocabulary.tokens.size()));
    vocabulary.*role.id = static_cast<int32_t>(id);
  }
  return Ok{};
}

// The ids under a key, checked; nothing when the file lacks the key.
Result<std::optional<std::vector<int32_t>>> read_ids(const GgufFile& file, std::string_view key,
                                                     size_t n_tokens) {
  using Ids = std::optional<std::vector<int32_t>>;
  if (file.find(key) == nullptr) return Ids{};
  TRY(ids, file.get_integers(key));
  for (const int32_t id : ids) TRY_OK(check_id(file, key, id, n_tokens));
  return Ids{std::move(ids)};
}

bool is_special(const Vocabulary& vocabulary, int32_t id) {
  const TokenType type = vocabulary.types[static_cast<size_t>(id)];
  return type == TokenType::kControl || type == TokenType::kUnknown ||
         is_output_marker(vocabulary.tokens[static_cast<size_t>(id)]);
}

std::vector<int32_t> added_by_type(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (size_t id = 0; id < vocabulary.types.size(); ++id) {
    const TokenType type = vocabulary.types[id];
    if (type == TokenType::kControl || type == TokenType::kUnknown ||
        type == TokenType::kUserDefined) {
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  return ids;
}

Status read_lists(const GgufFile& file, Vocabulary& vocabulary) {
  const size_t n_tokens = vocabulary.tokens.size();
  TRY(stop, read_ids(file, kStopIds, n_tokens));
  TRY(suppress, read_ids(file, kSuppress, n_tokens));
  TRY(added, read_ids(file, kAddedIds, n_tokens));
  TRY(normalized, read_ids(file, kNormalizedIds, n_tokens));
  vocabulary.stop_ids = stop ? *stop : default_stop_ids(vocabulary);
  if (suppress) vocabulary.suppress_ids = *suppress;
  std::vector<int32_t> normalized_ids = normalized ? *normalized : std::vector<int32_t>{};
  std::ranges::sort(normalized_ids);
  for (const int32_t id : added ? *added : added_by_type(vocabulary)) {
    const bool is_normalized = std::ranges::binary_search(normalized_ids, id);
    vocabulary.added.push_back({id, is_special(vocabulary, id), is_normalized});
  }
  return Ok{};
}

std::vector<std::string> written_merges(const Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  texts.reserve(vocabulary.merges.size());
  const auto half = [&](int32_t id) {
    return replace_all(vocabulary.tokens[static_cast<size_t>(id)], " ", kSpaceInMerge);
  };
  for (const Merge& merge : vocabulary.merges) {
    texts.push_back(fmt::format("{} {}", half(merge.left), half(merge.right)));
  }
  return texts;
}

void set_texts(std::string_view key, const std::vector<std::string>& texts,
               GgufMetadata& metadata) {
  metadata.set_strings(key, std::vector<std::string_view>(texts.begin(), texts.end()));
}

void write_added(const Vocabulary& vocabulary, GgufMetadata& metadata) {
  std::vector<int32_t> ids;
  std::vector<int32_t> normalized;
  for (const AddedToken& token : vocabulary.added) {
    ids.push_back(token.id);
    if (token.normalized) normalized.push_back(token.id);
  }
  metadata.set_integers(kAddedIds, ids);
  if (!normalized.empty()) metadata.set_integers(kNormalizedIds, normalized);
}

}  // namespace

Result<Vocabulary> read_gguf_vocabulary(const GgufFile& file) {
  TRY_OK(check_model(file));
  Vocabulary vocabulary;
  TRY_OK(read_tokens(file, vocabulary));
  TRY_OK(read_roles(file, vocabulary));
  if (file.find(kTypes) != nullptr) {
    TRY_OK(read_types(file, vocabulary));
  } else {
    set_types_by_text(vocabulary);
  }
  TRY_OK(check_scores(file, vocabulary.tokens.size()));
  const TokenIndex index(vocabulary.tokens);
  TRY_OK(check_unique(file, index, vocabulary));
  TRY_OK(read_merges(file, index, vocabulary));
  TRY_OK(read_lists(file, vocabulary));
  for (const std::string_view flag : {kAddBos, kAddSpacePrefix}) {
    if (file.find(flag) != nullptr) TRY_OK(file.get_bool(flag));
  }
  if (file.find(kChatTemplate) != nullptr) {
    TRY(chat_template, file.get_string(kChatTemplate));
    vocabulary.chat_template = chat_template;
  }
  return vocabulary;
}

void write_vocabulary(const Vocabulary& vocabulary, GgufMetadata& metadata) {
  std::vector<int32_t> types;
  for (const TokenType type : vocabulary.types) types.push_back(static_cast<int32_t>(type));
  metadata.set_string(kModel, "gemma4");
  set_texts(kTokens, vocabulary.tokens, metadata);
  metadata.set_f32s(kScores, std::vector<float>(vocabulary.tokens.size(), -1000.0F));
  metadata.set_integers(kTypes, types);
  set_texts(kMerges, written_merges(vocabulary), metadata);
  for (const Role& role : kRoles) {
    const int32_t id = vocabulary.*role.id;
    if (id != kNoToken) metadata.set_u32(role.key, static_cast<uint32_t>(id));
  }
  if (!vocabulary.chat_template.empty()) {
    metadata.set_string(kChatTemplate, vocabulary.chat_template);
  }
  metadata.set_bool(kAddSpacePrefix, false);
  metadata.set_bool(kAddBos, vocabulary.add_bos);
  if (!vocabulary.suppress_ids.empty()) metadata.set_integers(kSuppress, vocabulary.suppress_ids);
  metadata.set_integers(kStopIds, vocabulary.stop_ids);
  write_added(vocabulary, metadata);
}

}  // namespace hf2q
