#pragma once
// Replies of /v1/embeddings. Pure functions.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hf2q {

// RFC 4648, with padding.
std::string base64(std::span<const uint8_t> bytes);

// Values in F32: as the shortest numbers that give the same F32 again, or as the base64 text of
// their bytes, little-endian.
std::string embedding_reply(std::string_view model, std::span<const std::vector<float>> vectors,
                            bool as_base64, uint64_t n_prompt_tokens);

}  // namespace hf2q
