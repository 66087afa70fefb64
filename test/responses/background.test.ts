import { responseObject } from '../../api/schemas/responses.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { json } from '../emulators/emulator.ts'
import { broken } from '../support/batches/world.ts'
import { readAnswer } from '../support/chat/dialects.ts'
import { chargedNano, expectedNano } from '../support/chat/gateway.ts'
import { gated } from '../support/delayed/jobs.ts'
import { eventually } from '../support/gateway.ts'
import { collect, type Event, stalling, untilOver } from '../support/responses/background.ts'
import { keepingAccount, models, type Response, startWorld, waitsForLock } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
/** Runs at the end of a response, when its row is written and its transaction goes on. */
let whileEnding: (() => Promise<void>) | null = null
use(test, () => {
  const { services } = world.gateway
  const { storedResponses } = services
  const prepareEnd: typeof storedResponses.prepareEnd = async (...of) => {
    const prepared = await storedResponses.prepareEnd(...of)
    const update: typeof prepared.update = async tx => {
      await prepared.update(tx)
      await whileEnding?.()
    }
    return { ...prepared, update }
  }
  return startWorkers({ ...services, storedResponses: broken(storedResponses, 'prepareEnd', prepareEnd) })
})
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
  whileEnding = null
})

const background = { model: 'gpt-4o-mini', input: 'Hello', background: true } as const

for (const model of models)
  test.serial(`a response in the background is queued, made, stored and charged as a direct one: ${model}`, async t => {
    const account = await keepingAccount(world)
    const client = world.sdk(account.live)
    const queued = (await client.responses.create({ ...background, model, metadata: { a: 'b' } })) as Response
    t.like(queued, { status: 'queued', background: true, store: true, output: [], metadata: { a: 'b' }, usage: null })
    const done = await untilOver(client, queued.id)
    t.like(done, { id: queued.id, status: 'completed', background: true, store: true, error: null })
    t.is(done.created_at, queued.created_at)
    t.deepEqual(responseObject.parse(done), done)
    t.true(done.output_text.includes('Hello'))
    t.is(await chargedNano(world, account), expectedNano(model, readAnswer(done).usage))
    const { data: items } = await client.responses.inputItems.list(queued.id)
    t.is(items.length, 1)
    const next = await client.responses.create({ model, input: 'And then?', previous_response_id: queued.id })
    t.is(next.previous_response_id, queued.id)
    const { organisationId } = account
    const log = await world.gateway.services.db.generation.findFirst({ where: { organisationId, id: queued.id } })
    t.like(log, { status: 200 })
  })

for (const model of models)
  test.serial(`the events of a streamed one come while it is made, and again after each of them: ${model}`, async t => {
    const account = await keepingAccount(world)
    const client = world.sdk(account.live)
    const events = await collect(await client.responses.create({ ...background, model, stream: true }))
    assertSequence(t, events)
    t.like(events[0], { type: 'response.created', response: { status: 'queued', background: true } })
    t.is(events[1]!.type as string, 'response.queued')
    const last = events.at(-1)!
    t.like(last, { type: 'response.completed', response: { status: 'completed', background: true } })
    const deltas = events.flatMap(event => (event.type === 'response.output_text.delta' ? event.delta : []))
    const { id, output_text } = await client.responses.retrieve(last.response!.id)
    t.is(deltas.join(''), output_text)
    for (const after of [1, 2, events.length - 3, events.length - 2]) {
      const rest = await collect(await client.responses.retrieve(id, { stream: true, starting_after: after }))
      t.deepEqual(rest, events.slice(after + 1), `after ${after}`)
    }
    const again = await collect(await client.responses.retrieve(id, { stream: true }))
    t.deepEqual(again.slice(2), events.slice(2))
    t.deepEqual(again.slice(0, 2).map(outline), events.slice(0, 2).map(outline))
    const afterFirst = await collect(await client.responses.retrieve(id, { stream: true, starting_after: 0 }))
    t.deepEqual(afterFirst.map(outline), events.slice(1).map(outline))
    // Without the kept events, the last one has the whole response.
    await world.gateway.services.responseEvents.remove(id)
    const rebuilt = await collect(await client.responses.retrieve(id, { stream: true }))
    t.deepEqual(
      rebuilt.map(({ type }) => type as string),
      ['response.created', 'response.queued', 'response.completed'],
    )
    t.deepEqual(rebuilt.at(-1)!.response!.output, last.response!.output)
    t.true((await chargedNano(world, account)) > 0)
  })

