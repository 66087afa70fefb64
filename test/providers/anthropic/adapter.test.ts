import fc from 'fast-check'
import { anthropic } from '../../../shared/providers/adapters/anthropic/protocol.ts'
import type { Call } from '../../../shared/providers/contract.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import {
  cutMidStream,
  errorMidStream,
  messageEvents,
  overloaded,
  rateLimited,
  refusal,
  sse,
  startAnthropicEmulator,
  toolWithoutInput,
} from '../../emulators/anthropic.ts'
import {
  adapter,
  answerTo,
  callForAnswer,
  callOf,
  decoded,
  eventsOf,
  hi,
  message,
  summed,
  summedAnswer,
  type Traits,
  tool,
} from '../../support/providers/anthropic.ts'
import { goldenRequest } from '../../support/providers/golden-request.ts'
import { test } from '../../support/test.ts'

const weatherRequest = { model: 'X', ...goldenRequest }

test('golden: a whole request is translated field by field', t => {
  const request = adapter.request(callOf(weatherRequest))
  t.is(request.method, 'POST')
  t.is(request.path, '/v1/messages')
  t.deepEqual(request.headers, { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' })
  t.deepEqual(JSON.parse(String(request.body)), {
    model: 'X',
    max_tokens: 300,
    temperature: 0.2,
    stop_sequences: ['END'],
    metadata: { user_id: 'u1' },
    system: 'A\n\nB',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'weather?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'call_1', name: 'w', input: { city: 'Oslo' } },
          { type: 'tool_use', id: 'call_2', name: 'w', input: { city: 'Rome' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_1', content: '5C' },
          { type: 'tool_result', tool_use_id: 'call_2', content: '{"t":20}' },
          { type: 'text', text: 'thanks' },
        ],
      },
    ],
    tools: [
      { name: 'w', description: 'd', input_schema: { type: 'object', properties: { city: { type: 'string' } } } },
    ],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  })
})

test('golden: cache reads, cache writes and thinking are counted once', t => {
  t.deepEqual(answerTo({}).usage, {
    prompt_tokens: 1260,
    completion_tokens: 21,
    total_tokens: 1281,
    prompt_tokens_details: { cached_tokens: 1000, cache_write_tokens: 200 },
    completion_tokens_details: { reasoning_tokens: 8 },
  })
})

test('golden: a stream with text and a tool call', t => {
  const usage = { input_tokens: 60, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  const head = { id: 'msg_01', type: 'message', role: 'assistant', model: 'claude-x', content: [], stop_reason: null }
  const fixture = [
    { type: 'message_start', message: { ...head, stop_sequence: null, usage } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'ping' },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hel' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'lo' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} },
    },
    { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"city":' } },
    { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '"Oslo"}' } },
    { type: 'content_block_stop', index: 1 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 21 } },
    { type: 'message_stop' },
  ]
  const { chunks, done } = decoded(eventsOf(fixture.map(sse)))
  t.true(done)
  const { created } = chunks[0]!
  t.true(Number.isInteger(created))
  const whole = { id: 'chatcmpl-msg_01', object: 'chat.completion.chunk', created, model: 'claude-x' }
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    ...whole,
    choices: [{ index: 0, delta, finish_reason }],
    usage: null,
  })
  t.deepEqual(chunks as unknown[], [
    chunk({ role: 'assistant', content: '' }),
    chunk({ content: 'Hel' }),
    chunk({ content: 'lo' }),
    chunk({
      tool_calls: [{ index: 0, id: 'toolu_1', type: 'function', function: { name: 'get_weather', arguments: '' } }],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '"Oslo"}' } }] }),
    chunk({}, 'tool_calls'),
    { ...whole, choices: [], usage: { prompt_tokens: 60, completion_tokens: 21, total_tokens: 81 } },
  ])
})

const block = fc.oneof(
  fc.record({ type: fc.constant('text'), text: fc.string({ unit: 'grapheme', maxLength: 40 }) }),
  fc.record({ type: fc.constant('thinking'), thinking: fc.string({ maxLength: 40 }), signature: fc.constant('c2ln') }),
  fc.record({
    type: fc.constant('tool_use'),
    id: fc.uuid(),
    name: fc.constantFrom('w', 'now'),
    input: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4, noNullPrototype: true }),
  }),
)

