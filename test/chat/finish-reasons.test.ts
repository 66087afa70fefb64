import { messageReply } from '../emulators/anthropic.ts'
import { converseReply, startBedrockEmulator } from '../emulators/bedrock.ts'
import type { Emulator, Reply } from '../emulators/emulator.ts'
import { events, json } from '../emulators/emulator.ts'
import { finished, piece } from '../emulators/gemini.ts'
import { chatChunk } from '../emulators/openai.ts'
import { dataOf, generationOf, startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Finish reasons that do not fit the answer, whole and streamed, in each dialect of clients. */

// biome-ignore lint/suspicious/noExplicitAny: bodies of every dialect
type Any = any

const bedrock = use(test, () => startBedrockEmulator({ tokens: [upstreamSecret] }))
const world = use(test, () =>
  startWorld({
    OPENROUTER_API_KEY: '',
    AWS_BEARER_TOKEN_BEDROCK: upstreamSecret,
    BEDROCK_REGIONS: 'us-east-1',
    BEDROCK_US_EAST_1_BASE_URL: bedrock.url,
  }),
)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, bedrock]) emulator.reset()
})

const parameters = { type: 'object', properties: {} }
const tools = [{ type: 'function', function: { name: 'clock', parameters } }]
const messages = [{ role: 'user', content: 'Time?' }]

function chatAnswer(message: Any, finish_reason: string): Reply {
  return (request, response) => {
    const { tool_calls: calls, ...said } = message
    const delta = {
      ...said,
      ...(calls && { tool_calls: calls.map((call: Any, index: number) => ({ ...call, index })) }),
    }
    const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }
    const reply = request.body.stream
      ? events(
          [chatChunk(delta), chatChunk({}, finish_reason), { ...chatChunk({}), choices: [], usage }]
            .map(chunk => `data: ${JSON.stringify(chunk)}\n\n`)
            .concat('data: [DONE]\n\n'),
        )
      : json(200, {
          id: 'c',
          object: 'chat.completion',
          created: 1,
          model: 'm',
          choices: [{ index: 0, message, finish_reason }],
          usage,
        })
    return reply(request, response)
  }
}

const call = { id: 'call_1', type: 'function', function: { name: 'clock', arguments: '{}' } }
const use1 = { type: 'tool_use', id: 'toolu_1', name: 'clock', input: {} }
const toolUse = { toolUse: { toolUseId: 'tooluse_1', name: 'clock', input: {} } }
type Case = [server: string, model: string, emulator: () => Emulator, calls: Reply, text: Reply]
const cases: Case[] = [
  [
    'openai',
    'gpt-4.1',
    () => world.openai,
    chatAnswer({ role: 'assistant', content: null, tool_calls: [call] }, 'stop'),
    chatAnswer({ role: 'assistant', content: 'Noon.' }, 'tool_calls'),
  ],
  [
    'anthropic',
    'claude-haiku-4-5',
    () => world.anthropic,
    messageReply({ content: [use1], stop_reason: 'end_turn' }),
    messageReply({ content: [{ type: 'text', text: 'Noon.' }], stop_reason: 'tool_use' }),
  ],
  [
    'bedrock/us-east-1',
    'deepseek-v3.2',
    () => bedrock,
    converseReply({ content: [toolUse], stopReason: 'end_turn' }),
    converseReply({ content: [{ text: 'Noon.' }], stopReason: 'tool_use' }),
  ],
]

/** The reason that a client sees; of Responses, the types of its items. */
const dialects: Record<string, { body: object; whole(answer: Any): unknown; streamed(all: Any[]): unknown }> = {
  '/v1/chat/completions': {
    body: { messages, tools },
    whole: ({ choices }) => choices[0].finish_reason,
    streamed: all => all.map(({ choices }) => choices?.[0]?.finish_reason).find(Boolean),
  },
  '/v1/messages': {
    body: { max_tokens: 99, messages, tools: [{ name: 'clock', input_schema: parameters }] },
    whole: ({ stop_reason: reason }) => reason,
    streamed: all => all.map(({ delta }) => delta?.stop_reason).find(Boolean),
  },
  '/v1/responses': {
    body: { input: 'Time?', tools: [{ type: 'function', name: 'clock', parameters }] },
    whole: ({ status, output }) => [status, output.at(-1).type],
    streamed: all => {
      const { status, output } = all.find(({ type }) => type === 'response.completed').response
      return [status, output.at(-1).type]
    },
  },
}
const expected: Record<string, [calls: unknown, text: unknown]> = {
  '/v1/chat/completions': ['tool_calls', 'stop'],
  '/v1/messages': ['tool_use', 'end_turn'],
  '/v1/responses': [
    ['completed', 'function_call'],
    ['completed', 'message'],
  ],
}