function outline({ type, sequence_number, response }: Event) {
  return { type, sequence_number, id: response?.id, status: response?.status }
}

function assertSequence(t: { deepEqual(a: unknown, b: unknown): unknown }, events: readonly Event[], from = 0): void {
  t.deepEqual(
    events.map(event => event.sequence_number),
    events.map((_, index) => from + index),
  )
}

test.serial('a client that disconnects does not end it, and resumes where it was, while it is made', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const stalled = stalling(6)
  world.openai.next(stalled.reply)
  const seen: Event[] = []
  const stream = await client.responses.create({ ...background, stream: true })
  for await (const event of stream) {
    seen.push(event as Event)
    if (event.type === 'response.output_text.delta') break
  }
  stream.controller.abort()
  const { id } = seen[0]!.response!
  t.is((await client.responses.retrieve(id)).status, 'in_progress')
  const after = seen.at(-1)!.sequence_number
  const rest = collect(await client.responses.retrieve(id, { stream: true, starting_after: after }))
  const whole = collect(await client.responses.retrieve(id, { stream: true }))
  stalled.go()
  assertSequence(t, [...seen, ...(await rest)])
  t.deepEqual((await whole).map(outline), [...seen, ...(await rest)].map(outline))
  t.is((await rest).at(-1)!.type, 'response.completed')
  t.is(world.openai.requests.length, 1)
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('it continues and extends a conversation', async t => {
  const client = world.sdk((await keepingAccount(world)).live)
  const conversation = await client.conversations.create({})
  const first = await client.responses.create({ ...background, conversation: conversation.id })
  t.like(await untilOver(client, first.id), { status: 'completed', conversation: { id: conversation.id } })
  const { data } = await client.conversations.items.list(conversation.id)
  t.is(data.length, 2)
  const second = await client.responses.create({ ...background, input: 'More', conversation: conversation.id })
  await untilOver(client, second.id)
  t.is(world.openai.requests.at(-1)!.body.input.length, 3)
  t.is((await client.conversations.items.list(conversation.id)).data.length, 4)
})

test.serial('it cannot be continued before it has completed', async t => {
  const client = world.sdk((await keepingAccount(world)).live)
  const gate = gated(stalling(100).reply)
  world.openai.next(gate.reply)
  const { id } = await client.responses.create(background)
  const error = await t.throwsAsync(client.responses.create({ ...background, previous_response_id: id }))
  t.like(error, { status: 400, param: 'previous_response_id' })
  gate.go()
  await untilOver(client, id)
})

test.serial('only a response in the background that was streamed can be streamed', async t => {
  const client = world.sdk((await keepingAccount(world)).live)
  const direct = await client.responses.create({ model: 'gpt-4o-mini', input: 'Hello' })
  const unstreamed = await client.responses.create(background)
  for (const { id } of [direct, unstreamed]) {
    const error = await t.throwsAsync(Promise.resolve(client.responses.retrieve(id, { stream: true })))
    t.like(error, { status: 400, param: 'stream' })
  }
  await untilOver(client, unstreamed.id)
})

test.serial('refused without storage, and for a request that could not run', async t => {
  const { gateway } = world
  const none = await gateway.account({ usd: '10' })
  const keeping = await keepingAccount(world)
  const refusals: [key: string, more: object, param: string, code: string][] = [
    [none.live, {}, 'background', 'unsupported_capability'],
    [keeping.live, { store: false }, 'background', 'invalid_request'],
    [keeping.live, { model: 'no-such-model' }, 'model', 'model_not_found'],
    [keeping.live, { previous_response_id: 'resp_0' }, 'previous_response_id', 'previous_response_not_found'],
    [keeping.live, { prompt: { id: 'pmpt_1' } }, 'prompt', 'unsupported_capability'],
  ]
  for (const [key, more, param, code] of refusals)
    for (const stream of [false, true]) {
      const answer = await gateway.fetch('/v1/responses', { key, body: { ...background, ...more, stream } })
      const { error } = (await answer.json()) as { error: object }
      t.like(error, { param, code }, JSON.stringify(more))
      t.true(answer.status === 400 || answer.status === 404)
    }
  const { db } = gateway.services
  const where = { organisationId: { in: [none.organisationId, keeping.organisationId] } }
  t.deepEqual([await db.job.count({ where }), await db.storedResponse.count({ where })], [0, 0])
  t.is(await chargedNano(world, keeping), 0)
})

test.serial('a repeated request with an Idempotency-Key is one response', async t => {
  const account = await keepingAccount(world)
  const post = () =>
    world.gateway.fetch('/v1/responses', {
      key: account.live,
      body: background,
      headers: { 'idempotency-key': 'once' },
    })
  const [first, second] = [await post(), await post()]
  t.is(second.headers.get('idempotent-replayed'), 'true')
  t.is(second.headers.get('x-gateway-model'), first.headers.get('x-gateway-model'))
  const response = (await first.json()) as Response
  t.deepEqual(await second.json(), response)
  await untilOver(world.sdk(account.live), response.id)
  t.is(world.openai.requests.length, 1)
})

test.serial('hidden from other organisations, and from the list of delayed jobs', async t => {
  const { gateway } = world
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  const stranger = await keepingAccount(world)
  const events = await collect(await client.responses.create({ ...background, stream: true }))
  const { id } = events[0]!.response!
  for (const key of [stranger.live, account.test])
    for (const path of [`/v1/responses/${id}`, `/v1/responses/${id}?stream=true`])
      t.is((await gateway.fetch(path, { key })).status, 404)
  for (const key of [stranger.live, account.test])
    t.is((await gateway.fetch(`/v1/responses/${id}/cancel`, { key, method: 'POST' })).status, 404)
  t.is((await gateway.fetch(`/v1/jobs/${id}`, { key: account.live })).status, 404)
  t.is((await gateway.fetch(`/v1/jobs/${id}/cancel`, { key: account.live, method: 'POST' })).status, 404)
  const jobs = (await (await gateway.fetch('/v1/jobs', { key: account.live })).json()) as { data: object[] }
  t.deepEqual(jobs.data, [])
})

test.serial('200 from the sandbox for test keys, at no cost', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.test)
  const streamed = await collect(await client.responses.create({ ...background, stream: true }))
  assertSequence(t, streamed)
  t.is(streamed.at(-1)!.type, 'response.completed')
  const { id } = await client.responses.create(background)
  t.is((await untilOver(client, id)).status, 'completed')
  t.is(await chargedNano(world, account), 0)
})

