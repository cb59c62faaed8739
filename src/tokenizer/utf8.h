#pragma once
// UTF-8, one code point at a time.

#include <cstdint>
#include <string_view>

namespace hf2q {

inline constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFF;

struct CodePoint {
  uint32_t value;    // kInvalidCodePoint: the byte is not the start of a well-formed character
  uint32_t n_bytes;  // 1 to 4; 1 when invalid
};

// The character at the start of `text`, which is not empty. Well-formed as Unicode table 3-7 has
// it: no overlong forms, no surrogates, nothing above U+10FFFF.
inline CodePoint first_code_point(std::string_view text) {
  constexpr CodePoint kInvalid = {kInvalidCodePoint, 1};
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return kInvalid;
  if (lead < 0xE0) {
    if (text.size() < 2 || !continues(1)) return kInvalid;
    return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  }
  if (lead < 0xF0) {
    if (text.size() < 3 || !continues(1) || !continues(2)) return kInvalid;
    const uint32_t value = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    const bool surrogate = value >= 0xD800 && value < 0xE000;
    return value < 0x800 || surrogate ? kInvalid : CodePoint{value, 3};
  }
  if (text.size() < 4 || !continues(1) || !continues(2) || !continues(3)) return kInvalid;
  const uint32_t value =
      (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  return value < 0x10000 || value > 0x10FFFF ? kInvalid : CodePoint{value, 4};
}

inline bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint character = first_code_point(text);
    if (character.value == kInvalidCodePoint) return false;
    text.remove_prefix(character.n_bytes);
  }
  return true;
}

}  // namespace hf2q
