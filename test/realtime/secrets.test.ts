import OpenAI from 'openai'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { type Account, eventually, type Gateway } from '../support/gateway.ts'
import {
  leftBehind,
  realtimeModel as model,
  type Opening,
  openSession,
  providerSecret,
  refusedSession,
  startRealtime,
} from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const path = '/v1/realtime/client_secrets'
const maxSecrets = 10
let gateway: Gateway
let account: Account
let aheadMs = 0
const clock = { now: () => Date.now() + aheadMs }

const world = use(test, () => {
  // Only asked whether it takes settings.
  const env = {
    GEMINI_API_KEY: 'gemini-key',
    GEMINI_BASE_URL: 'http://127.0.0.1:1',
    REALTIME_MAX_CLIENT_SECRETS: String(maxSecrets),
  }
  return startRealtime({ env, clock })
})
test.before(() => {
  gateway = world.gateway
})
test.beforeEach(async () => {
  aheadMs = 0
  account = await gateway.account()
})

type Made = { value: string; expires_at: number; session: Record<string, unknown> }

async function post(body: object, key = account.live, headers: Record<string, string> = {}) {
  const response = await gateway.fetch(path, { key, body, headers })
  // biome-ignore lint/suspicious/noExplicitAny: a secret or an error
  return { response, status: response.status, body: (await response.json()) as any }
}

async function made(body: object = {}, key = account.live): Promise<Made> {
  const { status, body: secret } = await post(body, key)
  if (status !== 200) throw new Error(`no secret: ${JSON.stringify(secret)}`)
  return secret
}

const waysToSend: Record<string, (secret: string) => Opening> = {
  'a header': key => ({ key }),
  'a subprotocol': secret => ({ key: '', protocols: ['realtime', `openai-insecure-api-key.${secret}`] }),
}

const refused = (opening: Opening) => refusedSession(gateway.url, opening)

