import Anthropic from '@anthropic-ai/sdk'
import { sse } from '../../emulators/anthropic.ts'
import { events } from '../../emulators/emulator.ts'
import { chargedNano, expectedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Streams with every kind of event: the SDK makes the same message of them directly and through the gateway. */

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => world.anthropic.reset())

type Event = { type: string; [field: string]: unknown }

const counts = {
  input_tokens: 25,
  cache_creation_input_tokens: 100,
  cache_read_input_tokens: 2_000,
  cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 0 },
  output_tokens: 1,
  service_tier: 'standard',
  inference_geo: 'not_available',
}
const start: Event = {
  type: 'message_start',
  message: {
    id: 'msg_01',
    type: 'message',
    role: 'assistant',
    model: 'claude-sonnet-4-5-20250929',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
    usage: counts,
  },
}
const ping: Event = { type: 'ping' }
const delta = (index: number, one: object): Event => ({ type: 'content_block_delta', index, delta: one })
const block = (index: number, content_block: object, ...deltas: object[]): Event[] => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map(one => delta(index, one)),
  { type: 'content_block_stop', index },
]
const ending = (stop_reason: string, more: object = {}, usage: object = {}): Event[] => [
  {
    type: 'message_delta',
    delta: { stop_reason, stop_sequence: null, ...more },
    usage: { output_tokens: 40, ...usage },
  },
  { type: 'message_stop' },
]
const text = (...parts: string[]) => parts.map(part => ({ type: 'text_delta', text: part }))
const json = (...parts: string[]) => parts.map(partial_json => ({ type: 'input_json_delta', partial_json }))
const emptyText = { type: 'text', text: '' }
const found = {
  type: 'web_search_result',
  title: 'Oslo',
  url: 'https://a.example/',
  page_age: null,
  encrypted_content: 'Eo8B',
}

