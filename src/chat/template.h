#pragma once
// A conversation to the prompt that a model reads, by the chat template that came with it.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/jinja.h"

namespace hf2q {

struct ChatOptions {
  bool add_generation_prompt = true;
  bool enable_thinking = false;
  bool preserve_thinking = false;  // keep the reasoning of earlier messages that call tools
  std::string bos_token = "<bos>";
  std::string eos_token = "<eos>";
  std::optional<std::tm> now;  // for templates that write the date
  // Further variables (`chat_template_kwargs`), an object or null; they win over the ones above,
  // but not over messages and tools.
  nlohmann::ordered_json variables;
};

// E2B and E4B are small, 12B, 26B-A4B and 31B large: these expect an empty thought before an answer
// without thinking.
enum class Gemma4Size { kSmall, kLarge };

class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string_view text);

  // Our own template, for a Gemma 4 file without one. `<|think|>` stands on a line of its
  // own, and a chain of tool calls is one turn.
  static ChatTemplate gemma4(Gemma4Size size);

  // `messages` and `tools` in OpenAI's form; `tools` may be null. Before the template sees them
  //  - arguments of tool calls given as JSON text become objects,
  //  - each schema in a tool's parameters gets one type and, for a union with null, `nullable`;
  //    of another union the first alternative is kept.
  // The prompt begins with the BOS marker if the template writes it (Gemma 4's do).
  // Fails with kInvalidArgument naming the message or tool, e.g. "messages[2].tool_calls[0]...".
  Result<std::string> render(const nlohmann::ordered_json& messages,
                             const nlohmann::ordered_json& tools, const ChatOptions& options) const;

  const std::string& text() const { return text_; }

 private:
  ChatTemplate(std::string text, jinja::Template program)
      : text_(std::move(text)), program_(std::move(program)) {}
  std::string text_;
  jinja::Template program_;
};

// Whether the answer to `prompt` begins inside a thought that the prompt has opened.
bool ends_in_open_thought(std::string_view prompt);

// The text of ChatTemplate::gemma4; the same as models/tiny-gemma4/chat_template.jinja.
std::string_view gemma4_template_text();

}  // namespace hf2q
