// Any bytes as tokenizer.json: refused or usable. Seeds: tests/corpus/tokenizer.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  hf2q::Result<hf2q::Vocabulary> vocabulary =
      hf2q::parse_tokenizer_json(std::as_bytes(bytes), "input");
  if (!vocabulary.ok()) return 0;
  const hf2q::Result<hf2q::Tokenizer> tokenizer =
      hf2q::Tokenizer::create(std::move(vocabulary.value()));
  if (!tokenizer.ok()) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.value().encode(text, {.parse_special = parse_special});
    for (const int32_t id : ids) CHECK(tokenizer.value().has(id));
    CHECK(hf2q::is_valid_utf8(tokenizer.value().decode(ids)));
  }
  return 0;
}
