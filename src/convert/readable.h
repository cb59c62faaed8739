#pragma once
// Whether what is about to be written can be loaded again.

#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/vocabulary.h"

namespace hf2q {

// A tokenizer can be made of it (errors as Tokenizer::create). `source` begins the message.
Status check_vocabulary(const Vocabulary& vocabulary, const std::string& source);

// The Jinja text parses (errors as ChatTemplate::parse); an empty one always does. `source` begins
// the message.
Status check_chat_template(std::string_view text, const std::string& source);

}  // namespace hf2q
