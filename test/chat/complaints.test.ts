import { KeepAlive } from '../../shared/io/keep-alive.ts'
import { type Emulator, events, framed, json, type Reply } from '../emulators/emulator.ts'
import { chatChunk, chatReply, serverError } from '../emulators/openai.ts'
import { responsesReply } from '../emulators/openai-responses.ts'
import { chargedNano, dataOf, expectedNano, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

/**
 * What users of other gateways complain about most, one test each, named as in `test/prove/complaints.ts`, which also names the
 * tests of the complaints that other files have.
 */
const world = use(test, () => startWorld({ UPSTREAM_IDLE_TIMEOUT_MS: '1500' }))
test.beforeEach(() => {
  for (const emulator of emulators()) emulator.reset()
})

const emulators = (): Emulator[] => [world.openai, world.anthropic, world.gemini, world.openrouter]
const atOpenAi = { provider: { only: ['openai'] } }
const path = '/v1/chat/completions'

/** Asks as a new account; `nano`: what it is charged once all is at rest. */
async function ask(to: string, body: object) {
  const account = await world.gateway.account()
  const response = await world.gateway.fetch(to, { key: account.live, body })
  const text = await response.text()
  const { status, headers } = response
  return { status, headers, text, nano: () => chargedNano(world, account) }
}

const streamed = (payloads: (object | string)[]): Reply => events([framed(payloads)])
const usageChunk = (usage: object) => ({ ...chatChunk({}), choices: [], usage })

/** A whole answer and the same in a stream, whose last chunk alone has the usage. */
function stating(usage: object): Reply {
  return (request, response) => {
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Fine.' }, finish_reason: 'stop' }]
    const whole = { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'up', choices, usage }
    if (!request.body.stream) return json(200, whole)(request, response)
    const end = request.body.stream_options?.include_usage ? [usageChunk(usage)] : []
    const pieces = [chatChunk({ role: 'assistant', content: 'Fine.' }), chatChunk({}, 'stop'), ...end, '[DONE]']
    return streamed(pieces)(request, response)
  }
}

test.serial(
  'complaint 1, streamed usage missing or estimated: exact, and no chunk more than was asked for',
  async t => {
    const usage = {
      prompt_tokens: 11,
      completion_tokens: 2_003,
      total_tokens: 2_014,
      completion_tokens_details: { reasoning_tokens: 2_000 },
    }
    world.openai.next(stating(usage))
    const { text, headers, nano } = await ask(path, saying('gpt-5', 'Hi', { ...atOpenAi, stream: true }))
    const chunks = dataOf(text).slice(0, -1)
    t.true(chunks.every(({ choices }) => choices.length === 1))
    t.is(chunks.filter(chunk => chunk.usage).length, 1)
    const row = await generationOf(world, headers.get('x-generation-id')!)
    t.like(row, { promptTokens: 11, completionTokens: 2_003, reasoningTokens: 2_000 })
    t.is(await nano(), expectedNano('gpt-5', usage, { provider: 'openai' }))
  },
)

test.serial(
  'complaint 2, cached tokens billed twice: each token is in one class, whatever else it is counted as',
  async t => {
    const usage = {
      prompt_tokens: 262_960,
      completion_tokens: 3,
      total_tokens: 262_963,
      prompt_tokens_details: { cached_tokens: 257_955, text_tokens: 262_960, image_tokens: 1_000 },
    }
    world.openai.next(stating(usage))
    const { nano } = await ask(path, saying('gpt-4.1', 'Hi', atOpenAi))
    t.is(await nano(), expectedNano('gpt-4.1', usage, { provider: 'openai' }))
  },
)

test.serial('complaint 3, cached tokens lost in streams: a stream costs what the whole answer costs', async t => {
  const usage = {
    prompt_tokens: 40_000,
    completion_tokens: 3,
    total_tokens: 40_003,
    prompt_tokens_details: { cached_tokens: 39_000 },
  }
  const costs: number[] = []
  for (const stream of [false, true]) {
    world.openai.next(stating(usage))
    const { nano } = await ask(path, saying('gpt-4.1', 'Hi', { ...atOpenAi, stream }))
    costs.push(await nano())
  }
  const nano = expectedNano('gpt-4.1', usage, { provider: 'openai' })
  t.deepEqual(costs, [nano, nano])
})

test.serial(
  'complaint 4, broken streams charged wrongly: what was delivered once, an error in a whole answer never',
  async t => {
    const begun = [chatChunk({ role: 'assistant', content: 'Once upon a time' })]
    world.openai.next(streamed(begun))
    const broken = await ask(path, saying('gpt-4.1', 'Hi', { ...atOpenAi, stream: true }))
    t.truthy(dataOf(broken.text).at(-1).error)
    const delivered = await broken.nano()
    const whole = await ask(path, saying('gpt-4.1', 'Hi', { ...atOpenAi, stream: true }))
    t.is(dataOf(whole.text).at(-1), '[DONE]')
    t.true(delivered > 0 && (await whole.nano()) > 0)
    const busy = json(200, { error: { message: 'Upstream is busy.', type: 'server_error', code: 'busy' } })
    world.openai.next(busy, busy, busy)
    const refused = await ask(path, saying('gpt-4.1', 'Hi', atOpenAi))
    t.is(refused.status, 502, refused.text)
    t.is(await refused.nano(), 0)
  },
)

test.serial(
  'complaint 6, a cut stream blamed on the caller: an error of the provider, whatever type it states',
  async t => {
    const late = { type: 'invalid_request_error', code: 'request_timeout', message: 'The request timed out.' }
    const event = (type: string, more: object) => `event: ${type}\n${framed([{ type, ...more }])}`
    const response = { id: 'resp_1', object: 'response', created_at: 1, model: 'up', status: 'in_progress', output: [] }
    const item = { type: 'message', id: 'msg_1', role: 'assistant', status: 'in_progress', content: [] }
    const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }
    world.openai.next(
      events([
        event('response.created', { sequence_number: 0, response }),
        event('response.output_item.added', { sequence_number: 1, output_index: 0, item }),
        event('response.output_text.delta', { sequence_number: 2, ...at, delta: 'Hel' }),
        event('error', { sequence_number: 3, ...late }),
      ]),
    )
    const answer = await ask('/v1/responses', { model: 'gpt-4o-mini', input: 'Hi', ...atOpenAi, stream: true })
    t.is(answer.status, 200)
    const last = dataOf(answer.text).findLast(it => typeof it === 'object')
    t.is(last.type, 'response.failed')
    t.is(last.response.error.code, 'server_error')
    const row = await generationOf(world, answer.headers.get('x-generation-id')!)
    t.regex(row.errorCode!, /^upstream_/)
  },
)

