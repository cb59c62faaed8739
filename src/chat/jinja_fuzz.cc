// Any bytes as a template: parse, and render over a small conversation.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "chat/jinja.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hf2q;
  static const auto variables = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "h\u00e9 llo"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "function":
                 {"name": "f", "arguments": {"x": [1, 2.5, true, null, "y"]}}}]},
                 {"role": "tool", "tool_call_id": "a", "content": "r"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
               "properties": {"x": {"type": "array", "items": {"type": "string"}}}}}}],
    "add_generation_prompt": true, "n": 3, "d": {"b": 1, "A": [2]}})");
  jinja::Limits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 20;
  jinja::RenderOptions options;
  options.now = std::tm{};
  const auto parsed = jinja::Template::parse({reinterpret_cast<const char*>(data), size}, limits);
  if (parsed.ok()) static_cast<void>(parsed.value().render(variables, options).ok());
  return 0;
}
