#include "tokenizer/tokenizer_json.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "base/mapped_file.h"
#include "base/quote.h"
#include "tokenizer/token_index.h"

namespace hf2q {
namespace {

namespace dom = simdjson::dom;

// A JSON value and what errors call it: "dir/tokenizer.json: model.vocab".
struct Field {
  dom::element value;
  std::string name;
};

std::string_view kind_of(const dom::element& value) {
  switch (value.type()) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// The value as JSON, shortened: for errors.
std::string shown(const dom::element& value) {
  constexpr size_t kMost = 120;
  std::string text = simdjson::minify(value);
  if (text.size() > kMost) text.replace(kMost, std::string::npos, "...");
  return text;
}

Result<Field> child(const Field& parent, std::string_view separator, std::string_view key) {
  Field field = {{}, fmt::format("{}{}{}", parent.name, separator, key)};
  if (parent.value[key].get(field.value) != simdjson::SUCCESS) {
    return error(ErrorCode::kCorrupt, "{}: missing", field.name);
  }
  return field;
}

template <class T>
Result<T> value_as(const Field& field, std::string_view expected) {
  T value;
  if (field.value.get(value) != simdjson::SUCCESS) {
    return error(ErrorCode::kCorrupt, "{}: {} expected, found {}", field.name, expected,
                 kind_of(field.value));
  }
  return value;
}

template <class T>
Result<T> child_as(const Field& parent, std::string_view key, std::string_view expected) {
  TRY(field, child(parent, ".", key));
  return value_as<T>(field, expected);
}

// The string at a JSON pointer, empty when there is none.
std::string_view string_at(const dom::element& value, std::string_view pointer) {
  std::string_view text;
  if (value.at_pointer(pointer).get(text) != simdjson::SUCCESS) return {};
  return text;
}

bool has(const dom::element& value, std::string_view pointer) {
  return value.at_pointer(pointer).error() == simdjson::SUCCESS;
}

bool is_replace(const dom::element& value, std::string_view from, std::string_view to) {
  return string_at(value, "/type") == "Replace" && string_at(value, "/pattern/String") == from &&
         string_at(value, "/content") == to;
}

Status check_normalizer(const Field& root) {
  TRY(normalizer, child(root, ": ", "normalizer"));
  if (is_replace(normalizer.value, " ", kSpaceMark)) return Ok{};
  return error(ErrorCode::kUnsupported, "{}: Replace of \" \" by \"{}\" expected, found {}",
               normalizer.name, kSpaceMark, shown(normalizer.value));
}

Status check_pre_tokenizer(const Field& root) {
  dom::element value;
  if (root.value["pre_tokenizer"].get(value) != simdjson::SUCCESS || value.is_null()) return Ok{};
  if (string_at(value, "/type") == "Split" && string_at(value, "/pattern/String") == " ") {
    return Ok{};
  }
  return error(ErrorCode::kUnsupported,
               "{}: pre_tokenizer: null or Split on \" \" expected, found {}", root.name,
               shown(value));
}

Status check_decoder(const Field& root) {
  TRY(decoder, child(root, ": ", "decoder"));
  dom::element replace;
  const bool gemma = decoder.value.at_pointer("/decoders/0").get(replace) == simdjson::SUCCESS &&
                     is_replace(replace, kSpaceMark, " ") &&
                     string_at(decoder.value, "/decoders/1/type") == "ByteFallback" &&
                     string_at(decoder.value, "/decoders/2/type") == "Fuse" &&
                     !has(decoder.value, "/decoders/3");
  if (gemma) return Ok{};
  return error(ErrorCode::kUnsupported,
               "{}: Sequence of Replace \"{}\" by \" \", ByteFallback, Fuse expected, found {}",
               decoder.name, kSpaceMark, shown(decoder.value));
}

Status expect_bool(const Field& model, std::string_view key, bool expected) {
  bool found = false;  // what a missing key means
  dom::element value;
  if (model.value[key].get(value) == simdjson::SUCCESS) {
    TRY(given, child_as<bool>(model, key, "a boolean"));
    found = given;
  }
  if (found == expected) return Ok{};
  return error(ErrorCode::kUnsupported, "{}.{}: {} expected, found {}", model.name, key, expected,
               found);
}

Status check_model(const Field& model) {
  TRY(type, child_as<std::string_view>(model, "type", "a string"));
  if (type != "BPE") {
    return error(ErrorCode::kUnsupported, "{}.type: BPE expected, found {}", model.name, type);
  }
  TRY_OK(expect_bool(model, "byte_fallback", true));
  TRY_OK(expect_bool(model, "ignore_merges", false));
  for (std::string_view key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    dom::element value;
    if (model.value[key].get(value) != simdjson::SUCCESS || value.is_null()) continue;
    return error(ErrorCode::kUnsupported, "{}.{}: null expected, found {}", model.name, key,
                 shown(value));
  }
  return Ok{};
}

struct TokenEntry {
  std::string_view text;
  uint64_t id;
};

Result<std::vector<TokenEntry>> read_vocab(const Field& model) {
  TRY(vocab, child_as<dom::object>(model, "vocab", "an object"));
  std::vector<TokenEntry> entries;
  for (const auto [text, value] : vocab) {
    uint64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS) {
      return error(ErrorCode::kCorrupt, "{}.vocab: {}: an id of 0 or more expected, found {}",
                   model.name, quote(text), shown(value));
    }
    entries.push_back({text, id});
  }
  return entries;
}

struct AddedEntry {
  TokenEntry token;
  bool special;
  bool normalized;
};

Result<AddedEntry> read_added_token(const Field& field) {
  TRY(id, child_as<uint64_t>(field, "id", "an id of 0 or more"));
  TRY(content, child_as<std::string_view>(field, "content", "a string"));
  TRY(special, child_as<bool>(field, "special", "a boolean"));
  TRY(normalized, child_as<bool>(field, "normalized", "a boolean"));
  for (std::string_view key : {"single_word", "lstrip", "rstrip"}) {
    TRY(flag, child_as<bool>(field, key, "a boolean"));
    if (flag) {
      return error(ErrorCode::kUnsupported, "{}.{}: false expected, found true", field.name, key);
    }
  }
  return AddedEntry{{content, id}, special || is_output_marker(content), normalized};
}

Result<std::vector<AddedEntry>> read_added_tokens(const Field& root) {
  TRY(field, child(root, ": ", "added_tokens"));
  TRY(list, value_as<dom::array>(field, "an array"));
  std::vector<AddedEntry> entries;
  for (const dom::element value : list) {
    TRY(entry, read_added_token({value, fmt::format("{}[{}]", field.name, entries.size())}));
    entries.push_back(entry);
  }
  std::ranges::sort(entries, {}, [](const AddedEntry& entry) { return entry.token.id; });
  return entries;
}

// Puts a token at its id in `tokens`, which has room for every token of the file.
Status place(const TokenEntry& entry, const std::string& file, std::vector<std::string>& tokens) {
  if (entry.text.empty() || entry.text.size() > kMaxTokenBytes) {
    return error(ErrorCode::kCorrupt, "{}: token {}: text of 1 to {} bytes expected, found {}",
                 file, entry.id, kMaxTokenBytes, entry.text.size());
  }
  if (entry.id >= tokens.size()) {
    return error(ErrorCode::kCorrupt, "{}: token {}: an id below {} expected, found {}", file,
                 quote(entry.text), tokens.size(), entry.id);
  }
  std::string& text = tokens[entry.id];
  if (!text.empty()) {
    return error(ErrorCode::kCorrupt, "{}: token {}: both {} and {}", file, entry.id, quote(text),
                 quote(entry.text));
  }
  text = entry.text;
  return Ok{};
}

// Fills tokens and added. Gives for each id whether model.vocab has it.
Result<std::vector<bool>> place_tokens(const Field& root, const Field& model,
                                       Vocabulary& vocabulary) {
  TRY(base, read_vocab(model));
  TRY(added, read_added_tokens(root));
  std::vector<std::string>& tokens = vocabulary.tokens;
  tokens.resize(base.size() + added.size());
  std::vector<bool> in_base(tokens.size());
  for (const TokenEntry& entry : base) {
    TRY_OK(place(entry, root.name, tokens));
    in_base[entry.id] = true;
  }
  size_t n_tokens = base.size();
  for (const AddedEntry& entry : added) {
    const TokenEntry& token = entry.token;
    const bool known =
        token.id < tokens.size() && in_base[token.id] && tokens[token.id] == token.text;
    if (!known) {
      TRY_OK(place(token, root.name, tokens));
      ++n_tokens;
    }
    const auto id = static_cast<int32_t>(token.id);
    if (!vocabulary.added.empty() && vocabulary.added.back().id == id) {
      return error(ErrorCode::kCorrupt, "{}: added_tokens: id {} stands there twice", root.name,
                   id);
    }
    vocabulary.added.push_back({id, entry.special, entry.normalized});
  }
  const auto hole = std::ranges::find_if(tokens, &std::string::empty);
  const auto first_free = static_cast<size_t>(hole - tokens.begin());
  if (first_free < n_tokens) {
    return error(ErrorCode::kCorrupt, "{}: ids 0 to {} expected, found no token with id {}",
                 root.name, n_tokens - 1, first_free);
  }
  tokens.resize(n_tokens);
  return in_base;
}

void set_types(const std::vector<bool>& in_base, Vocabulary& vocabulary) {
  vocabulary.types.assign(vocabulary.tokens.size(), TokenType::kNormal);
  for (const AddedToken& token : vocabulary.added) {
    const auto id = static_cast<size_t>(token.id);
    if (token.special) {
      vocabulary.types[id] = TokenType::kControl;
    } else if (!in_base[id]) {
      vocabulary.types[id] = TokenType::kUserDefined;
    }
  }
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (byte_of_token(vocabulary.tokens[id])) vocabulary.types[id] = TokenType::kByte;
    if (is_output_marker(vocabulary.tokens[id])) vocabulary.types[id] = TokenType::kUserDefined;
  }
}

// "left right", or ["left", "right"]; nothing for anything else.
std::optional<MergeHalves> merge_halves(const dom::element& value) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    return MergeHalves{text.substr(0, space), text.substr(space + 1)};
  }
  MergeHalves halves;
  dom::array pair;
  if (value.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(halves.first) != simdjson::SUCCESS ||
      pair.at(1).get(halves.second) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  return halves;
}