const streams: Record<string, Event[]> = {
  'text with pings at every place': [
    ...[ping, start, ping],
    ...block(0, emptyText, ...text('Hél', 'lo 🙂\n\n', '"data: x"')).flatMap(event => [event, ping]),
    ...ending('end_turn'),
  ],
  'thinking, omitted thinking and redacted thinking': [
    start,
    ...block(
      0,
      { type: 'thinking', thinking: '', signature: '' },
      { type: 'thinking_delta', thinking: 'Let me ' },
      { type: 'thinking_delta', thinking: 'think.' },
      { type: 'signature_delta', signature: 'EqQBCkgIARAB+/w==' },
    ),
    ...block(1, { type: 'redacted_thinking', data: 'EmwKAhgBEgy3va3pzix/LafPsn4=' }),
    ...block(2, { type: 'thinking', thinking: '', signature: '' }, { type: 'signature_delta', signature: 'c2ln' }),
    ...block(3, emptyText, ...text('Yes.')),
    ...ending('end_turn'),
  ],
  citations: [
    start,
    ...block(
      0,
      { type: 'text', text: '', citations: [] },
      ...text('Green '),
      {
        type: 'citations_delta',
        citation: {
          type: 'char_location',
          cited_text: 'The grass is green.',
          document_index: 0,
          document_title: 'A',
          start_char_index: 0,
          end_char_index: 19,
          file_id: null,
        },
      },
      ...text('grass.'),
    ),
    ...ending('end_turn'),
  ],
  'parallel tools, without arguments and with them in pieces': [
    start,
    ...block(0, emptyText, ...text('I will look.')),
    ...block(1, { type: 'tool_use', id: 'toolu_1', name: 'now', input: {} }, ...json('')),
    ...block(
      2,
      { type: 'tool_use', id: 'toolu_2', name: 'w', input: {}, caller: { type: 'direct' } },
      ...json('', '{"ci', 'ty": "Os', 'lo", "n": [1, 2.50, {"deep": null}]}'),
    ),
    ...ending('tool_use'),
  ],
  'the provider’s own tools': [
    start,
    ...block(
      0,
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
      ...json('', '{"query":"Oslo"}'),
    ),
    ...block(1, {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [found],
      caller: { type: 'direct' },
    }),
    ...block(
      2,
      { type: 'server_tool_use', id: 'srvtoolu_2', name: 'web_fetch', input: {} },
      ...json('{"url":"https://a.example/"}'),
    ),
    ...block(3, {
      type: 'web_fetch_tool_result',
      tool_use_id: 'srvtoolu_2',
      content: { type: 'web_fetch_tool_error', error_code: 'url_not_accessible' },
    }),
    ...block(
      4,
      { type: 'mcp_tool_use', id: 'mcptoolu_1', name: 'echo', server_name: 's', input: {} },
      ...json('{"a":1}'),
    ),
    ...block(5, {
      type: 'mcp_tool_result',
      tool_use_id: 'mcptoolu_1',
      is_error: false,
      content: [{ type: 'text', text: '1' }],
    }),
    ...block(
      6,
      emptyText,
      {
        type: 'citations_delta',
        citation: {
          type: 'web_search_result_location',
          cited_text: 'Oslo is',
          url: 'https://a.example/',
          title: 'Oslo',
          encrypted_index: 'Eo8BCioI',
        },
      },
      ...text('Oslo is a city.'),
    ),
    ...ending('pause_turn', {}, { server_tool_use: { web_search_requests: 1, web_fetch_requests: 1 } }),
  ],
  'a fallback to another model, and a summary': [
    start,
    ...block(0, { type: 'compaction', content: null }, { type: 'compaction_delta', content: 'So far: nothing.' }),
    ...block(1, { type: 'fallback', from: { model: 'a' }, to: { model: 'b' }, trigger: { type: 'refusal' } }),
    ...block(2, emptyText, ...text('Hi')),
    ...ending(
      'end_turn',
      { container: { id: 'c_1', expires_at: '2026-11-23T00:00:00Z' } },
      {
        iterations: [
          {
            type: 'message',
            input_tokens: 25,
            output_tokens: 40,
            cache_read_input_tokens: 0,
            cache_creation_input_tokens: 0,
          },
        ],
      },
    ),
  ],
  'usage in several deltas, of which the last has all counters': [
    start,
    ...block(0, emptyText, ...text('Hi')),
    { type: 'message_delta', delta: { stop_reason: null, stop_sequence: null }, usage: { output_tokens: 7 } },
    ...ending(
      'stop_sequence',
      { stop_sequence: 'END' },
      { input_tokens: 30, cache_read_input_tokens: 2_000, cache_creation_input_tokens: 100 },
    ),
  ],
  'a refusal without content': [
    start,
    ...ending('refusal', { stop_details: { type: 'refusal', category: 'cyber', explanation: 'No.' } }),
  ],
  'the end of the context': [start, ...block(0, emptyText, ...text('Hi')), ...ending('model_context_window_exceeded')],
  'unknown events, blocks, deltas and fields': [
    { ...start, new_field: 1 },
    { type: 'brand_new_event', any: { deep: [1.5] } },
    ...block(0, { type: 'brand_new_block', payload: { a: 1 } }, { type: 'brand_new_delta', piece: 'x' }),
    ...block(1, { ...emptyText, new_field: null }, ...text('Hi')),
    ...ending('brand_new_reason', { new_field: true }, { new_counter: 3 }),
  ],
}

/** What the SDK makes of the stream at an address; its events too, since the message lacks what it does not know. */
async function received(baseURL: string, apiKey: string) {
  const client = new Anthropic({ apiKey, baseURL, maxRetries: 0 })
  const request = { model: 'claude-opus-4-6', max_tokens: 4_000, messages: [{ role: 'user' as const, content: 'Hi' }] }
  const stream = client.beta.messages.stream(request)
  const seen: unknown[] = []
  stream.on('streamEvent', event => void seen.push(structuredClone(event)))
  return { message: structuredClone(await stream.finalMessage()), events: seen }
}

for (const [title, list] of Object.entries(streams))
  test.serial(`the same message directly and through the gateway: ${title}`, async t => {
    const account = await world.gateway.account({ usd: '100' })
    world.anthropic.next(events(list.map(sse)), events(list.map(sse)))
    const direct = await received(world.anthropic.url, 'key')
    const relayed = await received(world.gateway.url, account.live)
    t.deepEqual(relayed, direct)
    t.true(direct.events.length >= 3)
    t.true((await chargedNano(world, account)) > 0)
  })