test.serial('complaint 8, a retry after output repeats arguments: an error event, and no second start', async t => {
  const call = { index: 0, id: 'call_a1', type: 'function', function: { name: 'w', arguments: '{"city": "Zü' } }
  world.openai.next(events([framed([chatChunk({ role: 'assistant', tool_calls: [call] })])], { end: 'cut' }))
  const { text } = await ask(path, saying('gpt-5', 'Hi', { stream: true }))
  const data = dataOf(text)
  t.truthy(data.at(-1).error)
  const written = data.flatMap(({ choices = [] }) => choices[0]?.delta?.tool_calls ?? [])
  t.is(written.map(one => one.function.arguments).join(''), '{"city": "Zü')
  t.deepEqual([world.openai.requests.length, world.openrouter.requests.length], [1, 0])
})

test.serial('complaint 9, a stream that never ends: whole after its last choice, though comments go on', async t => {
  let aborted: Promise<void> | undefined
  world.openai.next(async (request, response) => {
    aborted = request.aborted
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(framed([chatChunk({ role: 'assistant', content: 'Fine.' }), chatChunk({}, 'stop')]))
    const timer = setInterval(() => response.write(': still here\n\n'), 100)
    response.on('close', () => clearInterval(timer))
  })
  const { text } = await ask(path, saying('gpt-4.1', 'Hi', { ...atOpenAi, stream: true }))
  const contents = dataOf(text).flatMap(({ choices = [] }) => choices[0]?.delta?.content ?? [])
  t.is(contents.join(''), 'Fine.')
  await aborted
})

for (const [dialect, body] of [
  [path, saying('gpt-4.1', 'Hi', { ...atOpenAi, stream: true })],
  ['/v1/messages', saying('gpt-4.1', 'Hi', { ...atOpenAi, stream: true, max_tokens: 20 })],
  ['/v1/responses', { model: 'gpt-4.1', input: 'Hi', ...atOpenAi, stream: true }],
] as const)
  test.serial(
    `complaint 10, silence before the first token: signs of life between the events of ${dialect}`,
    async t => {
      keepAliveEvery(20, t)
      let begin = () => {}
      const started = new Promise<void>(resolve => (begin = resolve))
      const late =
        (reply: Reply): Reply =>
        async (request, response) => {
          await started
          await reply(request, response)
        }
      const { openai } = world
      openai.next(late(dialect === '/v1/responses' ? responsesReply() : chatReply()))
      const { live } = await world.gateway.account()
      const response = await world.gateway.fetch(dialect, { key: live, body })
      t.is(response.status, 200, 'a sign of life opened the stream')
      let text = ''
      for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
        text += part
        if (text.split(/: keep-alive|event: ping/).length > 3) begin()
      }
      for (const block of text.split('\n\n'))
        t.regex(block, /^$|^: keep-alive$|^event: \S+\ndata: \{.*\}$|^data: (\{.*\}|\[DONE\])$/)
    },
  )