Status read_merges(const Field& model, const TokenIndex& index, Vocabulary& vocabulary) {
  TRY(list, child_as<dom::array>(model, "merges", "an array"));
  std::vector<MergeHalves> texts;
  for (const dom::element value : list) {
    const std::optional<MergeHalves> halves = merge_halves(value);
    if (!halves) {
      return error(ErrorCode::kCorrupt,
                   "{}.merges[{}]: \"left right\" or [\"left\", \"right\"] expected, found {}",
                   model.name, texts.size(), shown(value));
    }
    texts.push_back(*halves);
  }
  vocabulary.merges = find_merges(index, texts);
  const auto unknown = std::ranges::find_if_not(vocabulary.merges, is_complete);
  if (unknown == vocabulary.merges.end()) return Ok{};
  const auto rank = static_cast<size_t>(unknown - vocabulary.merges.begin());
  return error(ErrorCode::kCorrupt,
               "{}.merges[{}]: tokens {} and {} and their union expected in model.vocab",
               model.name, rank, quote(texts[rank].first), quote(texts[rank].second));
}

// The parts that tokens play, by their texts.
Status set_roles(const Field& model, const TokenIndex& index, Vocabulary& vocabulary) {
  vocabulary.bos = index.find("<bos>");
  vocabulary.eos = index.find("<eos>");
  vocabulary.pad = index.find("<pad>");
  vocabulary.mask = index.find("<mask>");
  dom::element unk;
  if (model.value["unk_token"].get(unk) == simdjson::SUCCESS && !unk.is_null()) {
    TRY(text, child_as<std::string_view>(model, "unk_token", "a string or null"));
    vocabulary.unk = index.find(text);
    if (vocabulary.unk == kNoToken) {
      return error(ErrorCode::kCorrupt, "{}.unk_token: a token expected, found {}", model.name,
                   quote(text));
    }
  }
  vocabulary.stop_ids = default_stop_ids(vocabulary);
  return Ok{};
}

