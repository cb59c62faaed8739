#pragma once
// Text from a file, made fit for a message.

#include <string>
#include <string_view>

namespace hf2q {

// `text` in double quotes, control characters escaped, cut after 80 bytes (then "..." follows).
std::string quote(std::string_view text);

}  // namespace hf2q
