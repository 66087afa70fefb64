import { events } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { responsesReply } from '../../emulators/openai-responses.ts'
import { dataOf, startWorld, upstreamSecret } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Streams of servers that speak OpenAI's chat, but not as OpenAI does, in every dialect of the gateway. */

const server = use(test, startOpenAiEmulator)
const world = use(test, () => startWorld({ MISTRAL_API_KEY: upstreamSecret, MISTRAL_BASE_URL: `${server.url}/v1` }))
test.beforeEach(() => server.reset())

const model = 'mistral-large-3'
const only = { provider: { only: ['mistral'] } }
const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const names = ['get_weather', 'get_time']
const usage = { prompt_tokens: 20, completion_tokens: 12, total_tokens: 32 }

type Dialect = 'chat' | 'messages' | 'responses' | 'gemini'
const dialects: Dialect[] = ['chat', 'messages', 'responses', 'gemini']

/** A streamed request in a dialect, with two tools. */
function requestIn(dialect: Dialect): [path: string, body: object] {
  const text = 'Hello'
  const messages = [{ role: 'user', content: text }]
  const declared = names.map(name => ({ name, parameters }))
  const tools = declared.map(one => ({ type: 'function', function: one }))
  switch (dialect) {
    case 'chat':
      return ['/v1/chat/completions', { model, ...only, stream: true, messages, tools }]
    case 'messages': {
      const offered = names.map(name => ({ name, input_schema: parameters }))
      return ['/v1/messages', { model, ...only, stream: true, max_tokens: 100, messages, tools: offered }]
    }
    case 'responses': {
      const offered = declared.map(one => ({ type: 'function', ...one, strict: false }))
      return ['/v1/responses', { model, ...only, stream: true, input: text, tools: offered }]
    }
    case 'gemini': {
      const body = { contents: [{ role: 'user', parts: [{ text }] }], tools: [{ functionDeclarations: declared }] }
      return [`/v1beta/models/${model}:streamGenerateContent?alt=sse`, { ...body, ...only }]
    }
  }
}

type Call = [name: string, args: unknown]
type Read = { text: string; calls: Call[]; end: string }

/** What a client of the dialect reads of a stream, joined as OpenAI's SDK for Node does: the last name counts. */
function readIn(dialect: Dialect, stream: string): Read {
  // biome-ignore lint/suspicious/noExplicitAny: events of four dialects
  const all: any[] = dataOf(stream).filter(one => one !== '[DONE]')
  for (const one of all) if (typeof one !== 'object' || one === null) throw new Error(`an event is ${one}`)
  const read: Read = { text: '', calls: [], end: '' }
  const pieces: { name: string; args: string }[] = []
  for (const event of all)
    if (dialect === 'chat') {
      for (const { delta, finish_reason } of event.choices) {
        read.text += delta.content ?? ''
        for (const { index, function: fn } of delta.tool_calls ?? []) {
          pieces[index] ??= { name: '', args: '' }
          if (fn.name) pieces[index].name = fn.name
          pieces[index].args += fn.arguments ?? ''
        }
        if (finish_reason) read.end += finish_reason
      }
    } else if (dialect === 'messages') {
      if (event.content_block?.type === 'tool_use') pieces.push({ name: event.content_block.name, args: '' })
      read.text += event.delta?.text ?? ''
      if (event.delta?.partial_json) pieces.at(-1)!.args += event.delta.partial_json
      read.end += event.delta?.stop_reason ?? ''
    } else if (dialect === 'responses') {
      if (event.type === 'response.output_text.delta') read.text += event.delta
      if (event.item?.type === 'function_call' && event.type === 'response.output_item.added')
        pieces.push({ name: event.item.name, args: '' })
      if (event.type === 'response.function_call_arguments.delta') pieces.at(-1)!.args += event.delta
      if (event.type === 'response.completed') read.end += 'completed'
      if (event.type === 'response.incomplete') read.end += event.response.incomplete_details.reason
    } else {
      for (const { content, finishReason } of event.candidates ?? []) {
        for (const { text, functionCall } of content?.parts ?? []) {
          read.text += text ?? ''
          if (functionCall) read.calls.push([functionCall.name, functionCall.args])
        }
        read.end += finishReason ?? ''
      }
    }
  if (dialect !== 'gemini') read.calls = pieces.map(({ name, args }) => [name, JSON.parse(args || '{}')])
  return read
}

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) =>
  JSON.stringify({
    id: 'c-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'up',
    choices: [{ index: 0, delta, finish_reason }],
    ...more,
  })
const role = chunk({ role: 'assistant', content: '' })

async function readAll(datas: string[]): Promise<[Dialect, Read][]> {
  const { live } = await world.gateway.account()
  const stream = [...datas, '[DONE]'].map(data => `data: ${data}\n\n`)
  const read: [Dialect, Read][] = []
  for (const dialect of dialects) {
    server.next(events(stream))
    const [path, body] = requestIn(dialect)
    const response = await world.gateway.fetch(path, { key: live, body })
    const text = await response.text()
    if (response.status !== 200) throw new Error(text)
    read.push([dialect, readIn(dialect, text)])
  }
  return read
}

