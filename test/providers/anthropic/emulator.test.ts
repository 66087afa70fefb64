import Anthropic from '@anthropic-ai/sdk'
import {
  cutMidStream,
  errorMidStream,
  overloaded,
  rateLimited,
  refusal,
  startAnthropicEmulator,
  toolWithoutInput,
} from '../../emulators/anthropic.ts'
import type { Emulator } from '../../emulators/emulator.ts'
import { test } from '../../support/test.ts'

const weather: Anthropic.Tool = {
  name: 'get_weather',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}
const hello = {
  model: 'claude-haiku-4-5',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content: 'Hello there' }],
}

async function setUp(
  t: { teardown(close: () => Promise<void>): void },
  now?: () => number,
): Promise<{ emulator: Emulator; client: Anthropic }> {
  const emulator = await startAnthropicEmulator(0, now)
  t.teardown(() => emulator.close())
  return { emulator, client: new Anthropic({ apiKey: 'test', baseURL: emulator.url, maxRetries: 0 }) }
}

test('200: a plain answer echoes the last user message and counts tokens', async t => {
  const { client, emulator } = await setUp(t)
  const message = await client.messages.create(hello)
  t.deepEqual(message.content as unknown, [{ type: 'text', text: 'Echo: Hello there' }])
  t.is(message.stop_reason, 'end_turn')
  t.is(message.model, 'claude-haiku-4-5')
  t.is(message.usage.input_tokens, 3)
  t.is(message.usage.output_tokens, 5)
  t.is(emulator.requests[0]?.headers.authorization, 'Bearer test')
})

test('200: a stream adds up to the plain answer', async t => {
  const { client } = await setUp(t)
  const plain = await client.messages.create(hello)
  const pieces: string[] = []
  const stream = client.messages.stream(hello).on('text', piece => pieces.push(piece))
  const streamed = await stream.finalMessage()
  t.deepEqual(streamed.content, plain.content)
  t.is(streamed.stop_reason, plain.stop_reason)
  t.is(streamed.usage.input_tokens, plain.usage.input_tokens)
  t.is(streamed.usage.output_tokens, plain.usage.output_tokens)
  t.true(pieces.length > 1)
})

test('200: two cities give two tool calls, plain and streamed, and their results an answer', async t => {
  const { client } = await setUp(t)
  const request = {
    ...hello,
    tools: [weather],
    messages: [{ role: 'user' as const, content: 'weather in Oslo and Rome?' }],
  }
  const plain = await client.messages.create(request)
  const calls = plain.content.filter(block => block.type === 'tool_use')
  t.deepEqual(
    calls.map(({ id, name, input }) => ({ id, name, input })),
    [
      { id: 'toolu_1', name: 'get_weather', input: { city: 'Oslo' } },
      { id: 'toolu_2', name: 'get_weather', input: { city: 'Rome' } },
    ],
  )
  t.is(plain.stop_reason, 'tool_use')
  const streamed = await client.messages.stream(request).finalMessage()
  t.deepEqual(streamed.content, plain.content)

  const results = calls.map(call => ({ type: 'tool_result' as const, tool_use_id: call.id, content: '5C' }))
  const last = await client.messages.create({
    ...request,
    messages: [...request.messages, { role: 'assistant', content: plain.content }, { role: 'user', content: results }],
  })
  t.deepEqual(last.content as unknown, [{ type: 'text', text: 'Echo: 5C 5C' }])
})

test('200: tool_choice is obeyed', async t => {
  const { client } = await setUp(t)
  const asked = {
    ...hello,
    tools: [weather],
    messages: [{ role: 'user' as const, content: 'weather in Oslo and Rome?' }],
  }
  const single = await client.messages.create({
    ...asked,
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  })
  t.is(single.content.length, 1)
  const none = await client.messages.create({ ...asked, tool_choice: { type: 'none' } })
  t.is(none.content[0]?.type, 'text')
  const forced = await client.messages.create({
    ...hello,
    tools: [weather],
    tool_choice: { type: 'tool', name: 'get_weather' },
  })
  t.is(forced.content[0]?.type, 'tool_use')
})

