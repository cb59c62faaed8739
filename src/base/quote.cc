#include "base/quote.h"

#include <fmt/format.h>

namespace hf2q {

std::string quote(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  if (text.size() <= kMaxBytes) return fmt::format("{:?}", text);
  size_t length = kMaxBytes;
  while (length > 0 && (text[length] & 0xC0) == 0x80) --length;  // not inside a UTF-8 sequence
  return fmt::format("{:?}...", text.substr(0, length));
}

}  // namespace hf2q
