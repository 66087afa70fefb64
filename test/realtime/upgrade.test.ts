import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { migrate } from '../../dev/migrate.ts'
import type { ErrorCode } from '../../shared/base/errors.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { newKey } from '../../shared/keys/key-requests.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { eventually, startGateway, startProcess } from '../support/gateway.ts'
import { connectTo, readAll } from '../support/io/raw-requests.ts'
import {
  joined,
  leftBehind,
  type Opening,
  RealtimeClient,
  realtimeModel,
  refusedSession,
  startRealtime,
  upgradeHead,
} from '../support/realtime/sockets.ts'
import { privatePostgres, privateRedis } from '../support/stack.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

const page = 'https://page.example'
let skippedMs = 0
const clock = { now: () => Date.now() + skippedMs }
const world = use(test, () => startRealtime({ clock, env: { REALTIME_ORIGINS: page, REALTIME_MAX_SESSIONS: '20' } }))

type Expected = [status: number, code: ErrorCode, param?: string | null]

/** Asks for a session, and checks the refusal in everything that all refusals have. */
async function refused(t: ExecutionContext, opening: Opening, [status, code, param = null]: Expected) {
  const refusal = await refusedSession(world.gateway.url, opening)
  const { headers, body } = refusal
  const title = JSON.stringify(opening)
  t.is(refusal.status, status, `${title} ${refusal.text}`)
  t.is(body.error.code, code, title)
  t.is(body.error.param, param, title)
  t.true(body.error.message.length > 10, title)
  t.regex(String(headers['x-request-id']), /^req_/, title)
  t.is(headers.connection, 'close', title)
  t.is(headers['content-type'], 'application/json; charset=utf-8', title)
  t.is(headers['access-control-allow-origin'], '*', title)
  t.is(headers['www-authenticate'], status === 401 ? 'Bearer' : undefined, title)
  return refusal
}

/** The answer to bytes sent as they are. */
async function answerTo(head: string): Promise<string> {
  const socket = await connectTo(world.gateway.url)
  socket.write(head)
  return (await readAll(socket)).toString()
}

test.serial('401 without a key, and with one that is no key', async t => {
  const { organisationId, live } = await world.account()
  const unknown = `svc_sk_live_${'a'.repeat(40)}`
  await refused(t, {}, [401, 'missing_api_key'])
  await refused(t, { protocols: ['realtime'] }, [401, 'missing_api_key'])
  await refused(t, { key: unknown }, [401, 'invalid_api_key'])
  await refused(t, { protocols: ['realtime', `openai-insecure-api-key.${unknown}`] }, [401, 'invalid_api_key'])
  await refused(t, { key: 'not a key' }, [401, 'invalid_api_key'])
  await refused(t, { headers: { authorization: `Basic ${live}` } }, [401, 'invalid_api_key'])
  await refused(t, { protocols: ['openai-insecure-api-key.'] }, [401, 'invalid_api_key'])
  const { text } = await refused(t, { query: `model=${realtimeModel}&key=${live}` }, [401, 'missing_api_key'])
  t.false(text.includes(live))

  const revoked = await world.gateway.key(organisationId, 'live')
  await world.gateway.services.keys.revoke(organisationId, hashSecret(revoked), operatorActor)
  await refused(t, { key: revoked }, [401, 'revoked_api_key'])
  const expiring = await world.gateway.services.keys.create(
    organisationId,
    newKey.parse({ expires_in_days: 1 }),
    operatorActor,
  )
  skippedMs += 2 * 24 * 3_600_000
  await refused(t, { key: expiring.secret }, [401, 'expired_api_key'])
})

test.serial('426 for a WebSocket at any other path, with and without a key', async t => {
  const { live: key } = await world.account()
  for (const path of ['/v1/responses/', '/v1/chat/completions', '/v1/realtime/', '/', '/dashboard']) {
    await refused(t, { key, path }, [426, 'upgrade_required'])
    await refused(t, { path }, [426, 'upgrade_required'])
  }
})