test.serial('a stream is cut off when its key is revoked, and the response goes on', async t => {
  const { gateway } = world
  const account = await keepingAccount(world)
  const other = await gateway.key(account.organisationId, 'live')
  const stalled = stalling(6)
  world.openai.next(stalled.reply)
  const client = world.sdk(account.live)
  const whole = collect(await client.responses.create({ ...background, stream: true }))
  await eventually(() => world.openai.requests.length === 1, 'it is made')
  const { id } = await gateway.services.db.storedResponse.findFirstOrThrow({
    where: { organisationId: account.organisationId },
  })
  const cut = await gateway.fetch(`/v1/responses/${id}?stream=true`, { key: other })
  await gateway.services.keys.revoke(account.organisationId, hashSecret(other), operatorActor)
  await t.throwsAsync(cut.text())
  stalled.go()
  t.is((await whole).at(-1)!.type, 'response.completed')
})

test.serial('503 for what is stored when the memory for answers is used up, before it is read', async t => {
  const { gateway } = world
  const { test: key } = await keepingAccount(world)
  const post = async (path: string, body: object, headers: Record<string, string> = {}) =>
    (await (await gateway.fetch(path, { key, body, headers })).json()) as { id: string }
  const input = 'Hello'
  const replayed = { 'idempotency-key': 'kept' }
  const { id } = await post('/v1/responses', { model: 'gpt-4o-mini', input, store: true }, replayed)
  const background = { model: 'gpt-4o-mini', input, background: true, stream: true }
  const events = await (await gateway.fetch('/v1/responses', { key, body: background })).text()
  const streamedId = /"id":"(resp_\w+)"/.exec(events)![1]
  const conversation = `/v1/conversations/${(await post('/v1/conversations', { items: [{ role: 'user', content: input, id: 'msg_1' }] })).id}`
  const chat = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: input }] }
  const job = await post('/v1/jobs', { body: chat, completion_window: '1h' }, { prefer: 'wait=30' })
  const reads = [
    ...[`/v1/responses/${id}`, `/v1/responses/${id}/input_items`, `/v1/responses/${streamedId}?stream=true`],
    ...[`${conversation}/items`, `${conversation}/items/msg_1`, `/v1/jobs/${job.id}`],
  ].map(path => ({ path, call: { key } }))
  const replay = {
    path: '/v1/responses',
    call: { key, body: { model: 'gpt-4o-mini', input, store: true }, headers: replayed },
  }
  const statuses = async () => {
    const found: [string, number][] = []
    for (const { path, call } of [...reads, replay]) {
      const answer = await gateway.fetch(path, call)
      found.push([path, answer.status])
      await answer.text()
    }
    return found
  }
  const expect = (status: number) => [...reads, replay].map(({ path }) => [path, status])
  t.deepEqual(await statuses(), expect(200))
  const { answers } = gateway.services.budgets
  const others = answers.open('others')
  others.hold(145 * 1024 * 1024) // Also beyond the eighth more for those that hold little.
  t.deepEqual(await statuses(), expect(503))
  const waited = await post('/v1/jobs', { body: chat, completion_window: '1h' }, { prefer: 'wait=30' })
  t.like(waited, { object: 'job', status: 'queued', result: null })
  others.release()
  t.deepEqual(await statuses(), expect(200))
  await eventually(() => answers.bytes === 0, 'the memory is released')
})

