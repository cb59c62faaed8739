#pragma once
// Text to token ids and back, for vocabularies of the Gemma family.
//
// Encoding: the text is split at added tokens; what lies between them goes through BPE (bpe.h). No
// prefix space, nothing stripped, no Unicode normalisation. Ids are those of the HuggingFace
// tokenizer. That one takes only well-formed UTF-8; here a byte outside of a well-formed character
// becomes the token of that byte.
//
// Decoding: U+2581 becomes a space, a run of byte tokens the characters that its bytes spell; if
// the run is not well-formed UTF-8 each of its bytes becomes U+FFFD (the rule of HuggingFace's
// ByteFallback, which looks at the whole run). An id outside of the vocabulary has no text. The
// result is always well-formed UTF-8.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/vocabulary.h"

namespace hf2q {

struct EncodeOptions {
  bool add_bos = false;  // put `bos` first, whether or not the text begins with its marker
  // Recognise special tokens (<|turn>, <eos>, ...) in the text. False for text that others wrote:
  // there they are ordinary characters. Added tokens that are not special are always recognised.
  bool parse_special = true;
};

enum class SpecialText {
  kKeep,  // the text of every token
  kHide,  // no text for control and unknown tokens; the markers of is_output_marker stay
};

// Immutable: any number of threads may use one at the same time.
class Tokenizer {
 public:
  // kCorrupt or kUnsupported naming `source` (the file) and the token, merge or id that cannot be
  // (see Bpe::create); there has to be a `bos`. CHECKs that every token has a type.
  static Result<Tokenizer> create(Vocabulary vocabulary, std::string_view source = "vocabulary");

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  std::string decode(std::span<const int32_t> ids, SpecialText special = SpecialText::kKeep) const;

  // The text of one token as decode has it, a byte token as its "<0xHH>"; empty outside of the
  // vocabulary.
  std::string token_text(int32_t id) const;
  // The lowest id with this text, or kNoToken. Looks at every token: for start-up.
  int32_t find(std::string_view text) const { return find_token(vocabulary_, text); }
  bool is_stop(int32_t id) const;
  bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < n_tokens(); }
  size_t n_tokens() const { return vocabulary_.tokens.size(); }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Tokenizer(Vocabulary vocabulary, Bpe bpe);
  void encode_normalized(std::string_view text, bool parse_special, Bpe::Scratch& scratch,
                         std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  Bpe bpe_;
  // Added tokens by what they are matched on: the text itself, or the text with U+2581 for spaces;
  // [0] those that are not special, [1] all.
  AddedTokenFinder raw_[2];
  AddedTokenFinder normalized_[2];
};

// Decodes ids one by one. What push() and finish() return, one after another, is what decode()
// gives for all ids at once, and every piece is well-formed UTF-8: the text of byte tokens is held
// back until their run has ended.
class StreamDecoder {
 public:
  // `tokenizer` has to outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, SpecialText special = SpecialText::kKeep)
      : tokenizer_(&tokenizer), special_(special) {}

  std::string push(int32_t id);
  // The text of a run of byte tokens at the end; the decoder is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  SpecialText special_;
  std::string bytes_;  // of the byte tokens since the last other token
};

}  // namespace hf2q