test.serial('403 for a key that may not, and for a page that may not', async t => {
  const { organisationId, live } = await world.account()
  const narrow = await world.gateway.key(organisationId, 'live', { scopes: 'chat' })
  await refused(t, { key: narrow }, [403, 'insufficient_scope'])
  const other = await world.gateway.key(organisationId, 'live', { model_allowlist: ['gpt-5'] })
  await refused(t, { key: other }, [403, 'model_not_allowed', 'model'])
  await refused(t, { key: await provisioningKey(world.gateway, organisationId) }, [403, 'wrong_key_type'])
  await refused(t, { key: live, headers: { origin: 'https://evil.example' } }, [403, 'origin_not_allowed'])
  await refused(t, { key: live, headers: { origin: 'null' } }, [403, 'origin_not_allowed'])
  for (const headers of [{ origin: page }, undefined]) {
    const client = await joined(new RealtimeClient(world.gateway.url, { key: live, ...(headers && { headers }) }))
    client.socket.close()
    await client.end()
  }
})

test.serial('404 for what is not there, 400 for what is no question', async t => {
  const { live: key } = world
  await refused(t, { key, query: 'model=no-such-model' }, [404, 'model_not_found', 'model'])
  await refused(t, { key, query: 'model=gpt-5' }, [404, 'model_not_found', 'model'])
  await refused(t, { key, query: '' }, [400, 'missing_field', 'model'])
  await refused(t, { key, query: 'model=' }, [400, 'invalid_request', 'model'])
  await refused(t, { key, query: `model=${realtimeModel}&voice=alloy` }, [400, 'unknown_field', 'voice'])
  await refused(t, { key, query: `model=${realtimeModel}&intent=chat` }, [400, 'invalid_request', 'intent'])
  await refused(t, { key, query: 'model=grok-voice' }, [503, 'no_provider_available'])
  t.is(world.provider.sessions.length, 2)
})

test.serial('400 in our own words for every bad handshake, before a provider is asked', async t => {
  const authorization = `Bearer ${world.live}`
  const path = `/v1/realtime?model=${realtimeModel}`
  const opened = world.provider.sessions.length
  const heads = [
    upgradeHead(path, { authorization, 'sec-websocket-key': 'short' }),
    upgradeHead(path, { authorization, 'sec-websocket-version': '8' }),
    upgradeHead(path, { authorization, 'sec-websocket-version': '99' }),
    upgradeHead(path, { authorization, 'sec-websocket-protocol': 'realtime,,more' }),
    upgradeHead(path, { authorization, 'sec-websocket-protocol': 'realtime, realtime' }),
    upgradeHead(path, { authorization, 'sec-websocket-protocol': 'real time' }),
    upgradeHead(path, { authorization, 'sec-websocket-protocol': '' }),
    upgradeHead(path, { authorization }, 'POST'),
  ]
  for (const head of heads) {
    const answer = await answerTo(head)
    t.regex(answer, /^HTTP\/1\.1 400 Bad Request\r\n/, head)
    t.is(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))).error.code, 'invalid_request', head)
  }
  t.is(world.provider.sessions.length, opened)
})

test.serial('200 for a request that offers to speak something else than WebSocket', async t => {
  const more = { authorization: `Bearer ${world.live}`, upgrade: 'h2c', connection: 'Upgrade, HTTP2-Settings' }
  const socket = await connectTo(world.gateway.url)
  socket.write(upgradeHead('/v1/models', { ...more, 'http2-settings': 'AAMAAABkAAQAAP__' }))
  const [part] = (await once(socket, 'data')) as [Buffer]
  t.regex(part.toString(), /^HTTP\/1\.1 200 OK\r\n/)
  socket.destroy()
})

test.serial('402 without the money for a first stretch', async t => {
  const poor = await world.account({ usd: '0' })
  const { body } = await refused(t, { key: poor.live }, [402, 'insufficient_credits'])
  t.true(body.error.metadata.required_usd > 0)
  const { organisationId } = await world.account()
  const capped = await world.gateway.key(organisationId, 'live', { monthly_spend_cap_usd: 0 })
  await refused(t, { key: capped }, [402, 'monthly_spend_cap_reached'])
})

test.serial('429 beyond the requests per minute', async t => {
  const { organisationId } = await world.account()
  const key = await world.gateway.key(organisationId, 'live', { rpm_limit: 1 })
  const client = await joined(new RealtimeClient(world.gateway.url, { key }))
  const { headers } = await refused(t, { key }, [429, 'rate_limit_exceeded'])
  t.is(headers['x-ratelimit-remaining-requests'], '0')
  t.truthy(headers['retry-after'])
  client.socket.close()
  await client.end()
})

