#include "base/quote.h"

#include <fmt/format.h>

#include <algorithm>

namespace hf2q {

std::string quote(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  if (text.size() <= kMaxBytes) return fmt::format("{:?}", text);
  size_t length = kMaxBytes;
  while (length > 0 && (text[length] & 0xC0) == 0x80) --length;  // not inside a UTF-8 sequence
  return fmt::format("{:?}...", text.substr(0, length));
}

std::string printable(std::string_view text) {
  std::string result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of("\"\\", begin), text.size());
    const std::string escaped = fmt::format("{:?}", text.substr(begin, end - begin));
    result.append(escaped, 1, escaped.size() - 2);
    if (end < text.size()) result += text[end];
    begin = end + 1;
  }
  return result;
}

std::string lines_of(std::span<const std::string> items, size_t most) {
  std::string lines;
  for (const std::string& item : items.first(std::min(most, items.size()))) lines += "\n  " + item;
  if (items.size() > most) lines += fmt::format("\n  and {} more", items.size() - most);
  return lines;
}

std::string count_of(size_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace hf2q