/** Cuts text into pieces of the given lengths, used in turn. */
function cut(text: string, lengths: number[]): string[] {
  const pieces: string[] = []
  for (let at = 0, turn = 0; at < text.length; turn++) {
    const length = lengths[turn % lengths.length]!
    pieces.push(text.slice(at, at + length))
    at += length
  }
  return pieces
}

test('stream: any split of a message decodes to the same as its whole answer', t => {
  const lengths = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 8 })
  const contents = fc.array(block, { maxLength: 6 })
  fc.assert(
    fc.property(contents, lengths, lengths, (content, deltaLengths, chunkLengths) => {
      const whole = { ...message, content }
      const text = messageEvents(whole, piece => cut(piece, deltaLengths))
        .map(sse)
        .join('')
      const { chunks, done } = decoded(eventsOf(cut(text, chunkLengths)))
      t.true(done)
      t.deepEqual(summed(chunks), summedAnswer(adapter.answer(JSON.parse(JSON.stringify(whole)), callForAnswer)))
    }),
    { numRuns: 200 },
  )
})

const adaptive: Traits = { thinking: 'adaptive', effort: true }
const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }
const jsonSchema = { type: 'json_schema', json_schema: { name: 'out', schema } }

test('end to end: whole and streamed answers of an emulated API agree', async t => {
  const emulator = await startAnthropicEmulator()
  t.teardown(() => emulator.close())
  const ask = async (call: Call<'chat'>) => {
    const { path, headers, body, method } = adapter.request(call)
    const response = await fetch(emulator.url + path, {
      method,
      headers: { ...headers, 'x-api-key': 'test' },
      body: String(body),
    })
    return { response, text: await response.text() }
  }
  const both = async (body: object, traits?: Traits) => {
    const whole = callOf({ model: 'x', ...body }, traits)
    const answer = summedAnswer(adapter.answer(JSON.parse((await ask(whole)).text), whole))
    const { text } = await ask(callOf({ model: 'x', stream: true, ...body }, traits))
    t.deepEqual(summed(decoded(eventsOf([text])).chunks), answer)
    return answer
  }
  t.is((await both({ messages: [hi] })).content, 'Echo: hi')
  t.deepEqual((await both({ messages: [hi], max_tokens: 1 })).finish, ['length'])
  t.is((await both({ messages: [hi], reasoning_effort: 'low' }, adaptive)).reasoning, 'Let me think.')
  t.is((await both({ messages: [hi], response_format: jsonSchema })).content, '{"a":"text"}')
  const weather = { role: 'user', content: 'weather in Oslo and Rome' }
  const { toolCalls, finish } = await both({ messages: [weather], tools: [tool] })
  t.deepEqual(finish, ['tool_calls'])
  t.deepEqual(
    toolCalls.map(call => call.function.arguments),
    ['{"city":"Oslo"}', '{"city":"Rome"}'],
  )
  const results = toolCalls.map(call => ({ role: 'tool', tool_call_id: call.id, content: '5C' }))
  const history = [weather, { role: 'assistant', content: null, tool_calls: toolCalls }, ...results]
  t.is((await both({ messages: history, tools: [tool] })).content, 'Echo: 5C 5C')

  emulator.next(toolWithoutInput, toolWithoutInput, refusal, refusal)
  t.is((await both({ messages: [hi] })).toolCalls[0]?.function.arguments, '{}')
  const refused = await both({ messages: [hi] })
  t.deepEqual([refused.finish, refused.refusal], [['content_filter'], 'This cannot be answered.'])

  emulator.next(overloaded, rateLimited(3), errorMidStream(), cutMidStream)
  const streaming = callOf({ model: 'x', messages: [hi], stream: true })
  const failed = async () => {
    const { response, text } = await ask(streaming)
    return anthropic.failure(response.status, Object.fromEntries(response.headers), text)
  }
  t.is((await failed()).reason, 'overloaded')
  const limited = await failed()
  t.deepEqual([limited.reason, limited.retryAfterMs], ['rate_limited', 3000])
  const broken = await ask(streaming)
  t.is(t.throws(() => decoded(eventsOf([broken.text])), { instanceOf: ProviderError })?.reason, 'overloaded')
  await t.throwsAsync(ask(streaming))
})
