#include "convert/readable.h"

#include "chat/template.h"
#include "tokenizer/tokenizer.h"

namespace hf2q {

Status check_vocabulary(const Vocabulary& vocabulary, const std::string& source) {
  TRY(tokenizer, Tokenizer::create(vocabulary, source));
  (void)tokenizer;
  return Ok{};
}

Status check_chat_template(std::string_view text, const std::string& source) {
  if (text.empty()) return Ok{};
  const auto parsed = ChatTemplate::parse(text);
  if (parsed.ok()) return Ok{};
  return error(parsed.error().code, "{}: {}", source, parsed.error().message);
}

}  // namespace hf2q
