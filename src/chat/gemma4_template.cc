// The text of models/tiny-gemma4/chat_template.jinja, for files that come without a template. A
// test compares the two.

#include "chat/template.h"

namespace hf2q {

// NOLINTNEXTLINE(readability-function-size): lines of the template
std::string_view gemma4_template_text() {
  static constexpr std::string_view kText =
      R"jinja({#- Gemma 4 conversations. Inputs: messages, tools, add_generation_prompt, enable_thinking,
    preserve_thinking, and empty_thought for the sizes that expect a closed, empty thought before an
    answer without thinking. -#}

{%- macro quoted(text) -%}
  {{- '<|"|>' ~ text ~ '<|"|>' -}}
{%- endmacro -%}

{#- Arguments and results: bare keys in case-insensitive order, strings between quote markers. -#}
{%- macro value_text(value, quote_keys=false) -%}
  {%- if value is string -%}
    {{- quoted(value) -}}
  {%- elif value is boolean -%}
    {{- 'true' if value else 'false' -}}
  {%- elif value is none -%}
    {{- 'null' -}}
  {%- elif value is mapping -%}
    {{- '{' -}}
    {%- for key, item in value | dictsort -%}
      {{- ',' if not loop.first -}}
      {{- quoted(key) if quote_keys else key -}}
      {{- ':' ~ value_text(item, quote_keys) -}}
    {%- endfor -%}
    {{- '}' -}}
  {%- elif value is iterable -%}
    {{- '[' -}}
    {%- for item in value -%}
      {{- ',' if not loop.first -}}
      {{- value_text(item, quote_keys) -}}
    {%- endfor -%}
    {{- ']' -}}
  {%- else -%}
    {{- value -}}
  {%- endif -%}
{%- endmacro -%}

{%- macro type_text(schema) -%}
  {{- 'type:' ~ quoted(schema['type'] | default('', true) | upper) -}}
{%- endmacro -%}

{%- macro properties_text(properties) -%}
  {{- 'properties:{' -}}
  {%- for name, schema in properties | dictsort -%}
    {{- ',' if not loop.first -}}
    {{- name ~ ':{' ~ property_text(schema) ~ '}' -}}
  {%- endfor -%}
  {{- '}' -}}
{%- endmacro -%}

{#- One property: only these keys are declared, in this order. -#}
{%- macro property_text(schema) -%}
  {%- set type = schema['type'] | default('', true) | upper -%}
  {%- if schema['description'] -%}
    {{- 'description:' ~ quoted(schema['description']) ~ ',' -}}
  {%- endif -%}
  {%- if type == 'STRING' and schema['enum'] -%}
    {{- 'enum:' ~ value_text(schema['enum']) ~ ',' -}}
  {%- elif type == 'ARRAY' and 'items' in schema and schema['items'] is mapping and schema['items'] -%}
    {{- 'items:{' ~ items_text(schema['items']) ~ '},' -}}
  {%- endif -%}
  {{- 'nullable:true,' if schema['nullable'] -}}
  {%- if type == 'OBJECT' -%}
    {{- properties_text(schema['properties'] or {}) ~ ',' -}}
    {%- if schema['required'] -%}
      {{- 'required:' ~ value_text(schema['required']) ~ ',' -}}
    {%- endif -%}
  {%- endif -%}
  {{- type_text(schema) -}}
{%- endmacro -%}

{#- The schema of list items keeps all its keys. -#}
{%- macro items_text(schema) -%}
  {%- for key, item in schema | dictsort if item is not none -%}
    {{- ',' if not loop.first -}}
    {%- if key == 'type' -%}
      {{- type_text(schema) -}}
    {%- elif key == 'properties' -%}
      {{- properties_text(item) -}}
    {%- else -%}
      {{- key ~ ':' ~ value_text(item, key != 'required') -}}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro -%}

{%- macro declaration(tool) -%}
  {%- set function = tool['function'] or tool -%}
  {{- 'declaration:' ~ function['name'] ~ '{description:' ~ quoted(function['description'] or '') -}}
  {%- set parameters = function['parameters'] -%}
  {%- if parameters -%}
    {{- ',parameters:{' -}}
    {%- if parameters['properties'] -%}
      {{- properties_text(parameters['properties']) ~ ',' -}}
    {%- endif -%}
    {%- if parameters['required'] -%}
      {{- 'required:' ~ value_text(parameters['required']) ~ ',' -}}
    {%- endif -%}
    {{- type_text(parameters) ~ '}' -}}
  {%- endif -%}
  {%- set response = function['response'] -%}
  {%- if response -%}
    {{- ',response:{' -}}
    {%- if response['description'] -%}
      {{- 'description:' ~ quoted(response['description']) ~ ',' -}}
    {%- endif -%}
    {{- type_text(response) ~ '}' -}}
  {%- endif -%}
  {{- '}' -}}
{%- endmacro -%}

{%- macro media_marker(part) -%}
  {%- if part['type'] in ['image', 'image_url', 'input_image'] -%}
    {{- '<|image|>' -}}
  {%- elif part['type'] in ['audio', 'audio_url', 'input_audio'] -%}
    {{- '<|audio|>' -}}
  {%- elif part['type'] in ['video', 'video_url', 'input_video'] -%}
    {{- '<|video|>' -}}
  {%- else -%}
    {{- raise_exception('content part of unknown type ' ~ part['type']) -}}
  {%- endif -%}
{%- endmacro -%}

{#- Thoughts of earlier answers are not repeated; one that was never closed takes the rest with it. -#}
{%- macro without_thoughts(text) -%}
  {%- set ns = namespace(kept='') -%}
  {%- for piece in text.split('<channel|>') -%}
    {%- set ns.kept = ns.kept ~ piece.split('<|channel>')[0] -%}
  {%- endfor -%}
  {{- ns.kept -}}
{%- endmacro -%}

{%- macro content_text(message) -%}
  {%- set parts = message['content'] or [] -%}
  {%- if parts is string -%}
    {%- set parts = [{'type': 'text', 'text': parts}] -%}
  {%- endif -%}
  {%- for part in parts -%}
    {%- if part['type'] != 'text' -%}
      {{- media_marker(part) -}}
    {%- elif message['role'] == 'assistant' -%}
      {{- without_thoughts(part['text']) | trim -}}
    {%- else -%}
      {{- part['text'] | trim -}}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro -%}

{%- macro call_text(call) -%}
  {%- set function = call['function'] or call -%}
  {%- set arguments = function['arguments'] or {} -%}
  {%- if arguments is not mapping -%}
    {{- raise_exception('arguments of the call of ' ~ function['name'] ~ ' are no mapping') -}}
  {%- endif -%}
  {{- '<|tool_call>call:' ~ function['name'] ~ value_text(arguments) ~ '<tool_call|>' -}}
{%- endmacro -%}

{%- macro native_result(result) -%}
  {%- set value = result['response'] -%}
  {%- if value is not mapping -%}
    {%- set value = {'value': value} -%}
  {%- endif -%}
  {{- '<|tool_response>response:' ~ result['name'] ~ value_text(value) ~ '<tool_response|>' -}}
{%- endmacro -%}

{#- A message of role tool; its name is that of the call it answers. -#}
{%- macro tool_result(message, calls) -%}
  {%- set found = namespace(name=message['name'] or 'unknown', text='', media='') -%}
  {%- for call in calls if message['tool_call_id'] and call['id'] == message['tool_call_id'] -%}
    {%- set found.name = (call['function'] or call)['name'] -%}
  {%- endfor -%}
  {%- set content = '' if message['content'] is none else message['content'] -%}
  {%- if content is iterable and content is not string and content is not mapping -%}
    {%- for part in content -%}
      {%- if part['type'] == 'text' -%}
        {%- set found.text = found.text ~ part['text'] -%}
      {%- else -%}
        {%- set found.media = found.media ~ media_marker(part) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- set content = found.text -%}
  {%- endif -%}
  {{- '<|tool_response>response:' ~ found.name ~ '{value:' ~ value_text(content) -}}
  {{- '}<tool_response|>' ~ found.media -}}
{%- endmacro -%}

{#- What a message writes after its calls and results: its content and the end of its turn. `last` is
    that message with what was written of it; `next_role` is none at the end. -#}
{%- macro finish(last, next_role) -%}
  {%- if last.message is not none -%}
    {%- set content = content_text(last.message) -%}
    {{- content -}}
    {%- if last.calls and not last.answered -%}
      {{- '<|tool_response>' -}}
    {%- elif last.message['role'] == 'assistant' and next_role == 'assistant' -%}
    {%- elif last.answered and not content and next_role is none -%}
    {%- else -%}
      {{- '<turn|>\n' -}}
    {%- endif -%}
  {%- endif -%}
{%- endmacro -%}

{%- set thinking = enable_thinking | default(false) -%}
{%- set keep_thoughts = preserve_thinking | default(false) -%}
{%- set chat = messages -%}
{%- set system = none -%}
{%- if messages and messages[0]['role'] in ['system', 'developer'] -%}
  {%- set system = messages[0] -%}
  {%- set chat = messages[1:] -%}
{%- endif -%}

{{- bos_token | default('<bos>') -}}
{%- if thinking or tools or system -%}
  {{- '<|turn>system\n' -}}
  {{- '<|think|>\n' if thinking -}}
  {%- if system and system['content'] is string -%}
    {{- system['content'] | trim -}}
  {%- elif system -%}
    {%- for part in system['content'] or [] if part['type'] == 'text' -%}
      {{- part['text'] | trim ~ ' ' -}}
    {%- endfor -%}
  {%- endif -%}
  {%- for tool in tools or [] -%}
    {{- '<|tool>' ~ declaration(tool) ~ '<tool|>' -}}
  {%- endfor -%}
  {{- '<turn|>\n' -}}
{%- endif -%}

{%- set users = namespace(left=chat | selectattr('role', 'equalto', 'user') | list | length) -%}

{%- set last = namespace(message=none, calls=[], answered=false) -%}
{%- for message in chat -%}
  {%- if message['role'] == 'tool' -%}
    {%- if last.calls and not (last.message['tool_responses']) -%}
      {{- tool_result(message, last.calls) -}}
      {%- set last.answered = true -%}
    {%- endif -%}
  {%- else -%}
    {{- finish(last, message['role']) -}}
    {%- set assistant = message['role'] == 'assistant' -%}
    {%- if not assistant or last.message is none or last.message['role'] != 'assistant' -%}
      {{- '<|turn>' ~ ('model' if assistant else message['role']) ~ '\n' -}}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
      {%- set users.left = users.left - 1 -%}
    {%- endif -%}
    {%- set last.message = message -%}
    {%- set last.calls = message['tool_calls'] or [] if assistant else [] -%}
    {%- set last.answered = false -%}
    {%- set reasoning = message['reasoning'] or message['reasoning_content'] -%}
    {%- if assistant and reasoning and (users.left == 0 or keep_thoughts and last.calls) -%}
      {{- '<|channel>thought\n' ~ reasoning ~ '\n<channel|>' -}}
    {%- endif -%}
    {%- for call in last.calls -%}
      {{- call_text(call) -}}
    {%- endfor -%}
    {%- for result in message['tool_responses'] or [] if assistant -%}
      {{- native_result(result) -}}
      {%- set last.answered = true -%}
    {%- endfor -%}
  {%- endif -%}
{%- endfor -%}
{{- finish(last, none) -}}

{%- if add_generation_prompt -%}
  {%- if last.answered -%}
    {{- '<|channel>thought\n' if thinking -}}
  {%- elif not last.calls -%}
    {{- '<|turn>model\n' -}}
    {{- '<|channel>thought\n<channel|>' if empty_thought and not thinking -}}
  {%- endif -%}
{%- endif -%}
)jinja";
  return kText;
}

}  // namespace hf2q
