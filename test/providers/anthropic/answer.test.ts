import { anthropic } from '../../../shared/providers/adapters/anthropic/protocol.ts'
import { type FailureReason, ProviderError } from '../../../shared/providers/provider-error.ts'
import { messageEvents, sse } from '../../emulators/anthropic.ts'
import {
  adapter,
  answerTo,
  callForAnswer,
  decoded,
  eventsOf,
  message,
  summed,
} from '../../support/providers/anthropic.ts'
import { test } from '../../support/test.ts'

test('answer: text, thinking and tool calls', t => {
  const content = [
    { type: 'thinking', thinking: 'Hm.', signature: 's' },
    { type: 'redacted_thinking', data: 'x' },
    { type: 'text', text: 'Check' },
    { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
    { type: 'text', text: 'ing.' },
    { type: 'tool_use', id: 'toolu_1', name: 'w', input: { city: 'Oslo' } },
  ]
  const { created, usage: _usage, ...rest } = answerTo({ content, stop_reason: 'tool_use' })
  t.true(Number.isInteger(created))
  t.deepEqual(rest as unknown, {
    id: 'chatcmpl-msg_01',
    object: 'chat.completion',
    model: 'claude-x',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: 'Checking.',
          refusal: null,
          reasoning_content: 'Hm.',
          tool_calls: [{ id: 'toolu_1', type: 'function', function: { name: 'w', arguments: '{"city":"Oslo"}' } }],
        },
        logprobs: null,
        finish_reason: 'tool_calls',
      },
    ],
  })
})

