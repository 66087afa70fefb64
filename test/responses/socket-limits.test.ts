import type { IncomingMessage } from 'node:http'
import { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { FrameSender } from '../../api/sockets/responses/frame-sender.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { chargedNano, startWorld } from '../support/chat/gateway.ts'
import { neverEnding } from '../support/chat/responses-events.ts'
import { openResponses, type ResponsesClient, textOf } from '../support/chat/responses-socket.ts'
import { eventually } from '../support/gateway.ts'
import { type Opening, refusedSession } from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Refusals, bounds and ends of the WebSocket at /v1/responses. */

let skippedMs = 0
const clock = { now: () => Date.now() + skippedMs }
const world = use(test, () => {
  const env = { OPENROUTER_API_KEY: '', RESPONSES_MAX_CONNECTIONS: '3', UPSTREAM_READ_ON_MS: '200' }
  return startWorld(env, clock)
})
test.beforeEach(() => world.openai.reset())

const minuteMs = 60_000
const model = 'gpt-4o-mini'
const hi = { model, input: 'Hello' }
const live = () => world.gateway.account({ usd: '100' })
const open = (key: string) => openResponses(world.gateway.url, { key })
const received = (count = 1) =>
  eventually(() => world.openai.requests.length === count, 'the request reaches the provider')

async function refused(opening: Opening) {
  const refusal = await refusedSession(world.gateway.url, { path: '/v1/responses', query: '', ...opening })
  return [refusal.status, refusal.body.error.code]
}

/** The connection still works. */
async function works(client: ResponsesClient): Promise<boolean> {
  return textOf(await client.turn(hi)) === 'Echo: Hello'
}

test.serial('refused upgrades have the status and the error of an HTTP request', async t => {
  const { organisationId, live: key } = await live()
  t.deepEqual(await refused({}), [401, 'missing_api_key'])
  t.deepEqual(await refused({ key: `svc_sk_live_${'a'.repeat(40)}` }), [401, 'invalid_api_key'])
  t.deepEqual(await refused({ query: `key=${key}` }), [401, 'missing_api_key'])
  const narrow = await world.gateway.key(organisationId, 'live', { scopes: 'embeddings' })
  t.deepEqual(await refused({ key: narrow }), [403, 'insufficient_scope'])
  t.deepEqual(await refused({ key: await provisioningKey(world.gateway, organisationId) }), [403, 'wrong_key_type'])
  const revoked = await world.gateway.key(organisationId, 'live')
  await world.gateway.services.keys.revoke(organisationId, hashSecret(revoked), operatorActor)
  t.deepEqual(await refused({ key: revoked }), [401, 'revoked_api_key'])
  for (const opening of [
    { headers: { 'x-api-key': key } },
    { protocols: ['realtime', `openai-insecure-api-key.${key}`] },
  ]) {
    const client = await openResponses(world.gateway.url, opening)
    t.true(await works(client))
    await client.close()
  }
})

test.serial('426 beyond the connections of an organisation, until one closes', async t => {
  const { live: key, test: testKey } = await live()
  const clients = await Promise.all([open(key), open(testKey), open(key)])
  t.deepEqual(await refused({ key }), [426, 'upgrade_required'])
  const other = await live()
  await (await open(other.live)).close()
  await clients[0]!.close()
  await eventually(async () => {
    const client = await open(key).catch(() => null)
    await client?.close()
    return client !== null
  }, 'the slot is free')
  for (const client of clients.slice(1)) await client.close()
})

test.serial('a turn that is refused is an error frame, and the connection stays open', async t => {
  const { live: key } = await live()
  const client = await open(key)
  const cases: [frame: object | string, status: number, code: string, param: string | null][] = [
    ['{', 400, 'invalid_json', null],
    ['[]', 400, 'invalid_request', null],
    ['null', 400, 'invalid_request', null],
    ['{"type":"response.create","type":"response.create"}', 400, 'invalid_json', 'type'],
    [{ type: 'session.update' }, 400, 'missing_field', 'model'],
    [{ type: 'response.steer', ...hi }, 400, 'invalid_request', 'type'],
    [JSON.stringify(hi), 400, 'missing_field', 'type'],
    [{ model }, 400, 'missing_field', 'input'],
    [{ ...hi, input: [] }, 400, 'invalid_request', 'input'],
    [{ ...hi, input: [{ type: 'message', role: 'nobody', content: '' }] }, 400, 'invalid_request', 'input.0.role'],
    [{ ...hi, temperature: 3 }, 400, 'invalid_request', 'temperature'],
    [{ ...hi, stream_id: 'x'.repeat(257) }, 400, 'invalid_request', 'stream_id'],
    [{ ...hi, generate: 'no' }, 400, 'invalid_request', 'generate'],
    [{ ...hi, store: true }, 400, 'unsupported_capability', 'store'],
    [{ ...hi, background: true }, 400, 'unsupported_capability', 'background'],
    [{ ...hi, conversation: 'conv_1' }, 400, 'unsupported_capability', 'conversation'],
    [{ ...hi, previous_response_id: 'resp_1' }, 400, 'previous_response_not_found', 'previous_response_id'],
    [{ ...hi, model: 'no-such-model' }, 404, 'model_not_found', 'model'],
    [{ ...hi, input: 'too long' }, 400, 'context_length_exceeded', 'input'],
  ]
  for (const [frame, status, code, param] of cases) {
    const error = await client.refused(frame)
    t.is(error.status, status, JSON.stringify(error))
    t.is(error.error.code, code, JSON.stringify(error))
    t.is(error.error.param, param, JSON.stringify(error))
    t.regex(error.headers['x-request-id'], /^req_\w+\.\d+$/)
  }
  client.socket.send(Buffer.from(JSON.stringify(hi)), { binary: true })
  t.like((await client.until()).at(-1), { type: 'error', status: 400, error: { code: 'invalid_request' } })
  t.true(await works(client))
  await client.close()
})

test.serial('used-up credits and limits are errors of the turn, in the terms of OpenAI', async t => {
  const poor = await world.gateway.account({ usd: '0.000001' })
  const client = await open(poor.live)
  const error = await client.refused({ ...hi, model: 'o3' })
  t.like(error, { status: 429, error: { code: 'insufficient_quota', metadata: { code: 'insufficient_credits' } } })
  t.is(error.headers['x-should-retry'], 'false')
  await client.close()
  const { organisationId } = await live()
  const key = await world.gateway.key(organisationId, 'live', { rpm_limit: 1, model_allowlist: [model] })
  const limited = await open(key)
  t.like(await limited.refused({ ...hi, model: 'gpt-4o' }), { status: 403, error: { code: 'model_not_allowed' } })
  t.true(await works(limited))
  const beyond = await limited.refused(hi)
  t.like(beyond, { status: 429, error: { code: 'rate_limit_exceeded' } })
  t.truthy(beyond.headers['retry-after'])
  t.is(beyond.headers['x-ratelimit-remaining-requests'], '0')
  await limited.close()
})

test.serial('a key that is revoked ends the next turn and the connection', async t => {
  const { organisationId } = await live()
  const key = await world.gateway.key(organisationId, 'live')
  const client = await open(key)
  t.true(await works(client))
  await world.gateway.services.keys.revoke(organisationId, hashSecret(key), operatorActor)
  t.like(await client.refused(hi), { status: 401, error: { code: 'revoked_api_key' } })
  t.is((await client.end()).code, 4401)
})

test.serial('`response.cancel` ends the running turn: billed, and the next one begins', async t => {
  const account = await live()
  const client = await open(account.live)
  client.send({ type: 'response.cancel' })
  world.openai.next(neverEnding('Once upon a time ', 'there was'))
  client.send({ type: 'response.create', ...hi })
  await client.until('response.output_text.delta')
  client.send({ type: 'response.cancel', response_id: 'resp_another' })
  client.send({ type: 'response.cancel', response_id: 'resp_begun' })
  const error = (await client.until()).at(-1)
  t.like(error, { type: 'error', status: 499, error: { code: 'response_cancelled' } })
  t.true(await works(client))
  t.like(await client.refused({ ...hi, previous_response_id: 'resp_begun' }), { status: 400 })
  await (await world.openai.requests[0]!).aborted
  const { db } = world.gateway.services
  const where = { organisationId: account.organisationId }
  await eventually(async () => (await db.generation.count({ where })) === 2, 'both are booked')
  const rows = await db.generation.findMany({ where })
  t.deepEqual(rows.map(({ status }) => status).sort(), [200, 499])
  t.true(rows.every(({ costNano }) => costNano > 0n))
  t.true((await chargedNano(world, account)) > 0)
  await client.close()
})

test.serial('a client that disconnects in the middle is billed for what was produced', async t => {
  const account = await live()
  const client = await open(account.live)
  world.openai.next(neverEnding('Once upon a time ', 'there was'))
  client.send({ type: 'response.create', ...hi })
  await client.until('response.output_text.delta')
  client.socket.terminate()
  await world.openai.requests[0]!.aborted
  const { db } = world.gateway.services
  const where = { organisationId: account.organisationId }
  await eventually(async () => (await db.generation.count({ where })) === 1, 'it is booked')
  t.like(await db.generation.findFirst({ where }), { status: 499 })
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('queued: turns run one after another, at most sixteen wait', async t => {
  const { live: key } = await live()
  const client = await open(key)
  world.openai.next(neverEnding('Once'))
  client.send({ type: 'response.create', ...hi })
  await received()
  for (let i = 0; i < 17; i++) client.send({ type: 'response.create', stream_id: `turn ${i}`, ...hi })
  const refusal = (await client.until()).at(-1)
  t.like(refusal, { status: 429, error: { code: 'rate_limit_exceeded' } })
  t.is(world.openai.requests.length, 1)
  client.send({ type: 'response.cancel' })
  t.like((await client.until()).at(-1), { status: 499 })
  for (let i = 0; i < 16; i++) {
    const events = await client.until()
    t.true(events.every(({ stream_id }) => stream_id === `turn ${i}`))
    t.is(events.at(-1).type, 'response.completed')
  }
  await client.close()
})

test.serial('a connection keeps its 16 latest responses, with the turns that they continue', async t => {
  const { live: key } = await live()
  const client = await open(key)
  const warm = async (input: string, previous_response_id: string | null) => {
    const events = await client.turn({ model, generate: false, input, previous_response_id })
    return events.at(-1)
  }
  const ids: string[] = []
  for (let i = 0; i < 18; i++) ids.push((await warm(`turn ${i}`, ids.at(-1) ?? null)).response.id)
  for (const id of ids.slice(0, 2))
    t.like(await warm('more', id), { status: 400, error: { code: 'previous_response_not_found' } })
  const events = await client.turn({ model, input: 'Hello', previous_response_id: ids[2] })
  t.is(textOf(events), 'Echo: Hello')
  const sent = world.openai.requests[0]!.body.input.map(({ content }: { content: string }) => content)
  t.deepEqual(sent, ['turn 0', 'turn 1', 'turn 2', 'Hello'])
  await client.close()
  const { conversations } = world.gateway.services.budgets
  await eventually(() => conversations.bytes === 0, 'the memory is released')
})

test.serial('a connection lasts 60 minutes, a running turn may end', async t => {
  const { live: key } = await live()
  const [idle, busy] = await Promise.all([open(key), open(key)])
  world.openai.next(neverEnding('Once'))
  busy.send({ type: 'response.create', ...hi })
  await received()
  t.true(await works(idle))
  skippedMs += 61 * minuteMs
  t.deepEqual((await idle.end()).code, 4408)
  t.is(busy.closed, null)
  busy.send({ type: 'response.create', ...hi })
  busy.send({ type: 'response.cancel' })
  await busy.until()
  t.like((await busy.until()).at(-1), { status: 400, error: { code: 'websocket_connection_limit_reached' } })
  t.is((await busy.end()).code, 4408)
})

test.serial('a connection without a turn for 15 minutes is closed', async t => {
  const { live: key } = await live()
  const client = await open(key)
  skippedMs += 14 * minuteMs
  t.true(await works(client))
  skippedMs += 14 * minuteMs
  t.true(await works(client))
  skippedMs += 16 * minuteMs
  t.is((await client.end()).code, 1000)
})

/** A connection whose client takes one write at a time, when `acceptUntil` is called. */
class SlowConnection extends Duplex {
  #waiting: (() => void)[] = []

  override _read(): void {}

  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    this.#waiting.push(done)
  }

  /** Takes writes until no more than these bytes wait. */
  async acceptUntil(waitingBytes: number): Promise<void> {
    while (this.#waiting.length > 0 && this.writableLength > waitingBytes) {
      this.#waiting.shift()!()
      await new Promise(setImmediate)
    }
  }
}

test('read on after a client that was slow has taken the frames, also those sent meanwhile', async t => {
  const connection = new SlowConnection()
  t.teardown(() => connection.destroy())
  const headers = {
    upgrade: 'websocket',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'sec-websocket-version': '13',
  }
  const request = { method: 'GET', url: '/', headers } as unknown as IncomingMessage
  const server = new WebSocketServer({ noServer: true })
  const socket = await new Promise<WebSocket>(resolve =>
    server.handleUpgrade(request, connection, Buffer.alloc(0), resolve),
  )
  await connection.acceptUntil(0)
  const sender = new FrameSender(socket, connection)
  const frame = (kib: number) => Buffer.alloc(kib * 1024, 'x')
  t.true(sender.send(frame(900)))
  t.false(sender.send(frame(200)), 'the client is slow')
  let isDrained = false
  sender.onDrain(() => {
    isDrained = true
  })
  await connection.acceptUntil(201 * 1024)
  t.false(isDrained)
  sender.send(frame(700))
  await connection.acceptUntil(0)
  t.true(isDrained)
  t.false(socket.isPaused)
  t.true(sender.send(frame(1)))
})