test('200: a JSON schema, a small ceiling, a stop sequence and thinking shape the answer', async t => {
  const { client } = await setUp(t)
  const schema = {
    type: 'object',
    properties: { name: { type: 'string' }, tags: { type: 'array', items: { enum: ['a', 'b'] } } },
    additionalProperties: false,
  }
  const structured = await client.messages.create({
    ...hello,
    output_config: { format: { type: 'json_schema', schema } },
  })
  t.deepEqual(structured.content as unknown, [{ type: 'text', text: '{"name":"text","tags":["a"]}' }])

  const short = await client.messages.create({ ...hello, max_tokens: 2 })
  t.deepEqual([short.stop_reason, short.usage.output_tokens], ['max_tokens', 2])

  const stopped = await client.messages.create({ ...hello, stop_sequences: ['there'] })
  t.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', 'there'])
  t.deepEqual(stopped.content as unknown, [{ type: 'text', text: 'Echo: Hello ' }])

  const thought = await client.messages.stream({ ...hello, thinking: { type: 'adaptive' } }).finalMessage()
  t.deepEqual(
    thought.content.map(block => block.type),
    ['thinking', 'text'],
  )
  t.is(thought.usage.output_tokens_details?.thinking_tokens, 4)
})

test('200: marked prefixes are written once, found from later marks, and expire', async t => {
  let nowMs = 0
  const { client } = await setUp(t, () => nowMs)
  const mark = { cache_control: { type: 'ephemeral' as const } }
  const user = (text: string, more = {}) => ({
    role: 'user' as const,
    content: [{ type: 'text' as const, text, ...more }],
  })
  const answer = { role: 'assistant' as const, content: 'Yes' }
  const ask = async (more: object) => {
    const { usage } = await client.messages.create({ ...hello, model: 'claude-sonnet-5', ...more })
    return [usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens]
  }
  const system = 'x'.repeat(4_096)
  const first = [user('a'.repeat(40))]
  t.deepEqual(await ask({ system: system.slice(8), messages: [user('b', mark)] }), [1023, 0, 0], 'too short')
  t.deepEqual(await ask({ system, messages: first, ...mark }), [0, 1034, 0])
  t.deepEqual(await ask({ system, messages: first, ...mark }), [0, 0, 1034])
  const second = [...first, answer, user('c'.repeat(80))]
  t.deepEqual(await ask({ system, messages: second, ...mark }), [0, 21, 1034], 'the mark has moved on')
  t.deepEqual(await ask({ system, messages: second }), [1055, 0, 0], 'nothing is marked')
  const many = (text: string) => ({ ...user(''), content: Array(30).fill({ type: 'text', text }) })
  t.deepEqual(await ask({ system, messages: [...first, answer, many('d')], ...mark }), [0, 1065, 0], 'too far back')
  const near = [user('a'.repeat(40), mark), answer, many('e')]
  t.deepEqual(await ask({ system, messages: near, ...mark }), [0, 31, 1034])
  t.deepEqual(await ask({ model: 'claude-opus-5', system, messages: first, ...mark }), [0, 1034, 0], 'another model')
  nowMs += 4 * 60_000
  t.deepEqual(await ask({ system, messages: first, ...mark }), [0, 0, 1034])
  nowMs += 4 * 60_000
  t.deepEqual(await ask({ system, messages: first, ...mark }), [0, 0, 1034], 'each use refreshes it')
  nowMs += 5 * 60_000
  t.deepEqual(await ask({ system, messages: first, ...mark }), [0, 1034, 0])
})

test('200: a refusal and a tool without input stream as the real ones do', async t => {
  const { client, emulator } = await setUp(t)
  emulator.next(refusal, toolWithoutInput)
  const refused = await client.messages.stream(hello).finalMessage()
  t.is(refused.stop_reason, 'refusal')
  const inputs: unknown[] = []
  const stream = client.messages.stream(hello).on('inputJson', piece => inputs.push(piece))
  const called = await stream.finalMessage()
  t.deepEqual(called.content as unknown, [{ type: 'tool_use', id: 'toolu_empty', name: 'now', input: {} }])
  t.deepEqual(inputs, [])
})