test.serial('200 with a secret in the shape of the SDK, of which only the hash is kept', async t => {
  const openai = new OpenAI({ apiKey: account.live, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  const secondsBefore = Math.floor(clock.now() / 1_000)
  const answer = await openai.realtime.clientSecrets.create({
    expires_after: { anchor: 'created_at', seconds: 120 },
    session: { type: 'realtime', model, instructions: 'Be brief.', audio: { output: { voice: 'marin' } } },
  })
  t.regex(answer.value, /^ek_[0-9A-Za-z]{40}$/)
  t.true(answer.expires_at >= secondsBefore + 120 && answer.expires_at <= clock.now() / 1_000 + 120)
  const { session } = answer
  t.is(session.type === 'realtime' ? session.object : '', 'realtime.session')
  t.like(session, { model, instructions: 'Be brief.', audio: { output: { voice: 'marin' } } })
  t.regex(session.id, /^sess_/)

  const { redis } = gateway.services
  const [name, ...more] = await redis.keys('clientsecret:*')
  t.deepEqual([name, ...more], [`clientsecret:${hashSecret(answer.value)}`])
  const kept = (await redis.get(name!))!
  t.false(kept.includes(answer.value) || kept.includes(account.live))
  t.is(JSON.parse(kept).keyHash, hashSecret(account.live))
  t.true((await redis.pttl(name!)) > 120_000)
})

test.serial('200 with what is usual where nothing is asked for', async t => {
  const { expires_at, session } = await made()
  t.true(Math.abs(expires_at - (clock.now() / 1_000 + 600)) < 10)
  t.deepEqual({ ...session, id: '' }, { id: '', object: 'realtime.session', type: 'realtime' })
  const transcription = await made({ session: { type: 'transcription' } })
  t.is(transcription.session.object, 'realtime.transcription_session')
})

for (const [how, sent] of Object.entries(waysToSend)) {
  test.serial(`a secret in ${how} opens sessions of its model with its settings, several times`, async t => {
    const instructions = 'Be brief.'
    const { value } = await made({ session: { type: 'realtime', model, instructions } })
    for (const query of ['', `model=${model}`]) {
      const { client, upstream } = await openSession(world, { ...sent(value), query })
      t.is(client.socket.protocol, how === 'a header' ? '' : 'realtime')
      t.is(upstream.query.get('model'), model)
      t.is(upstream.headers.authorization, `Bearer ${providerSecret}`)
      await eventually(() => upstream.frames.length > 0, 'the settings came')
      t.deepEqual(upstream.events, [{ type: 'session.update', session: { type: 'realtime', instructions } }])
      client.socket.close()
      await client.end()
    }
    t.deepEqual(await leftBehind(world), [])
    const { db } = gateway.services
    t.is(await db.generation.count({ where: { organisationId: account.organisationId, kind: 'realtime' } }), 2)
  })
}

test.serial('a secret without settings leaves them to the client; one of a transcription opens one', async t => {
  const plain = await made({ session: { type: 'realtime', model } })
  const first = await openSession(world, { key: plain.value, query: '' })
  first.client.socket.send('{"type":"response.create"}')
  await eventually(() => first.upstream.frames.length > 0, 'the frame came')
  t.deepEqual(first.upstream.events, [{ type: 'response.create' }])
  first.client.socket.close()

  const { value } = await made({ session: { type: 'transcription' } })
  const second = await openSession(world, { key: value })
  t.is(second.upstream.query.get('intent'), 'transcription')
  await eventually(() => second.upstream.frames.length > 0, 'the settings came')
  t.deepEqual(second.upstream.events, [{ type: 'session.update', session: { type: 'transcription' } }])
  second.client.socket.close()
})

test.serial('403 for another model than the secret’s, 400 for none', async t => {
  const bound = await made({ session: { model } })
  const other = await refused({ key: bound.value, query: 'model=gpt-realtime-2.1-mini' })
  t.is(other.status, 403)
  t.like(other.body.error, { code: 'model_not_allowed', param: 'model' })

  const free = await made()
  const none = await refused({ key: free.value, query: '' })
  t.is(none.status, 400)
  t.like(none.body.error, { code: 'missing_field', param: 'model' })
  const { client } = await openSession(world, { key: free.value, query: 'model=gpt-realtime-2.1-mini' })
  client.socket.close()
})

test.serial('401 for an expired secret, while the session it opened goes on', async t => {
  const { value } = await made({ expires_after: { seconds: 10 }, session: { model } })
  const { client, upstream } = await openSession(world, { key: value, query: '' })
  aheadMs = 10_001
  const late = await refused({ key: value, query: '' })
  t.is(late.status, 401)
  t.is(late.body.error.code, 'expired_api_key')
  client.socket.send('{"type":"response.create"}')
  await eventually(() => upstream.frames.length > 0, 'the frame came')
  t.is(client.closed, null)
  client.socket.close()

  await gateway.services.redis.del(`clientsecret:${hashSecret(value)}`)
  const forgotten = await refused({ key: value, query: '' })
  t.is(forgotten.status, 401)
  t.is(forgotten.body.error.code, 'invalid_api_key')
})

test.serial('a secret of two hours opens sessions by what its key may do then, not when it was made', async t => {
  const { organisationId } = account
  const { keys } = gateway.services
  const longest = { expires_after: { seconds: 7_200 }, session: { model } }
  const made2h = async (key: string) => {
    const { value, expires_at } = await made(longest, key)
    t.true(Math.abs(expires_at - (clock.now() / 1_000 + 7_200)) < 10)
    return value
  }
  const key = await gateway.key(organisationId, 'live')
  const value = await made2h(key)
  aheadMs = 7_190_000
  const { client } = await openSession(world, { key: value, query: '' })
  client.socket.close()
  await client.end()

  await keys.patch(organisationId, hashSecret(key), { model_allowlist: ['gpt-4o-mini'] }, operatorActor)
  const disallowed = await refused({ key: value, query: '' })
  t.deepEqual([disallowed.status, disallowed.body.error.code], [403, 'model_not_allowed'])
  await keys.patch(organisationId, hashSecret(key), { model_allowlist: null, monthly_spend_cap_usd: 0 }, operatorActor)
  const capped = await refused({ key: value, query: '' })
  t.deepEqual([capped.status, capped.body.error.code], [402, 'monthly_spend_cap_reached'])
  await keys.patch(organisationId, hashSecret(key), { disabled: true }, operatorActor)
  t.is((await refused({ key: value, query: '' })).status, 401)

  aheadMs = 0
  const poor = await gateway.account({ usd: '0' })
  const empty = await refused({ key: await made2h(poor.live), query: '' })
  t.deepEqual([empty.status, empty.body.error.code], [402, 'insufficient_credits'])
})

test.serial('401 with the error of the key that made the secret: revoked, rolled, expired', async t => {
  const { keys } = gateway.services
  const { organisationId } = account
  const dayMs = 24 * 3_600_000
  const changes: [code: string, change: (hash: string) => unknown][] = [
    ['revoked_api_key', hash => keys.revoke(organisationId, hash, operatorActor)],
    ['revoked_api_key', hash => keys.roll(organisationId, hash, operatorActor)],
    ['expired_api_key', () => (aheadMs = dayMs)],
  ]
  for (const [code, change] of changes) {
    aheadMs = 0
    const key = await gateway.key(organisationId, 'live', { expires_in_days: 1 })
    aheadMs = dayMs - 60_000
    const { value } = await made({ expires_after: { seconds: 300 }, session: { model } }, key)
    await change(hashSecret(key))
    const { status, body } = await refused({ key: value, query: '' })
    t.is(status, 401)
    t.is(body.error.code, code)
  }
})

test.serial('401 for a secret anywhere else, and for making further ones', async t => {
  const { value } = await made()
  for (const [route, body] of [
    ['/v1/chat/completions', { model: 'auto', messages: [{ role: 'user', content: 'Hello' }] }],
    [path, {}],
    ['/v1/models', undefined],
    ['/v1/realtime', undefined],
    ['/api/v1/keys', undefined],
  ] as const) {
    const response = await gateway.fetch(route, { key: value, ...(body && { body }) })
    t.is(response.status, 401, route)
    const { error } = (await response.json()) as { error: { code: string; message: string } }
    t.is(error.code, 'invalid_api_key')
    t.regex(error.message, /only open realtime sessions/)
  }
  const inAddress = await refused({ query: `model=${model}&key=${value}` })
  t.is(inAddress.body.error.code, 'missing_api_key')
  const provisioning = await provisioningKey(gateway, account.organisationId)
  t.is((await post({}, provisioning)).body.error.code, 'wrong_key_type')
})

test.serial('400 naming the field that does not fit', async t => {
  for (const [param, body] of [
    ['expires_after.seconds', { expires_after: { seconds: 9 } }],
    ['expires_after.seconds', { expires_after: { seconds: 7_201 } }],
    ['expires_after.anchor', { expires_after: { anchor: 'opened_at' } }],
    ['session.type', { session: { type: 'chat' } }],
    ['session.model', { session: { model: 5 } }],
    ['session', { session: { instructions: 'ä'.repeat(32 * 1_024) } }],
    ['colour', { colour: 'red' }],
  ] as const) {
    const { status, body: answer } = await post(body)
    t.is(status, 400, param)
    t.is(answer.error.param, param)
  }
  t.is((await post({ session: { instructions: 'ä'.repeat(32 * 1_024 - 100) } })).status, 200)
})

test.serial('403, 404 and 503 for a model that no session could be opened of', async t => {
  const chosen = await gateway.key(account.organisationId, 'live', { model_allowlist: ['gpt-4o-mini'] })
  const chatting = await gateway.key(account.organisationId, 'live', { scopes: 'chat' })
  const of = (slug: string, key = account.live) => post({ session: { model: slug } }, key)
  for (const [{ status, body }, expected, code] of [
    [await of(model, chosen), 403, 'model_not_allowed'],
    [await of(model, chatting), 403, 'insufficient_scope'],
    [await of('nope'), 404, 'model_not_found'],
    [await of('gpt-4o-mini'), 404, 'model_not_found'],
    [await of('grok-voice'), 503, 'no_provider_available'],
  ] as const) {
    t.is(status, expected, code)
    t.is(body.error.code, code)
    if (status === 404) t.is(body.error.param, 'session.model')
  }
})

test.serial('400 naming the setting for a model whose clients send all settings themselves', async t => {
  const other = 'gemini-3.1-flash-live-preview'
  for (const [param, session] of [
    ['session.instructions', { model: other, instructions: 'Be brief.' }],
    ['session.type', { model: other, type: 'transcription' }],
  ] as const) {
    const { status, body } = await post({ session })
    t.is(status, 400)
    t.like(body.error, { code: 'unsupported_capability', param })
  }
  t.is((await post({ session: { model: other } })).status, 200)

  const { value } = await made({ session: { instructions: 'Be brief.' } })
  const { status, body } = await refused({ key: value, query: `model=${other}` })
  t.is(status, 400)
  t.like(body.error, { code: 'unsupported_capability', param: 'session.instructions' })
})

test.serial('429 once a key has made as many requests as it may', async t => {
  const key = await gateway.key(account.organisationId, 'live', { rpm_limit: 1 })
  const { response, status } = await post({}, key)
  t.is(status, 200)
  t.is(response.headers.get('x-ratelimit-remaining-requests'), '0')
  t.is((await post({}, key)).status, 429)
})

test.serial(
  '429 for more secrets than an organisation may have at a time, by all its keys, until one is no longer stored',
  async t => {
    const other = await gateway.key(account.organisationId, 'live')
    const brief = { expires_after: { seconds: 10 } }
    await made(brief)
    for (let i = 1; i < maxSecrets; i++) await made({ expires_after: { seconds: 7_200 } }, i % 2 ? other : account.live)
    for (const key of [account.live, other, account.test]) {
      const { status, body, response } = await post(brief, key)
      t.is(status, 429)
      t.is(body.error.code, 'rate_limit_exceeded')
      t.regex(body.error.message, /10 client secrets/)
      t.is(response.headers.get('retry-after'), '10')
    }
    t.is((await post(brief, (await gateway.account()).live)).status, 200)

    aheadMs = 11_000
    t.is((await post(brief)).status, 429)
    aheadMs = 611_000
    await made(brief)
    t.is((await post(brief)).status, 429)
  },
)

test.serial('200 again with the same secret under an Idempotency-Key, sealed until then', async t => {
  const again = { 'idempotency-key': 'secret-1' }
  const first = await post({}, account.live, again)
  const second = await post({}, account.live, again)
  t.is(second.response.headers.get('idempotent-replayed'), 'true')
  t.deepEqual(second.body, first.body)

  const where = { organisationId: account.organisationId }
  const row = await gateway.services.db.idempotencyKey.findFirstOrThrow({ where })
  t.false(Buffer.from(row.body!).includes('ek_'))
  const other = await gateway.key(account.organisationId, 'live')
  const third = await post({}, other, again)
  t.is(third.status, 409)
  t.is(third.body.error.code, 'idempotency_key_reused')
})

test.serial('400 for the address of sessions without an upgrade', async t => {
  const response = await gateway.fetch(`/v1/realtime?model=${model}`, { key: account.live })
  t.is(response.status, 400)
  t.is(response.headers.get('upgrade'), 'websocket')
  t.regex(response.headers.get('connection') ?? '', /upgrade/i)
  const { error } = (await response.json()) as { error: { code: string; message: string } }
  t.is(error.code, 'invalid_request')
  t.regex(error.message, /WebSocket/)
})
