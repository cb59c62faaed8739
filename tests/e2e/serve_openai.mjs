// OpenAI's own client against a server. usage: node serve_openai.mjs BASE_URL, with NODE_PATH-like
// access to the package through OPENAI_PACKAGE (its folder).
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';

const OpenAI = createRequire(import.meta.url)(process.env.OPENAI_PACKAGE);
const client = new OpenAI({baseURL: process.argv[2], apiKey: 'secret', maxRetries: 0});
const model = 'tiny';
const messages = [{role: 'user', content: 'What is the capital of Norway?'}];
const greedy = {model, messages, temperature: 0};
const oslo = 'The capital of Norway is Oslo.';

// ---- models, chat ----
const models = await client.models.list();
assert.deepEqual(models.data.map((m) => m.id), [model]);
assert.equal((await client.models.retrieve(model)).owned_by, 'hf2q');

const chat = await client.chat.completions.create(greedy);
assert.equal(chat.choices[0].message.content, oslo);
assert.equal(chat.choices[0].finish_reason, 'stop');
assert.equal(chat.usage.total_tokens, chat.usage.prompt_tokens + chat.usage.completion_tokens);
assert.equal(chat.object, 'chat.completion');

const two = await client.chat.completions.create({...greedy, n: 2, logprobs: true, top_logprobs: 3});
assert.equal(two.choices.length, 2);
assert.equal(two.choices[1].message.content, oslo);
assert.equal(two.choices[0].logprobs.content.length * 2, two.usage.completion_tokens);
assert.equal(two.choices[0].logprobs.content[0].top_logprobs.length, 3);
const text = two.choices[0].logprobs.content.slice(0, -1);
assert.equal(Buffer.from(text.flatMap((entry) => entry.bytes)).toString(), oslo);

// ---- streaming: by hand, and with the client's own collector ----
let streamed = '';
const finishes = [];
let usage = null;
const stream = await client.chat.completions.create(
    {...greedy, stream: true, stream_options: {include_usage: true}});
for await (const chunk of stream) {
  streamed += chunk.choices[0]?.delta?.content ?? '';
  if (chunk.choices[0]?.finish_reason) finishes.push(chunk.choices[0].finish_reason);
  usage = chunk.usage ?? usage;
}
assert.equal(streamed, oslo);
assert.deepEqual(finishes, ['stop']);
assert.equal(usage.completion_tokens, chat.usage.completion_tokens);
const collected = await client.chat.completions.stream(greedy).finalChatCompletion();
assert.equal(collected.choices[0].message.content, oslo);

// A client that stops listening.
const cut = await client.chat.completions.create(
    {...greedy, stream: true, max_tokens: 5000, ignore_eos: true});
for await (const chunk of cut) {
  if (chunk.choices[0]?.delta?.content) break;
}

// ---- tools ----
const tools = [{
  type: 'function',
  function: {
    name: 'weather',
    description: 'The weather of a city',
    parameters: {
      type: 'object',
      properties: {city: {type: 'string', enum: ['Oslo', 'Rome']}, days: {type: 'integer', minimum: 1, maximum: 9}},
      required: ['city', 'days'],
    },
  },
}];
const call = await client.chat.completions.create(
    {...greedy, tools, tool_choice: 'required', parallel_tool_calls: false});
const [made] = call.choices[0].message.tool_calls;
assert.equal(call.choices[0].finish_reason, 'tool_calls');
assert.equal(call.choices[0].message.content, null);
assert.equal(made.type, 'function');
assert.equal(made.function.name, 'weather');
const args = JSON.parse(made.function.arguments);
assert.ok(['Oslo', 'Rome'].includes(args.city) && Number.isInteger(args.days));

const called = await client.chat.completions
    .stream({...greedy, tools, tool_choice: {type: 'function', function: {name: 'weather'}}, parallel_tool_calls: false})
    .finalChatCompletion();
assert.deepEqual(JSON.parse(called.choices[0].message.tool_calls[0].function.arguments), args);

// The result of the call goes back.
const after = await client.chat.completions.create({
  ...greedy, tools, max_tokens: 20,
  messages: [...messages, call.choices[0].message, {role: 'tool', tool_call_id: made.id, content: '12 degrees'}],
});
assert.ok(after.usage.prompt_tokens > call.usage.prompt_tokens);
assert.ok(after.usage.prompt_tokens_details.cached_tokens > 0);

// ---- answers of a given form ----
const schema = {
  type: 'object',
  properties: {city: {type: 'string', maxLength: 12}, big: {type: 'boolean'}, kind: {const: 'city'}},
  required: ['city', 'big', 'kind'],
  additionalProperties: false,
};
const form = {type: 'json_schema', json_schema: {name: 'answer', schema, strict: true}};
const parsed = await client.chat.completions.parse({...greedy, response_format: form});
assert.equal(parsed.choices[0].message.parsed.kind, 'city');
assert.equal(typeof parsed.choices[0].message.parsed.big, 'boolean');
const object = await client.chat.completions.create(
    {...greedy, response_format: {type: 'json_object'}, max_tokens: 200, seed: 3});
if (object.choices[0].finish_reason === 'stop') JSON.parse(object.choices[0].message.content);

// ---- completions, embeddings (the client asks for base64) ----
const completion = await client.completions.create({model, prompt: ['A', 'B'], temperature: 0, max_tokens: 3});
assert.equal(completion.choices.length, 2);
assert.equal(completion.usage.completion_tokens, 6);
const inputs = ['one', 'two', 'q'.repeat(900)];
const together = await client.embeddings.create({model, input: inputs});
const floats = await client.embeddings.create({model, input: inputs, encoding_format: 'float'});
for (const [i, input] of inputs.entries()) {
  const alone = await client.embeddings.create({model, input});
  assert.deepEqual(alone.data[0].embedding, together.data[i].embedding);
  assert.deepEqual(new Float32Array(floats.data[i].embedding), new Float32Array(alone.data[0].embedding));
  const length = Math.hypot(...alone.data[0].embedding);
  assert.ok(Math.abs(length - 1) < 1e-5, `length ${length}`);
}

// ---- errors ----
async function refusal(promise, kind, check) {
  await assert.rejects(promise, (failure) => {
    assert.ok(failure instanceof kind, `${failure}`);
    check?.(failure);
    return true;
  });
}
await refusal(client.chat.completions.create({...greedy, temperature: 'hot'}), OpenAI.BadRequestError,
    (failure) => assert.equal(failure.param, 'temperature'));
await refusal(client.chat.completions.create({...greedy, messages: [{role: 'user', content: 'x '.repeat(3000)}]}),
    OpenAI.BadRequestError, (failure) => {
      assert.equal(failure.type, 'exceed_context_size_error');
      assert.equal(failure.error.n_ctx, 2048);
    });
await refusal(client.chat.completions.create({...greedy, messages: [
  {role: 'user', content: [{type: 'image_url', image_url: {url: 'data:image/png;base64,'}}]}]}),
    OpenAI.BadRequestError, (failure) => assert.match(failure.message, /image input is not supported/));
await refusal(client.chat.completions.create({...greedy, response_format: {type: 'json_schema', json_schema: {name: 'x', schema: {not: {}}}}}),
    OpenAI.BadRequestError, (failure) => assert.match(failure.message, /'not' is not supported/));
await refusal(client.models.retrieve('other'), OpenAI.NotFoundError);
await refusal(new OpenAI({baseURL: process.argv[2], apiKey: 'wrong', maxRetries: 0}).models.list(),
    OpenAI.AuthenticationError);
console.log('openai: all is well');
