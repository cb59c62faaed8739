#include "base/result.h"

namespace hf2q {

Error format_error(ErrorCode code, fmt::string_view text, fmt::format_args args) {
  return {code, fmt::vformat(text, args)};
}

}  // namespace hf2q