for (const [server, model, emulator, calls, text] of cases)
  for (const [path, { body, whole, streamed }] of Object.entries(dialects)) {
    // Their own dialect is forwarded as it is.
    if ((path === '/v1/messages' && server === 'anthropic') || (path === '/v1/responses' && server === 'openai'))
      continue
    for (const [index, reply] of [calls, text].entries())
      test.serial(`200 from ${server} on ${path}: ${index ? 'calls are claimed' : 'calls end as a text'}`, async t => {
        const { live: key } = await world.gateway.account()
        for (const stream of [false, true]) {
          emulator().next(reply)
          const asked = { model, provider: { only: [server] }, stream, ...body }
          const response = await world.gateway.fetch(path, { key, body: asked })
          const answer = await response.text()
          t.is(response.status, 200, answer)
          const reason = stream ? streamed(dataOf(answer)) : whole(JSON.parse(answer))
          t.deepEqual(reason, expected[path]![index], answer)
        }
      })
  }

test.serial('200 for an answer of Azure’s that its content filter has withheld, which has no message', async t => {
  const { live: key } = await world.gateway.account()
  const filtered = { hate: { filtered: true, severity: 'high' }, violence: { filtered: false, severity: 'safe' } }
  const choice = { content_filter_results: filtered, finish_reason: 'content_filter', index: 0, logprobs: null }
  const usage = { completion_tokens: 19, prompt_tokens: 15, total_tokens: 34 }
  const head = { id: 'chatcmpl-1', object: 'chat.completion', created: 1_714_038_380, model: 'gpt-35-turbo' }
  const expected: [path: string, read: (answer: Any) => unknown, value: unknown][] = [
    [
      '/v1/chat/completions',
      ({ choices: [one] }) => [one.message, one.finish_reason],
      [{ role: 'assistant', content: null }, 'content_filter'],
    ],
    ['/v1/messages', answer => [answer.content, answer.stop_reason], [[], 'refusal']],
  ]
  for (const [path, read, value] of expected) {
    world.openai.next(json(200, { ...head, choices: [choice], usage }))
    const body = { model: 'gpt-4.1', provider: { only: ['openai'] }, ...dialects[path]!.body }
    const response = await world.gateway.fetch(path, { key, body })
    t.is(response.status, 200)
    t.deepEqual(read(await response.json()), value)
    t.is((await generationOf(world, response.headers.get('x-generation-id')!)).completionTokens, 19)
  }
})

test.serial(
  'an answer that its server stopped is a failure: the next provider is asked, a stream ends with an error',
  async t => {
    const { live: key } = await world.gateway.account()
    const aborted = chatAnswer({ role: 'assistant', content: 'It is' }, 'abort')
    world.openai.next(aborted)
    const body = { model: 'gpt-4.1', provider: { only: ['openai'] }, messages }
    const whole = await world.gateway.fetch('/v1/chat/completions', { key, body })
    t.is(whole.status, 200, await whole.text())
    t.like(await generationOf(world, whole.headers.get('x-generation-id')!), { status: 200 })
    t.is(world.openai.requests.length, 2, 'it was asked again')
    world.openai.next(aborted)
    const streamed = await world.gateway.fetch('/v1/chat/completions', { key, body: { ...body, stream: true } })
    const text = await streamed.text()
    t.true(text.includes('"error"'), text)
    t.false(text.includes('"finish_reason":"stop"'), text)
  },
)

const beginning = 'Let me edit the file:'
/** As Gemini ends it: in whole, or with an event of its own. */
const unreadable: Reply = (request, response) => {
  const pieces = [piece(beginning), piece(null, 'MALFORMED_FUNCTION_CALL')]
  const reply = request.path.includes(':streamGenerateContent')
    ? events(pieces.map(one => `data: ${JSON.stringify(one)}\n\n`))
    : finished('MALFORMED_FUNCTION_CALL', beginning)
  return reply(request, response)
}
const malformed: [server: string, model: string, emulator: () => Emulator, reply: Reply][] = [
  ['gemini', 'gemini-2.5-flash', () => world.gemini, unreadable],
  [
    'openai',
    'gpt-4.1',
    () => world.openai,
    chatAnswer({ role: 'assistant', content: beginning }, 'malformed_function_call'),
  ],
]
for (const [server, model, emulator, reply] of malformed)
  for (const [path, { body, whole }] of Object.entries(dialects)) {
    if (path === '/v1/responses' && server === 'openai') continue
    test.serial(`400 or an event, from ${server} on ${path}: a text before a call that cannot be read`, async t => {
      const { live: key } = await world.gateway.account()
      const ask = async (stream: boolean) => {
        const asked = { model, provider: { only: [server] }, stream, ...body }
        const response = await world.gateway.fetch(path, { key, body: asked })
        return { status: response.status, text: await response.text() }
      }
      emulator().next(reply, reply)
      const failed = await ask(false)
      t.is(failed.status, 400, failed.text)
      t.is(JSON.parse(failed.text).error.code, 'tool_use_failed')
      emulator().next(reply)
      const again = await ask(false)
      t.is(again.status, 200, again.text)
      t.truthy(whole(JSON.parse(again.text)))
      emulator().next(reply)
      const { text } = await ask(true)
      const errors = dataOf(text).flatMap((data: Any) => data.error ?? data.response?.error ?? [])
      const { code, metadata, message, type } = errors.at(-1)
      t.is(metadata?.code ?? code, 'tool_use_failed', text)
      t.regex(message, /please retry your request/)
      t.is(type ?? code, path === '/v1/messages' ? 'api_error' : 'server_error')
    })
  }
