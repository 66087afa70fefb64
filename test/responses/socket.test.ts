import type { Response } from 'openai/resources/responses/responses'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { reasoningState, responsesReply } from '../emulators/openai-responses.ts'
import { chargedNano, dataOf, expectedNano, startWorld } from '../support/chat/gateway.ts'
import { openResponses, textOf } from '../support/chat/responses-socket.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Turns on a WebSocket at /v1/responses, compared with the same turns over HTTP. */

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => {
  world.openai.reset()
  world.anthropic.reset()
})

const model = 'gpt-4o-mini'
const user = (text: string) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const live = () => world.gateway.account({ usd: '100' })
const open = (key: string) => openResponses(world.gateway.url, { key })

async function overHttp(key: string, body: object) {
  const response = await world.gateway.fetch('/v1/responses', { key, body: { ...body, stream: true } })
  const events = dataOf(await response.text())
  return { events: events.slice(0, -1), done: events.at(-1) }
}

test.serial('the events of a turn are those of the HTTP stream, one object per frame', async t => {
  for (const [name, upstream] of [
    [model, world.openai],
    ['gpt-5-mini', world.openai],
  ] as const) {
    upstream.reset()
    const { live: key } = await live()
    const client = await open(key)
    const body = { model: name, input: 'Hello “there”', include: ['reasoning.encrypted_content'] }
    const events = await client.turn({ ...body, stream: true, background: false })
    const http = await overHttp(key, { ...body, background: false })
    t.is(http.done, '[DONE]')
    t.deepEqual(events, http.events)
    t.true(client.frames.every(({ isBinary }) => !isBinary))
    t.deepEqual(upstream.requests[0]!.body, upstream.requests[1]!.body)
    t.is(upstream.requests[0]!.raw.toString(), upstream.requests[1]!.raw.toString())
    await client.close()
  }
})

test.serial(
  'a conversation by ids reaches the provider as the same conversation sent whole, at the same cost',
  async t => {
    const tools = [{ type: 'function', name: 'weather', parameters: {}, strict: false }]
    const fixed = { model: 'gpt-5-mini', instructions: 'Be brief.', tools, include: ['reasoning.encrypted_content'] }
    const chained = await live()
    const client = await open(chained.live)
    const inputs = [
      [user('The weather in Paris?')],
      [{ type: 'function_call_output', call_id: 'call_0', output: '18 °C' }],
      'Thanks',
    ]
    const whole: object[] = []
    const account = await live()
    let previous_response_id: string | undefined
    for (const input of inputs) {
      const events = await client.turn({ ...fixed, input, ...(previous_response_id && { previous_response_id }) })
      const { response } = events.at(-1)
      t.is(response.status, 'completed', JSON.stringify(response))
      previous_response_id = response.id
      whole.push(...(typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : input))
      await overHttp(account.live, { ...fixed, input: whole })
      const [chain, http] = world.openai.requests.slice(-2)
      t.deepEqual(chain!.body, http!.body)
      whole.push(...response.output)
    }
    t.is(
      world.openai.requests.at(-1)!.body.input.filter(({ type }: { type: string }) => type === 'reasoning').length,
      2,
    )
    t.true(world.openai.requests.at(-1)!.raw.toString().includes(reasoningState))
    t.is(await chargedNano(world, chained), await chargedNano(world, account))
    await client.close()
  },
)

test.serial('a translated conversation is continued with its reasoning', async t => {
  const account = await live()
  const client = await open(account.live)
  const first = await client.turn({ model: 'claude-haiku-4-5', input: 'Hello' })
  t.is(first.at(-1).type, 'response.completed')
  const { id } = first.at(-1).response
  const second = await client.turn({ model: 'claude-haiku-4-5', input: 'Again', previous_response_id: id })
  t.is(second.at(-1).type, 'response.completed')
  t.true(textOf(second).length > 0)
  const [, { body }] = world.anthropic.requests as [unknown, { body: { messages: { role: string }[] } }]
  t.deepEqual(
    body.messages.map(({ role }) => role),
    ['user', 'assistant', 'user'],
  )
  t.deepEqual(await world.gateway.settled(), [])
  await client.close()
})

const spellings: Record<string, (event: object) => string> = {
  'with its type last': ({ type, ...event }: { type?: string }) => JSON.stringify({ ...event, type }),
  'with spaces': event => JSON.stringify(event).replace(/"type":/g, '"type" : '),
  'with escapes': event => JSON.stringify(event).replace('"type":"response.', String.raw`"\u0074ype":"response\u002e`),
}
for (const [spelling, write] of Object.entries(spellings)) {
  test.serial(`a response whose events a provider writes ${spelling} can be continued`, async t => {
    const { live: key } = await live()
    const client = await open(key)
    world.openai.next(responsesReply({ write }))
    const first = await client.turn({ model, input: 'Hello' })
    const { id } = first.at(-1).response
    const second = await client.turn({ model, input: 'Again', previous_response_id: id })
    t.is(second.at(-1).type, 'response.completed')
    t.is(world.openai.requests.at(-1)!.body.input.length, 3)
    await client.close()
  })
}

