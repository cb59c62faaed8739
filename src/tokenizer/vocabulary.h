#pragma once
// The vocabulary of a byte-fallback BPE tokenizer of the Gemma family: what tokenizer.json and a
// GGUF file both hold (readers: tokenizer_json.h, gguf_vocabulary.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hf2q {

inline constexpr int32_t kNoToken = -1;
// Longest text of a token that is accepted; the longest one of Gemma has 93 bytes.
inline constexpr size_t kMaxTokenBytes = 1024;
// A space in text is this character in tokens: U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Values as a GGUF file stores them.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // special; left out of text meant for people
  kUserDefined = 4,  // matched in text as a whole, and visible
  kUnused = 5,
  kByte = 6,  // "<0x00>" to "<0xFF>"
};

// A token that is found in text as a whole, before BPE.
struct AddedToken {
  int32_t id = kNoToken;
  bool special = false;     // only recognised where text is trusted (parse_special)
  bool normalized = false;  // matched after spaces have become U+2581, else on the text as it is
  bool operator==(const AddedToken&) const = default;
};

// tokens[merged] is tokens[left] followed by tokens[right].
struct Merge {
  int32_t left = kNoToken;
  int32_t right = kNoToken;
  int32_t merged = kNoToken;
  bool operator==(const Merge&) const = default;
};
inline bool is_complete(const Merge& merge) {
  return merge.left != kNoToken && merge.right != kNoToken && merge.merged != kNoToken;
}

struct Vocabulary {
  std::vector<std::string> tokens;  // [id], valid UTF-8, spaces as U+2581
  std::vector<TokenType> types;     // [id]
  std::vector<Merge> merges;        // [rank], the lowest rank merges first
  std::vector<AddedToken> added;    // ascending ids
  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t unk = kNoToken;
  int32_t pad = kNoToken;
  int32_t mask = kNoToken;
  std::vector<int32_t> stop_ids;      // generation ends after any of these
  std::vector<int32_t> suppress_ids;  // never to be sampled
  bool add_bos = true;                // raw text is to start with `bos`
  std::string chat_template;          // Jinja text, empty when there is none
  bool operator==(const Vocabulary&) const = default;
};

// The byte that "<0xHH>" (two upper-case hexadecimal digits) stands for; nothing for any other
// text, so "<0x-1>" and "<0xff>" are ordinary tokens.
std::optional<uint8_t> byte_of_token(std::string_view text);
// The text of a byte's token.
std::string token_of_byte(uint8_t byte);

// Whether `text` is one of the seven markers of thinking and tool calls (<|channel>, <tool_call|>,
// <|"|>, ...). They stay visible in output (type user-defined) so that it can be parsed, and are
// special in input so that no user's text can forge them.
bool is_output_marker(std::string_view text);

// The ids where generation ends when the source has no list of its own: eos, and, where they exist,
// <eos>, <turn|> and <|tool_response>.
std::vector<int32_t> default_stop_ids(const Vocabulary& vocabulary);

// The lowest id with this text, or kNoToken. Looks at every token.
int32_t find_token(const Vocabulary& vocabulary, std::string_view text);

}  // namespace hf2q
