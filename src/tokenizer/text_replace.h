#pragma once
// Replacing one piece of text by another.

#include <string>
#include <string_view>

namespace hf2q {

// `text` with every `from` (not empty), found from the left, written as `to`.
inline std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (;;) {
    const size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(at + from.size());
  }
}

}  // namespace hf2q