Result<Vocabulary> read_root(const Field& root) {
  TRY(model, child(root, ": ", "model"));
  TRY_OK(check_model(model));
  TRY_OK(check_normalizer(root));
  TRY_OK(check_pre_tokenizer(root));
  TRY_OK(check_decoder(root));
  Vocabulary vocabulary;
  TRY(in_base, place_tokens(root, model, vocabulary));
  set_types(in_base, vocabulary);
  const TokenIndex index(vocabulary.tokens);
  if (index.repeated() != kNoToken) {
    return error(ErrorCode::kCorrupt, "{}: token {}: its text {} has a lower id as well", root.name,
                 index.repeated(), quote(vocabulary.tokens[static_cast<size_t>(index.repeated())]));
  }
  TRY_OK(read_merges(model, index, vocabulary));
  TRY_OK(set_roles(model, index, vocabulary));
  return vocabulary;
}

}  // namespace

Result<Vocabulary> read_tokenizer_json(const std::string& path) {
  TRY(file, MappedFile::open(path));
  return parse_tokenizer_json(file.bytes(), path);
}

Result<Vocabulary> parse_tokenizer_json(std::span<const std::byte> bytes, const std::string& name) {
  dom::parser parser;
  Field root = {{}, name};
  const simdjson::error_code code =
      parser.parse(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()).get(root.value);
  if (code != simdjson::SUCCESS) {
    return error(ErrorCode::kCorrupt, "{}: JSON expected: {}", name, simdjson::error_message(code));
  }
  return read_root(root);
}

}  // namespace hf2q