for (const [stopReason, finish] of [
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['pause_turn', 'stop'],
  ['something_new', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  // Of calls that it does not make.
  ['tool_use', 'stop'],
  ['refusal', 'content_filter'],
] as const) {
  test(`finish: ${stopReason} is ${finish}`, t => {
    t.is(answerTo({ stop_reason: stopReason }).choices[0]?.finish_reason, finish)
    const { chunks } = decoded(eventsOf(messageEvents({ ...message, stop_reason: stopReason }).map(sse)))
    t.deepEqual(summed(chunks).finish, [finish])
  })
}

test('answer: no text is null content, no counts are no usage, a refusal is explained', t => {
  const stop_details = { type: 'refusal', category: null, explanation: 'No.' }
  const refused = answerTo({ content: [], usage: undefined, stop_reason: 'refusal', stop_details })
  t.deepEqual(refused.choices[0]?.message as unknown, { role: 'assistant', content: null, refusal: 'No.' })
  t.false('usage' in refused)
})

for (const [title, change] of [
  ['no content', { content: undefined }],
  ['text that is none', { content: [{ type: 'text', text: 5 }] }],
  ['a block that is none', { content: ['text'] }],
  ['tool input that is none', { content: [{ type: 'tool_use', id: 'a', name: 'w', input: 'x' }] }],
  ['no stop reason', { stop_reason: null }],
  ['no id', { id: undefined }],
  ['no model', { model: 1 }],
  ['usage that is none', { usage: 'many' }],
] as const) {
  test(`invalid_response: an answer with ${title}`, t => {
    t.is(t.throws(() => answerTo(change), { instanceOf: ProviderError })?.reason, 'invalid_response')
  })
}

test('overloaded: an error in an answer of 200, in either dialect', t => {
  const json = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
  const native = anthropic.direct.messages!
  for (const answer of [() => adapter.answer(json, callForAnswer), () => native.answer(json, callForAnswer as never)])
    t.is(t.throws(answer, { instanceOf: ProviderError })?.reason, 'overloaded')
})

test('invalid_response: an answer that is no object', t => {
  for (const json of [null, 'text', []]) {
    t.is(t.throws(() => adapter.answer(json, callForAnswer), { instanceOf: ProviderError })?.reason, 'invalid_response')
  }
})

test('stream: unknown events, deltas and blocks pass silently; nothing comes after the end', t => {
  const known = messageEvents(message)
  const unknown = [
    { type: 'news' },
    { type: 'content_block_delta', index: 0, delta: { type: 'citations_delta', citation: {} } },
    {
      type: 'content_block_start',
      index: 7,
      content_block: { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
    },
    { type: 'content_block_delta', index: 7, delta: { type: 'input_json_delta', partial_json: '{}' } },
    { type: 'content_block_stop', index: 7 },
    { type: 'message_delta', delta: {}, usage: { output_tokens: null } },
  ]
  const mixed = [...known.slice(0, 3), ...unknown, ...known.slice(3), { type: 'ping' }, known[0]!]
  const plain = decoded(eventsOf(known.map(sse))).chunks
  const { chunks } = decoded(eventsOf(mixed.map(sse)))
  t.deepEqual(
    chunks.map(chunk => chunk.choices),
    plain.map(chunk => chunk.choices),
  )
  t.is(summed(chunks).content, 'Hello')
})

test('stream: a piece of nothing is not passed on', t => {
  const content = [{ type: 'tool_use', id: 'toolu_1', name: 'w', input: { city: 'Oslo' } }]
  const list = messageEvents({ ...message, content }, input => [input, ''])
  const { chunks } = decoded(eventsOf(list.map(sse)))
  const pieces = chunks.flatMap(chunk => chunk.choices.flatMap(choice => choice.delta.tool_calls ?? []))
  t.deepEqual(
    pieces.map(piece => piece.function.arguments),
    ['', '{"city":"Oslo"}'],
  )
})

test('stream: counters are cumulative and the last number of each counts', t => {
  const list = messageEvents({ ...message, usage: { input_tokens: 60, output_tokens: 5 } })
  const later = {
    input_tokens: 70,
    output_tokens: 30,
    cache_read_input_tokens: 8,
    output_tokens_details: { thinking_tokens: 4 },
  }
  list.splice(-1, 0, { type: 'message_delta', delta: { stop_reason: null }, usage: later })
  const { usage } = summed(decoded(eventsOf(list.map(sse))).chunks)
  t.deepEqual(usage as unknown, [
    {
      prompt_tokens: 78,
      completion_tokens: 30,
      total_tokens: 108,
      prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 4 },
    },
  ])
})

for (const [title, ttl, split, writes1h] of [
  ['as reported', '1h', { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 70 }, 70],
  [
    'as reported, without a mark of one hour',
    '5m',
    { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 70 },
    70,
  ],
  ['as the dearest of the marks, if only their sum is reported', '1h', null, 100],
  ['none of one hour, if no mark asked for it', '5m', null, undefined],
  ['those of no stated lifetime as the dearest of the marks', '1h', { ephemeral_5m_input_tokens: 30 }, 70],
] as const) {
  test(`cache writes by lifetime: ${title}`, t => {
    const usage = {
      input_tokens: 5,
      output_tokens: 2,
      cache_read_input_tokens: 20,
      cache_creation_input_tokens: 100,
      cache_creation: split,
    }
    const body = { ...callForAnswer.body, cache_control: { type: 'ephemeral' as const, ttl } }
    const call = { ...callForAnswer, body }
    const whole = adapter.answer({ ...message, usage }, call).usage
    const list = messageEvents({ ...message, usage })
    const decoder = adapter.stream!(call)
    const chunks = eventsOf(list.map(sse)).flatMap(event => decoder.push(event))
    for (const counted of [whole, chunks.at(-1)?.usage]) {
      t.is(counted?.prompt_tokens, 125)
      t.deepEqual(counted?.prompt_tokens_details, {
        cached_tokens: 20,
        cache_write_tokens: 100,
        ...(writes1h && { cache_write_1h_tokens: writes1h }),
      })
    }
  })
}

test('stream: not done before the stop reason', t => {
  const list = eventsOf(messageEvents(message).map(sse))
  t.false(decoded(list.slice(0, -2)).done)
  t.true(decoded(list.slice(0, -1)).done)
  t.true(decoded(list).done)
})

test('answer: a call without input has no arguments', t => {
  for (const input of [null, undefined]) {
    const content = [{ type: 'tool_use', id: 'toolu_1', name: 'w', input }]
    const [choice] = answerTo({ content, stop_reason: 'tool_use' }).choices
    t.like(choice!.message.tool_calls![0], { function: { name: 'w', arguments: '{}' } })
  }
})

const start = { type: 'message_start', message: { ...message, content: [] } }
for (const [title, list] of [
  ['JSON that is none', ['{"type":']],
  ['an event that is no object', ['[]']],
  ['text before the start', [{ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' } }]],
  ['a delta without text', [start, { type: 'content_block_delta', index: 0, delta: { type: 'text_delta' } }]],
  ['an end without a stop reason', [start, { type: 'message_stop' }]],
] as [string, (object | string)[]][]) {
  test(`invalid_response: a stream with ${title}`, t => {
    const events = list.map(data => ({ event: '', data: typeof data === 'string' ? data : JSON.stringify(data) }))
    t.is(t.throws(() => decoded(events), { instanceOf: ProviderError })?.reason, 'invalid_response')
  })
}

const uuid = '0b6f1a52-5d0c-4a8e-9a59-6c2f0f3f2a11'
const spendLimit = { error_code: 'enforced_spend_limit_reached' }
const lowCredit = 'Your credit balance is too low to access the API.'
/** What the provider says → reason and, where it differs from "not passed on", the message. */
const failures: [
  status: number,
  type: string,
  message: string,
  reason: FailureReason,
  passedOn?: string | null,
  details?: object,
][] = [
  [400, 'invalid_request_error', 'messages.0: bad', 'invalid_request', 'messages.0: bad'],
  [400, 'invalid_request_error', 'prompt is too long: 9 > 8', 'context_length', 'prompt is too long: 9 > 8'],
  [400, 'invalid_request_error', 'input length and `max_tokens` exceed context limit: 9 > 8', 'context_length'],
  [400, 'invalid_request_error', 'Output blocked by content filtering policy', 'content_filter'],
  [400, 'invalid_request_error', lowCredit, 'quota', null],
  [400, 'invalid_request_error', 'You have reached your specified API usage limits.', 'quota', null],
  [
    400,
    'invalid_request_error',
    `Bad key sk-ant-api03-Ab_c-1 of a@b.example in ${uuid}`,
    'invalid_request',
    'Bad key [redacted] of [redacted] in [redacted]',
  ],
  [401, 'authentication_error', 'invalid x-api-key sk-ant-1', 'auth', null],
  [402, 'billing_error', 'Organisation has no funds', 'quota', null],
  [403, 'permission_error', `Workspace ${uuid}`, 'auth', null],
  [404, 'not_found_error', 'model: claude-x', 'model_unavailable', null],
  [409, 'conflict_error', 'Conflict', 'server_error', null],
  [413, 'request_too_large', 'Request exceeds the maximum size', 'invalid_request', 'Request exceeds the maximum size'],
  [429, 'rate_limit_error', `organization ${uuid}`, 'rate_limited', null],
  [429, 'rate_limit_error', `organization ${uuid}`, 'quota', null, spendLimit],
  [500, 'api_error', 'Internal server error', 'server_error', null],
  [504, 'timeout_error', 'Timed out', 'server_error', null],
  [529, 'overloaded_error', 'Overloaded', 'overloaded', null],
]

for (const [index, [status, type, said, reason, passedOn, details]] of failures.entries()) {
  test(`${status} ${type} is ${reason} (${index})`, t => {
    const error = { type, message: said, details }
    const whole = anthropic.failure(status, {}, JSON.stringify({ type: 'error', error, request_id: 'req_1' }))
    t.deepEqual([whole.reason, whole.status, whole.retryAfterMs], [reason, status, null])
    if (passedOn === null) t.false(whole.message.includes(said))
    else t.is(whole.message, passedOn ?? said)

    const event = { event: 'error', data: JSON.stringify({ type: 'error', error }) }
    const streamed = t.throws(() => decoded([event]), { instanceOf: ProviderError })
    t.deepEqual([streamed?.reason, streamed?.status, streamed?.message], [reason, null, whole.message])
  })
}

for (const [status, reason] of [
  [400, 'invalid_request'],
  [401, 'auth'],
  [402, 'quota'],
  [403, 'auth'],
  [404, 'model_unavailable'],
  [405, 'model_unavailable'],
  [409, 'server_error'],
  [410, 'model_unavailable'],
  [413, 'invalid_request'],
  [422, 'invalid_request'],
  [429, 'rate_limited'],
  [408, 'server_error'],
  [425, 'server_error'],
  [451, 'model_unavailable'],
  [499, 'server_error'],
  [500, 'server_error'],
  [502, 'server_error'],
  [503, 'overloaded'],
  [529, 'overloaded'],
] as [number, FailureReason][]) {
  test(`${status} without an error body is ${reason}`, t => {
    for (const body of ['', '<html>proxy of org secret</html>', 'null', '{"error":"x"}']) {
      const error = anthropic.failure(status, {}, body)
      t.is(error.reason, reason)
      t.false(error.message.includes('proxy'))
    }
  })
}

test('429: retry-after is read in seconds or as a date, and is a day at most', t => {
  const date = 'Wed, 21 Oct 2026 07:27:00 GMT'
  const retryAfterMs = (value: string | string[] | undefined) =>
    anthropic.failure(429, { 'retry-after': value, date }, '').retryAfterMs
  t.is(retryAfterMs('7'), 7000)
  t.is(retryAfterMs('0.25'), 250)
  t.is(retryAfterMs(undefined), null)
  t.is(retryAfterMs('Wed, 21 Oct 2026 07:28:00 GMT'), 60_000)
  t.is(retryAfterMs('999999999'), 86_400_000)
  t.is(retryAfterMs('Infinity'), null)
  t.is(retryAfterMs('-1'), null)
})