test.serial('the same bytes, however the connection cuts them', async t => {
  const account = await world.gateway.account({ usd: '100' })
  for (const [title, list] of Object.entries(streams)) {
    const bytes = Buffer.from(list.map(sse).join(''))
    const pieces = Array.from({ length: Math.ceil(bytes.length / 97) }, (_, i) => bytes.subarray(i * 97, (i + 1) * 97))
    world.anthropic.next(events(pieces))
    const body = {
      model: 'claude-opus-4-6',
      max_tokens: 4_000,
      stream: true,
      messages: [{ role: 'user', content: 'Hi' }],
    }
    const response = await world.gateway.fetch('/v1/messages', { key: account.live, body })
    t.is(await response.text(), bytes.toString(), title)
  }
})

test.serial('an error before the first block is the provider’s own, as if it were asked directly', async t => {
  const { live } = await world.gateway.account({ usd: '100' })
  const error = { type: 'invalid_request_error', message: 'messages.0: bad' }
  const list = [start, ping, { type: 'error', error, request_id: 'req_1' }]
  const failures = await Promise.all(
    [
      [world.anthropic.url, 'key'],
      [world.gateway.url, live],
    ].map(([url, key]) => {
      world.anthropic.next(events(list.map(sse)))
      return t.throwsAsync(received(url!, key!), { instanceOf: Anthropic.APIError })
    }),
  )
  for (const failure of failures) t.regex(failure.message, /messages\.0: bad/)
})

test.serial('a stream that breaks pays its searches, and the prompt for each reading of their results', async t => {
  const usage = { input_tokens: 1_000, output_tokens: 1 }
  const begun = { type: 'message_start', message: { ...(start.message as object), usage } }
  const use = (id: string) => ({ type: 'server_tool_use', id, name: 'web_search', input: {} })
  const result = (id: string, content: unknown) => ({ type: 'web_search_tool_result', tool_use_id: id, content })
  const results = [{ ...found, encrypted_content: 'x'.repeat(40_000) }]
  const failed = { type: 'web_search_tool_result_error', error_code: 'unavailable' }
  world.anthropic.next(
    events(
      [
        begun,
        ...block(0, use('a')),
        ...block(1, result('a', results)),
        ...block(2, use('b')),
        ...block(3, result('b', results)),
        ...block(4, use('c')),
        ...block(5, result('c', failed)),
        ...block(6, emptyText, ...text('Both say so.')),
      ].map(sse),
      { end: 'cut' },
    ),
  )
  const account = await world.gateway.account({ usd: '100' })
  const body = {
    model: 'claude-haiku-4-5',
    max_tokens: 100,
    stream: true,
    messages: [{ role: 'user', content: 'Is it?' }],
    tools: [{ type: 'web_search_20260318', name: 'web_search', max_uses: 3 }],
  }
  const response = await world.gateway.fetch('/v1/messages', { key: account.live, body })
  t.regex(await response.text(), /event: error/)
  const booked = await generationOf(world, response.headers.get('x-generation-id')!)
  t.is(booked.webSearches, 2)
  // Four readings; the results of one search are 10,000 tokens.
  t.true(booked.promptTokens > 54_000 && booked.promptTokens < 55_000, String(booked.promptTokens))
})

const head = { id: 'msg_02', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null }
const end = { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null } }

const begun = { input_tokens: 25, output_tokens: 1 }

for (const [title, first, last] of [
  ['its end', begun, undefined],
  ['its end: null', begun, null],
  ['its beginning and its end', undefined, undefined],
  ['its beginning: null', null, { input_tokens: 25, output_tokens: 700 }],
] as const)
  test.serial(
    `200 for a stream without a usage at ${title}: the SDK reads counts, and all output is charged`,
    async t => {
      const account = await world.gateway.account()
      const sdk = new Anthropic({ apiKey: account.live, baseURL: world.gateway.url, maxRetries: 0 })
      const all = [
        { type: 'message_start', message: { ...head, usage: first } },
        ...block(0, emptyText, ...text('word '.repeat(700))),
        { ...end, usage: last },
        { type: 'message_stop' },
      ]
      world.anthropic.next(events(all.map(sse)))
      const messages = [{ role: 'user' as const, content: 'Hello' }]
      const { usage } = await sdk.messages
        .stream({ model: 'claude-sonnet-4-5', max_tokens: 2_000, messages })
        .finalMessage()
      t.true(usage.output_tokens > 690, String(usage.output_tokens))
      const { input_tokens: prompt_tokens, output_tokens: completion_tokens } = usage
      if (first) t.is(prompt_tokens, 25)
      const charged = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
      t.is(await chargedNano(world, account), expectedNano('claude-sonnet-4-5', charged))
    },
  )
