#include "chat/template.h"

#include "base/check.h"
#include "chat/normalize.h"

namespace hf2q {

using nlohmann::ordered_json;

Result<ChatTemplate> ChatTemplate::parse(std::string_view text) {
  TRY(program, jinja::Template::parse(text));
  return ChatTemplate(std::string(text), std::move(program));
}

ChatTemplate ChatTemplate::gemma4(Gemma4Size size) {
  std::string text(gemma4_template_text());
  if (size == Gemma4Size::kLarge) text.insert(0, "{%- set empty_thought = true -%}\n");
  Result<ChatTemplate> parsed = parse(text);
  CHECK(parsed.ok());
  return std::move(parsed.value());
}

Result<std::string> ChatTemplate::render(const ordered_json& messages, const ordered_json& tools,
                                         const ChatOptions& options) const {
  const ordered_json& more = options.variables;
  if (!more.is_null() && !more.is_object()) {
    return error(ErrorCode::kInvalidArgument, "chat_template_kwargs: an object expected, found {}",
                 more.type_name());
  }
  TRY_OK(check_nesting("chat_template_kwargs", more));
  ordered_json variables = {{"add_generation_prompt", options.add_generation_prompt},
                            {"enable_thinking", options.enable_thinking},
                            {"preserve_thinking", options.preserve_thinking},
                            {"bos_token", options.bos_token},
                            {"eos_token", options.eos_token}};
  if (more.is_object()) variables.update(more);
  TRY(chat, normalized_messages(messages));
  TRY(declared, normalized_tools(tools));
  variables["messages"] = std::move(chat);
  variables["tools"] = std::move(declared);
  jinja::RenderOptions render_options;
  render_options.now = options.now;
  return program_.render(variables, render_options);
}

bool ends_in_open_thought(std::string_view prompt) {
  return prompt.ends_with("<|channel>thought\n");
}

}  // namespace hf2q