test.serial('completed with a key of the scope that its route needs', async t => {
  const narrow = await keepingAccount(world, { scopes: 'chat' })
  const client = world.sdk(narrow.live)
  const { id } = await client.responses.create({ model: 'gpt-4o-mini', input: 'Hello', background: true })
  t.like(await untilOver(client, id), { status: 'completed', error: null })
})

for (const [what, asked] of [
  ['another one is created', { background: true }],
  ['a turn of its conversation is stored', { store: true }],
] as const)
  test.serial(`completed, and 200, when ${what} while it ends: neither waits for the other for ever`, async t => {
    const client = world.sdk((await keepingAccount(world)).live)
    const { id: conversation } = await client.conversations.create()
    let meanwhile: Promise<Response> | null = null
    whileEnding = async () => {
      whileEnding = null
      const { withResponse } = client.responses.create({ ...background, background: false, ...asked, conversation })
      meanwhile = withResponse().then(({ data }) => data as Response)
      await eventually(() => waitsForLock(world.gateway.services.db), 'the other one waits')
    }
    const { id } = await client.responses.create({ ...background, conversation })
    t.is((await untilOver(client, id)).status, 'completed')
    const other = await meanwhile!
    t.is(other.store, true)
    t.is((await untilOver(client, other.id)).status, 'completed')
    t.is(world.openai.requests.length, 2)
    const { data: items } = await client.conversations.items.list(conversation)
    t.is(items.length, 4)
  })

/** Statuses and ids that no database takes, as a server may send them. */
const oddAnswers: [what: string, status: unknown, id: string][] = [
  ['without a status', undefined, 'msg_1'],
  ['with a status of its own', 'succeeded', 'msg_1'],
  ['with an object as its status', { done: true }, 'msg_1'],
  ['with half a character in an id', 'completed', 'msg_\ud800'],
]
for (const [what, status, id] of oddAnswers)
  test.serial(`completed after one call, and stored: an answer ${what}, in the background and directly`, async t => {
    const account = await keepingAccount(world)
    const client = world.sdk(account.live)
    const content = [{ type: 'output_text', text: 'Hello', annotations: [] }]
    const output = [{ type: 'message', id, role: 'assistant', status: 'completed', content }]
    const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 }
    const answer = { id: 'resp_up', object: 'response', created_at: 1, status, model: 'm', output, usage }
    world.openai.next(json(200, answer), json(200, answer))
    const queued = (await client.responses.create(background)) as Response
    const done = await untilOver(client, queued.id)
    t.like(done, { status: 'completed', output_text: 'Hello' })
    const direct = (await client.responses.create({ ...background, background: false, store: true })) as Response
    t.like(direct, { status: 'completed', store: true })
    t.is((await client.responses.retrieve(direct.id)).status, 'completed')
    t.is(world.openai.requests.length, 2)
  })

test.serial('failed after one call, and not charged: a response that no store takes', async t => {
  const account = await keepingAccount(world)
  const client = world.sdk(account.live)
  whileEnding = async () => {
    throw Object.assign(new Error('Invalid value for argument'), { name: 'PrismaClientValidationError' })
  }
  const queued = (await client.responses.create(background)) as Response
  const done = await untilOver(client, queued.id)
  t.like(done, { status: 'failed' })
  t.is(world.openai.requests.length, 1)
  t.is(await chargedNano(world, account), 0)
})
