#include "tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

namespace hf2q {
namespace {

std::optional<uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::optional<uint8_t> byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const std::optional<uint8_t> high = hex_digit(text[3]);
  const std::optional<uint8_t> low = hex_digit(text[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<uint8_t>(*high * 16 + *low);
}

std::string token_of_byte(uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

bool is_output_marker(std::string_view text) {
  static constexpr std::string_view kMarkers[] = {
      "<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
      "<|tool_response>", "<tool_response|>", "<|\"|>",
  };
  return std::ranges::find(kMarkers, text) != std::end(kMarkers);
}

std::vector<int32_t> default_stop_ids(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  if (vocabulary.eos != kNoToken) ids.push_back(vocabulary.eos);
  for (std::string_view text : {"<eos>", "<turn|>", "<|tool_response>"}) {
    const int32_t id = find_token(vocabulary, text);
    if (id != kNoToken && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

int32_t find_token(const Vocabulary& vocabulary, std::string_view text) {
  const auto found = std::ranges::find(vocabulary.tokens, text);
  return found == vocabulary.tokens.end() ? kNoToken
                                          : static_cast<int32_t>(found - vocabulary.tokens.begin());
}

}  // namespace hf2q