test.serial('a later response continues an earlier one, also twice; ids of other connections are unknown', async t => {
  const { live: key } = await live()
  const [client, other] = await Promise.all([open(key), open(key)])
  const first = await client.turn({ model: 'claude-haiku-4-5', input: 'One' })
  const { id } = first.at(-1).response
  for (const input of ['Two', 'Three'])
    await client.turn({ model: 'claude-haiku-4-5', input, previous_response_id: id })
  for (const { body } of world.anthropic.requests.slice(1)) t.is(body.messages.length, 3)
  const error = await other.refused({ model, input: 'Hi', previous_response_id: id })
  t.like(error, {
    type: 'error',
    status: 400,
    error: { type: 'invalid_request_error', code: 'previous_response_not_found', param: 'previous_response_id' },
  })
  t.is((await other.turn({ model, input: 'Hi', previous_response_id: null })).at(-1).type, 'response.completed')
  await Promise.all([client.close(), other.close()])
})

test.serial('`generate: false` adds input without a provider and without charge', async t => {
  const account = await live()
  const key = await world.gateway.key(account.organisationId, 'live', { rpm_limit: 2 })
  const client = await open(key)
  const [created, completed, ...rest] = await client.turn({ model, input: [user('Hello')], generate: false })
  t.is(rest.length, 0)
  t.like(created, { type: 'response.created', sequence_number: 0, response: { status: 'in_progress', output: [] } })
  t.like(completed, { type: 'response.completed', sequence_number: 1, response: { status: 'completed', output: [] } })
  t.like(completed.response.usage, {
    total_tokens: 0,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  })
  t.is(created.response.id, completed.response.id)
  t.is(world.openai.requests.length, 0)
  t.is(await chargedNano(world, account), 0)
  const events = await client.turn({ model, input: [], previous_response_id: completed.response.id })
  t.is(textOf(events), 'Echo: Hello')
  t.deepEqual(world.openai.requests[0]!.body.input, [user('Hello')])
  t.is(await chargedNano(world, account), expectedNano(model, usageOf(events.at(-1).response.usage)))
  const limited = await client.refused({ model, input: 'Hi', generate: false })
  t.is(limited.status, 429)
  await client.close()
})

function usageOf({ input_tokens, output_tokens, total_tokens }: Record<string, number>) {
  return { prompt_tokens: input_tokens!, completion_tokens: output_tokens!, total_tokens: total_tokens! }
}

test.serial('each turn is a row of the request log with a request id of its own', async t => {
  const account = await live()
  const client = await openResponses(world.gateway.url, { key: account.live, headers: { 'x-request-id': 'conn-1' } })
  t.is(client.headers['x-request-id'], 'conn-1')
  for (const input of ['One', 'Two']) await client.turn({ model, input })
  t.deepEqual(await world.gateway.settled(), [])
  const { db } = world.gateway.services
  const where = { organisationId: account.organisationId }
  const rows = await db.generation.findMany({ where, orderBy: { requestId: 'asc' } })
  t.deepEqual(
    rows.map(({ requestId, kind, streamed, status }) => [requestId, kind, streamed, status]),
    [
      ['conn-1.1', 'responses', true, 200],
      ['conn-1.2', 'responses', true, 200],
    ],
  )
  await client.close()
})

test.serial('the official SDK: a conversation; `stream_id` comes back in every event', async t => {
  const { live: key } = await live()
  const socket = new ResponsesWS(world.sdk(key))
  const turn = (input: string, previous_response_id: string | null) => {
    const ended = new Promise<Response>((resolve, reject) => {
      socket.once('response.completed', ({ response, stream_id }) => {
        t.is(stream_id, 'main')
        resolve(response)
      })
      socket.once('error', reject)
    })
    socket.send({ type: 'response.create', stream_id: 'main', model, input, previous_response_id, store: false })
    return ended
  }
  socket.on('event', event => t.is((event as { stream_id?: string }).stream_id, 'main'))
  const first = await turn('Hello', null)
  const second = await turn('And again', first.id)
  t.is(second.output[0]!.type, 'message')
  t.is(world.openai.requests[1]!.body.input.length, 3)
  const failed = new Promise(resolve => socket.once('error', ({ error }) => resolve(error)))
  socket.send({ type: 'response.create', stream_id: 'main', model: 'no-such-model', input: 'Hi' })
  t.like(await failed, { status: 404, error: { code: 'model_not_found' } })
  socket.close()
})

test.serial('the wrapped form of `response.create`, and the sandbox for a test key', async t => {
  const { test: key } = await live()
  const client = await open(key)
  client.send({ type: 'response.create', response: { model, input: 'Hello' } })
  const events = await client.until()
  t.is(events.at(-1).type, 'response.completed')
  t.is(world.openai.requests.length, 0)
  const next = await client.turn({ model, input: 'Again', previous_response_id: events.at(-1).response.id })
  t.is(next.at(-1).type, 'response.completed')
  await client.close()
})
