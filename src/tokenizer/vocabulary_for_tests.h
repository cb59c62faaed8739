#pragma once
// Small vocabularies and a plain encoder that the tests compare with.

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace hf2q::tokenizer_test {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Appends to added_tokens.
inline void add_token(nlohmann::json& document, int id, const std::string& text, bool special,
                      bool normalized) {
  nlohmann::json token =
      nlohmann::json::parse(R"({"single_word": false, "lstrip": false, "rstrip": false})");
  token["id"] = id;
  token["content"] = text;
  token["special"] = special;
  token["normalized"] = normalized;
  document["added_tokens"].push_back(token);
}

// A good tokenizer.json as small as it can be: <pad> <eos> <bos> <unk> as ids 0 to 3, the 256 bytes
// as 4 to 259, then U+2581 a b c ab and U+2581 with ab (265), two merges, and the marker <|turn>
// (266) as an added token.
inline nlohmann::json small_json() {
  nlohmann::json document = nlohmann::json::parse(R"({
    "version": "1.0",
    "added_tokens": [],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"},
      {"type": "Fuse"}]},
    "model": {
      "type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true,
      "byte_fallback": true, "ignore_merges": false,
      "vocab": {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3,
                "▁": 260, "a": 261, "b": 262, "c": 263, "ab": 264, "▁ab": 265},
      "merges": [["a", "b"], ["▁", "ab"]]}})");
  for (int byte = 0; byte < 256; ++byte) {
    document["model"]["vocab"][token_of_byte(static_cast<uint8_t>(byte))] = 4 + byte;
  }
  for (const auto& [id, text] : std::map<int, std::string>{
           {0, "<pad>"}, {1, "<eos>"}, {2, "<bos>"}, {3, "<unk>"}, {266, "<|turn>"}}) {
    add_token(document, id, text, true, false);
  }
  return document;
}

// BPE of a text without added tokens as the format's description has it: every step looks at all
// pairs and merges the leftmost one of the lowest rank. `characters` are well-formed UTF-8 pieces
// or single bytes.
class PlainBpe {
 public:
  explicit PlainBpe(const Vocabulary& vocabulary) {
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      ids_.emplace(vocabulary.tokens[id], static_cast<int32_t>(id));
    }
    for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
      const Merge& merge = vocabulary.merges[rank];
      merges_[{merge.left, merge.right}] = {rank, merge.merged};
    }
  }

  std::vector<int32_t> encode(const std::vector<std::string>& characters) const {
    std::vector<int32_t> symbols;
    for (const std::string& character : characters) append_symbols(character, symbols);
    while (merge_once(symbols)) {
    }
    return symbols;
  }

 private:
  void append_symbols(const std::string& character, std::vector<int32_t>& symbols) const {
    const auto found = ids_.find(character == " " ? std::string(kSpaceMark) : character);
    if (found != ids_.end()) {
      symbols.push_back(found->second);
      return;
    }
    for (const char c : character) {
      symbols.push_back(ids_.at(token_of_byte(static_cast<uint8_t>(c))));
    }
  }

  bool merge_once(std::vector<int32_t>& symbols) const {
    std::pair<size_t, int32_t> best = {SIZE_MAX, kNoToken};
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = merges_.find({symbols[i], symbols[i + 1]});
      if (found == merges_.end() || found->second.first >= best.first) continue;
      best = found->second;
      best_at = i;
    }
    if (best.first == SIZE_MAX) return false;
    symbols[best_at] = best.second;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    return true;
  }

  std::map<std::string, int32_t> ids_;
  std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>> merges_;
};

}  // namespace hf2q::tokenizer_test
