#include "serve/embedding_reply.h"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "serve/reply_parts.h"

namespace hf2q {
namespace {

std::vector<uint8_t> little_endian(std::span<const float> values) {
  std::vector<uint8_t> bytes;
  bytes.reserve(values.size() * 4);
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  return bytes;
}

}  // namespace

std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < n ? bytes[i + j] : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= n ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string embedding_reply(std::string_view model, std::span<const std::vector<float>> vectors,
                            bool as_base64, uint64_t n_prompt_tokens) {
  std::string text = R"({"object":"list","data":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    text += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i > 0 ? "," : "", i);
    text += as_base64 ? fmt::format("\"{}\"", base64(little_endian(vectors[i])))
                      : fmt::format("[{}]", fmt::join(vectors[i], ","));
    text += '}';
  }
  const nlohmann::ordered_json usage = {{"prompt_tokens", n_prompt_tokens},
                                        {"total_tokens", n_prompt_tokens}};
  return text += fmt::format(R"(],"model":{},"usage":{}}})", json_text(model), json_text(usage));
}

}  // namespace hf2q
