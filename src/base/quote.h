#pragma once
// Text from a file, made fit for a message.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace hf2q {

// `text` in double quotes, control characters escaped, cut after 80 bytes (then "..." follows).
std::string quote(std::string_view text);

// `text` without quotes and whole, with escapes for what is no printable character; for names that
// stand in a line of their own.
std::string printable(std::string_view text);

// A line for each of the first `most` items, behind a line break and two spaces, then a line "and N
// more" for those that are left.
std::string lines_of(std::span<const std::string> items, size_t most = 20);

// "1 tensor", "2 tensors".
std::string count_of(size_t n, std::string_view noun);

}  // namespace hf2q