test.serial('complaint 11, parallel calls share index 0: three calls for the client', async t => {
  const call = (id: string) => ({
    index: 0,
    id,
    type: 'function',
    function: { name: 'w', arguments: `{"id":"${id}"}` },
  })
  const calls = ['a', 'b', 'c'].map(id => chatChunk({ tool_calls: [call(id)] }))
  world.openai.next(streamed([chatChunk({ role: 'assistant' }), ...calls, chatChunk({}, 'tool_calls'), '[DONE]']))
  const { text } = await ask(path, saying('gpt-4.1', 'Hi', { ...atOpenAi, stream: true }))
  const deltas = dataOf(text).flatMap(({ choices = [] }) => choices[0]?.delta?.tool_calls ?? [])
  const byIndex = Map.groupBy(deltas, ({ index }) => index)
  t.deepEqual(
    [...byIndex.values()].map(parts => parts.map(one => one.function.arguments ?? '').join('')),
    ['{"id":"a"}', '{"id":"b"}', '{"id":"c"}'],
  )
})

const history = (result: string) => [
  { role: 'user', content: 'Hi' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'w', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'c', content: result },
]
const address = { type: 'object', properties: { street: { type: 'string' } } }
const parameters = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  additionalProperties: false,
  $defs: { address },
  properties: { home: { $ref: '#/$defs/address', description: 'Where.' }, work: { $ref: '#/properties/home' } },
}
const toolOf = (schema: object) => ({ type: 'function', function: { name: 'w', parameters: schema } })

test.serial('complaint 15, schemas and results with references: Gemini takes them', async t => {
  const body = { model: 'gemini-3.5-flash', max_tokens: 20, tools: [toolOf(parameters)] }
  const result = JSON.stringify({ $ref: '#/properties/x', $defs: { a: 1 } })
  const answer = await ask(path, { ...body, messages: history(result) })
  t.is(answer.status, 200, answer.text)
  const sent = JSON.stringify(world.gemini.requests.at(-1)!.body)
  t.true(sent.includes('#/properties/x'), 'the result is what the client sent')
})

test.serial(
  'complaint 16, patterns that providers refuse: a tool with a lookaround and \\0 is called all the same',
  async t => {
    const pattern = { type: 'object', properties: { file: { type: 'string', pattern: '^(?!.*\\0)[^\\0]+$' } } }
    for (const model of ['claude-haiku-4-5', 'gemini-3.5-flash', 'gpt-4.1']) {
      const answer = await ask(path, saying(model, 'Hi', { max_tokens: 20, tools: [toolOf(pattern)] }))
      t.is(answer.status, 200, answer.text)
    }
  },
)

test.serial(
  'complaint 17, empty things: blank texts, contents that are null, and results with an empty name',
  async t => {
    const messages = [
      { role: 'system', content: '' },
      {
        role: 'user',
        content: [
          { type: 'text', text: ' ' },
          { type: 'text', text: 'Hi' },
        ],
      },
      { role: 'assistant', content: null },
      { role: 'user', content: 'And?' },
      ...history(JSON.stringify({ '': 'x' })).slice(1),
    ]
    for (const model of ['claude-haiku-4-5', 'gemini-3.5-flash', 'gpt-4.1']) {
      const answer = await ask(path, { model, messages, max_tokens: 20, tools: [toolOf(address)] })
      t.is(answer.status, 200, `${model}: ${answer.text}`)
    }
  },
)

test.serial(
  'complaint 20, a schema lost on the fallback: the model that takes over is given it, in its own form',
  async t => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string' } },
      required: ['name'],
      additionalProperties: false,
    }
    world.openai.next(serverError, serverError, serverError)
    const answer = await ask('/v1/responses', {
      model: 'gpt-4.1',
      models: ['claude-sonnet-4-5'],
      input: 'Who?',
      max_output_tokens: 200,
      provider: { only: ['openai', 'anthropic'] },
      text: { format: { type: 'json_schema', name: 'person', strict: true, schema } },
    })
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('x-gateway-provider'), 'anthropic')
    const sent = world.anthropic.requests.at(-1)!.body
    t.like(sent.output_config?.format ?? sent.output_format, { type: 'json_schema', schema })
  },
)

/** Makes silent streams give a sign of life every `silenceMs` for the rest of a test. */
function keepAliveEvery(silenceMs: number, t: ExecutionContext): void {
  const { services } = world.gateway
  const { keepAlive } = services
  services.keepAlive = new KeepAlive(silenceMs)
  t.teardown(() => {
    services.keepAlive = keepAlive
  })
}