const ends = {
  stop: { chat: 'stop', messages: 'end_turn', responses: 'completed', gemini: 'STOP' },
  length: { chat: 'length', messages: 'max_tokens', responses: 'max_output_tokens', gemini: 'MAX_TOKENS' },
  tool_calls: { chat: 'tool_calls', messages: 'tool_use', responses: 'completed', gemini: 'STOP' },
}

for (const data of ['null', '{}', '{ }', 'null ']) {
  // Kilo-Org/kilocode#3083 (AgentRouter), NousResearch/hermes-agent#80822 and #75525, earendil-works/pi#2466.
  test.serial(`200 streamed, with \`data: ${data}\` between the chunks, which is dropped`, async t => {
    const answer = [data, role, data, chunk({ content: 'Fi' }), data, chunk({ content: 'ne.' }), data]
    const read = await readAll([...answer, chunk({}, 'stop', { usage }), data])
    for (const [dialect, { text, end }] of read)
      t.deepEqual([text, end], ['Fine.', ends.stop[dialect]], `${dialect}, ${data}`)
  })
}

for (const [first, second] of [
  ['length', 'stop'],
  ['stop', 'length'],
] as const)
  test.serial(
    `200 streamed, with two finish reasons: ${first} before ${second} is ${first} in every dialect`,
    async t => {
      const read = await readAll([role, chunk({ content: 'Fi' }), chunk({}, first), chunk({}, second, { usage })])
      for (const [dialect, { text, end }] of read) t.deepEqual([text, end], ['Fi', ends[first][dialect]], dialect)
    },
  )

const call = (fn: object, more: object = {}) => chunk({ tool_calls: [{ index: 0, function: fn, ...more }] })
const begin = { id: 'call_a', type: 'function' }
const rest = call({ arguments: '{"city":"Oslo"}' })
const namings: [what: string, chunks: string[]][] = [
  // continuedev/continue#5849: Gemini's compatible API.
  ['in two pieces', [call({ name: 'get_wea', arguments: '' }, begin), call({ name: 'ther' }), rest]],
  [
    'in pieces that end with the arguments',
    [call({ name: 'get_' }, begin), call({ name: 'weather', arguments: '{"city":"Oslo"}' })],
  ],
  [
    'in pieces, with the arguments',
    [call({ name: 'get_wea', arguments: '{"city"' }, begin), call({ name: 'ther', arguments: ':"Oslo"}' })],
  ],
  // NousResearch/hermes-agent#11984: MiniMax at NVIDIA.
  [
    'again in each chunk',
    [call({ name: 'get_weather', arguments: '' }, begin), call({ name: 'get_weather', arguments: '{"city":"Oslo"}' })],
  ],
  ['after its id', [call({ name: '', arguments: '' }, begin), call({ name: 'get_weather' }), rest]],
  [
    'after its id, which has no function',
    [chunk({ tool_calls: [{ index: 0, ...begin }] }), call({ name: 'get_weather' }), rest],
  ],
]
for (const [what, chunks] of namings)
  test.serial(`200 streamed, with the name of a function ${what}: whole in every dialect`, async t => {
    const read = await readAll([role, ...chunks, chunk({}, 'tool_calls', { usage })])
    for (const [dialect, { calls, end }] of read) {
      t.deepEqual(calls, [['get_weather', { city: 'Oslo' }]], dialect)
      t.is(end, ends.tool_calls[dialect])
    }
  })

test.serial('200 streamed, with a name that no tool has, though one begins with it: as it came', async t => {
  const read = await readAll([role, call({ name: 'get', arguments: '{}' }, begin), chunk({}, 'tool_calls', { usage })])
  for (const [dialect, { calls }] of read) t.deepEqual(calls, [['get', {}]], dialect)
})

test.serial('200 streamed, with two calls, of which the first has a name in pieces: in their order', async t => {
  const second = { index: 1, id: 'call_b', type: 'function', function: { name: 'get_time', arguments: '{}' } }
  const read = await readAll([
    role,
    call({ name: 'get_', arguments: '' }, begin),
    call({ name: 'weather', arguments: '{"city":"Oslo"}' }),
    chunk({ tool_calls: [second] }),
    chunk({}, 'tool_calls', { usage }),
  ])
  for (const [dialect, { calls }] of read)
    t.deepEqual(
      calls,
      [
        ['get_weather', { city: 'Oslo' }],
        ['get_time', {}],
      ],
      dialect,
    )
})

test.serial(
  '200 streamed from a server that has Responses, with `data: null` and `data: {}` between its events',
  async t => {
    const { live } = await world.gateway.account()
    world.openai.next(responsesReply({ write: event => `${JSON.stringify(event)}\n\ndata: null\n\ndata: {}` }))
    const body = { model: 'gpt-4o-mini', provider: { only: ['openai'] }, stream: true, input: 'Hello', store: false }
    const response = await world.gateway.fetch('/v1/responses', { key: live, body })
    const { text, end } = readIn('responses', await response.text())
    t.deepEqual([response.status, text !== '', end], [200, true, 'completed'])
  },
)