const user = (content: unknown) => ({ role: 'user', content })
const called = { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'w', input: {} }] }
const answered = { type: 'tool_result', tool_use_id: 'call_1' }
const refused: [name: string, change: object, message: RegExp][] = [
  ['max_tokens', { max_tokens: undefined }, /max_tokens: Field required/],
  ['an unknown field', { n: 2 }, /n: Extra inputs are not permitted/],
  ['no messages', { messages: [] }, /at least one message/],
  ['two user messages in a row', { messages: [user('a'), user('b')] }, /roles must alternate/],
  ['an assistant first', { messages: [{ role: 'assistant', content: 'a' }] }, /first message must use/],
  ['empty text', { messages: [user([{ type: 'text', text: '' }])] }, /must be non-empty/],
  ['blank text', { messages: [user([{ type: 'text', text: ' ' }])] }, /non-whitespace/],
  ['a stray tool result', { messages: [user([answered])] }, /unexpected `tool_use_id`/],
  ['an unanswered tool call', { messages: [user('a'), called, user('b')] }, /without `tool_result` blocks/],
  [
    'text before results',
    { messages: [user('a'), called, user([{ type: 'text', text: 'b' }, answered])] },
    /must come first/,
  ],
  ['tool_choice without tools', { tool_choice: { type: 'auto' } }, /only be specified while providing tools/],
  ['a tool without an object schema', { tools: [{ name: 'w', input_schema: {} }] }, /input_schema.type/],
  ['temperature over 1', { temperature: 1.5, version: '2023-06-01' }, /temperature: range/],
  [
    'temperature for a newer model',
    { model: 'claude-opus-4-7', temperature: 1, version: '2023-06-01' },
    /temperature: not supported/,
  ],
  ['top_p under the newer API version', { top_p: 0.5 }, /top_p: not supported/],
  [
    'a thinking budget over the ceiling',
    { thinking: { type: 'enabled', budget_tokens: 2000 } },
    /must be greater than/,
  ],
  [
    'a bitmap',
    { messages: [user([{ type: 'image', source: { type: 'base64', media_type: 'image/bmp', data: 'AAAA' } }])] },
    /media_type/,
  ],
]

for (const [name, { version = '2026-10-21', ...change }, message] of refused as [
  string,
  { version?: string },
  RegExp,
][]) {
  test(`400: ${name} is refused`, async t => {
    const { client } = await setUp(t)
    const request = { ...hello, ...change } as Anthropic.MessageCreateParamsNonStreaming
    const options = { headers: { 'anthropic-version': version } }
    const error = await t.throwsAsync(client.messages.create(request, options), {
      instanceOf: Anthropic.BadRequestError,
    })
    t.regex(error!.message, message)
  })
}

test('200: an older model takes a temperature under the older API version', async t => {
  const { client } = await setUp(t)
  const request = { ...hello, temperature: 0.5 } as Anthropic.MessageCreateParamsNonStreaming
  const message = await client.messages.create(request, { headers: { 'anthropic-version': '2023-06-01' } })
  t.is(message.stop_reason, 'end_turn')
})

test('401: no credentials; either auth header is taken', async t => {
  const { emulator } = await setUp(t)
  const ask = async (headers: Record<string, string>) => {
    const all = { 'anthropic-version': '2023-06-01', 'content-type': 'application/json', ...headers }
    const response = await fetch(`${emulator.url}/v1/messages`, {
      method: 'POST',
      headers: all,
      body: JSON.stringify(hello),
    })
    return { status: response.status, body: (await response.json()) as { error?: { type: string } } }
  }
  const { status, body } = await ask({})
  t.deepEqual([status, body.error?.type], [401, 'authentication_error'])
  t.is((await ask({ 'x-api-key': 'k' })).status, 200)
  t.is((await ask({ authorization: 'Bearer k' })).status, 200)
  t.is((await ask({ authorization: 'Basic k' })).status, 401)
})

test('404: another path', async t => {
  const { client } = await setUp(t)
  await t.throwsAsync(client.models.list(), { instanceOf: Anthropic.NotFoundError })
})

test('429 and 529: the failures are the SDK’s error classes', async t => {
  const { client, emulator } = await setUp(t)
  emulator.next(rateLimited(7), overloaded)
  const limited = await t.throwsAsync(client.messages.create(hello), { instanceOf: Anthropic.RateLimitError })
  t.is((limited as InstanceType<typeof Anthropic.RateLimitError>).headers.get('retry-after'), '7')
  const full = await t.throwsAsync(client.messages.create(hello), { instanceOf: Anthropic.InternalServerError })
  t.is((full as InstanceType<typeof Anthropic.APIError>).status, 529)
})

test('error and cut: broken streams reach the SDK as errors', async t => {
  const { client, emulator } = await setUp(t)
  emulator.next(errorMidStream(), cutMidStream)
  const pieces: string[] = []
  const failing = client.messages.stream(hello).on('text', piece => pieces.push(piece))
  await t.throwsAsync(failing.finalMessage(), { message: /overloaded_error/ })
  t.true(pieces.length > 0 && 'Half an answer'.startsWith(pieces.join('')))
  await t.throwsAsync(client.messages.stream(hello).finalMessage())
})