test.serial('429 for the 21st session of an organisation, until one ends', async t => {
  const { live, organisationId } = await world.account()
  const other = await world.gateway.key(organisationId, 'test')
  const clients = await Promise.all(
    Array.from({ length: 20 }, (_, i) => joined(new RealtimeClient(world.gateway.url, { key: i % 2 ? live : other }))),
  )
  const { headers } = await refused(t, { key: live }, [429, 'rate_limit_exceeded'])
  t.is(headers['retry-after'], '10')
  clients[7]!.socket.close()
  await clients[7]!.end()
  await eventually(async () => (await world.gateway.services.redis.zcard(`realtime:${organisationId}`)) === 19, 'free')
  const again = await joined(new RealtimeClient(world.gateway.url, { key: live }))
  await refused(t, { key: live }, [429, 'rate_limit_exceeded'])
  for (const { socket } of [...clients, again]) socket.close()
  t.deepEqual(await leftBehind(world), [])
})

test.serial('429 while the seats of a killed process are kept, which is half a minute', async t => {
  const { live } = await world.account()
  skippedMs = 0
  const web = await startProcess('web', world.stores, world.env)
  t.teardown(() => web.kill())
  const opened = Array.from({ length: 20 }, () => joined(new RealtimeClient(web.url, { key: live })))
  const clients = await Promise.all(opened)
  await refused(t, { key: live }, [429, 'rate_limit_exceeded'])
  await web.kill('SIGKILL')
  await Promise.all(clients.map(client => client.end()))
  await refused(t, { key: live }, [429, 'rate_limit_exceeded'])
  skippedMs = 41_000
  const client = await joined(new RealtimeClient(world.gateway.url, { key: live }))
  client.socket.close()
  await client.end()
})

test.serial('499 for a client that leaves while the provider takes its time; nothing is left of it', async t => {
  const { live, organisationId } = await world.account()
  const { redis, wallets } = world.gateway.services
  const leaving: ((socket: Socket) => void)[] = [
    socket => void socket.end(),
    socket => void socket.destroy(),
    socket => void socket.resetAndDestroy(),
  ]
  for (const leave of leaving) {
    let asked: Socket | undefined
    world.provider.next((_request, socket) => {
      asked = socket.resume()
    })
    const { hostname, port } = new URL(world.gateway.url)
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {}) // It broke its own connection.
    socket.write(upgradeHead(`/v1/realtime?model=${realtimeModel}`, { authorization: `Bearer ${live}` }))
    await eventually(() => asked !== undefined, 'the provider is asked')
    t.true((await wallets.view(organisationId)).reservedNano > 0n)
    leave(socket)
    await eventually(() => asked!.readableEnded || asked!.destroyed, 'the provider is left')
    asked!.destroy()
    await eventually(async () => (await redis.exists(`realtime:${organisationId}`)) === 0, 'the seat is free')
    await eventually(async () => (await wallets.view(organisationId)).reservedNano === 0n, 'nothing is reserved')
  }
})

test('503 while Redis is away, and sessions again once it is back', async t => {
  const [postgres, redis] = await Promise.all([privatePostgres(), privateRedis()])
  await migrate(postgres.url)
  const gateway = await startGateway({ databaseUrl: postgres.url, redisUrl: redis.url, drop: async () => {} })
  t.teardown(async () => {
    await gateway.close()
    await Promise.all([postgres.stop(), redis.stop()])
  })
  const { test: key } = await gateway.account()
  const first = await joined(new RealtimeClient(gateway.url, { key }))
  await redis.kill()
  const { status, body, headers } = await refusedSession(gateway.url, { key })
  t.is(status, 503)
  t.is(body.error.code, 'service_unavailable')
  t.is(headers['retry-after'], '1')
  t.is(first.closed, null)
  await redis.restart()
  await eventually(async () => (await gateway.fetch('/readyz')).status === 200, 'it is back')
  const second = await joined(new RealtimeClient(gateway.url, { key }))
  for (const { socket } of [first, second]) socket.close()
  await Promise.all([first.end(), second.end()])
})

test.serial('101 with the key in x-api-key, whatever else Authorization has', async t => {
  const { live } = await world.account()
  const other = { authorization: 'Bearer sk-ant-other', 'x-api-key': live }
  for (const headers of [{ 'x-api-key': live }, other, { authorization: `Bearer ${live}`, 'x-api-key': 'sk-other' }]) {
    const client = await joined(new RealtimeClient(world.gateway.url, { headers }))
    client.socket.close()
    await client.end()
  }
  await refused(t, { headers: { 'x-api-key': 'sk-other' } }, [401, 'invalid_api_key'])
})
