import { pino } from 'pino'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { provisioningKey } from '../support/api/edge.ts'
import { join, signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { png } from '../support/media/media-files.ts'
import { joined, RealtimeClient, refusedSession } from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const quarterHourMs = 15 * 60_000
const realtimeModel = 'gpt-realtime-2.1'
const hello = { model: 'auto', messages: [{ role: 'user', content: 'Hello' }] }
let nowMs = Date.now()
let logged = ''

const gateway = useGateway(test, { OPENAI_API_KEY: 'sk-a' }, { clock: { now: () => nowMs } })
test.before(() => {
  gateway.services.log = pino({ level: 'trace' }, { write: line => void (logged += line) })
})
const owner = use(test, () => signUp(gateway))

type Refusal = { error: { code: string; message: string; param: string | null } }
type Made = { secret: string; expires_at: string }

const key = (environment: 'live' | 'test' = 'test', options = {}) =>
  gateway.key(owner.organisationId, environment, options)
const pathOf = (secret: string, base = owner.base) => `${base}/keys/${hashSecret(secret)}/playground-secret`
const make = (secret: string, { visitor } = owner) => visitor.json<Made>(pathOf(secret), { method: 'POST' })

async function refused(response: Response): Promise<[number, string]> {
  const { error } = (await response.json()) as Refusal
  return [response.status, error.code]
}

const chat = (secret: string) => gateway.fetch('/v1/chat/completions', { key: secret, body: hello })
const chatRefused = async (secret: string) => refused(await chat(secret))

test.serial('201 with a secret that serves as its test key on every kind of route, and is logged nowhere', async t => {
  const secret = await key('test', { rpm_limit: 100 })
  const { secret: play, expires_at } = await make(secret)
  t.regex(play, /^svc_play_[0-9A-Za-z]{40}$/)
  t.is(Date.parse(expires_at), nowMs + quarterHourMs)

  const stream = await gateway.fetch('/v1/chat/completions', { key: play, body: { ...hello, stream: true } })
  t.is(stream.headers.get('x-sandbox'), 'true')
  t.is(stream.headers.get('x-ratelimit-limit-requests'), '100')
  t.regex(await stream.text(), /data: \[DONE\]\n\n$/)

  const hi = { model: 'auto', max_tokens: 50, messages: hello.messages }
  for (const headers of [{ 'x-api-key': play }, { authorization: `Bearer ${play}` }]) {
    const sent = { 'content-type': 'application/json', origin: 'https://app.example', ...headers }
    const message = await fetch(`${gateway.url}/v1/messages`, {
      method: 'POST',
      headers: sent,
      body: JSON.stringify(hi),
    })
    t.is(message.status, 200)
    t.is(message.headers.get('x-sandbox'), 'true')
    t.is(((await message.json()) as { type: string }).type, 'message')
  }

  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(png())]), 'a.png')
  const authorization = `Bearer ${play}`
  const upload = await fetch(`${gateway.url}/v1/uploads`, { method: 'POST', headers: { authorization }, body: form })
  t.is(upload.status, 201)

  const once = { 'idempotency-key': 'video-1' }
  const body = { model: 'veo-3.1-fast', prompt: 'Waves' }
  const submit = (sent: string) => gateway.fetch('/v1/videos', { key: sent, body, headers: once })
  const job = (await (await submit(play)).json()) as { id: string }
  t.is((await gateway.fetch(`/v1/videos/${job.id}`, { key: play })).status, 200)
  const again = await submit((await make(secret)).secret)
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.is(((await again.json()) as { id: string }).id, job.id)

  const protocols = ['realtime', `openai-insecure-api-key.${play}`]
  const { socket } = await joined(new RealtimeClient(gateway.url, { protocols, query: `model=${realtimeModel}` }))
  t.is(socket.protocol, 'realtime')
  socket.close()

  const row = await gateway.services.db.apiKey.findUniqueOrThrow({ where: { hash: hashSecret(secret) } })
  const ofKey = { organisationId: owner.organisationId, keyId: row.id }
  await gateway.settled()
  t.is(await gateway.services.db.generation.count({ where: { ...ofKey, kind: 'chat' } }), 1)
  await eventually(() => logged.includes('/v1/realtime'), 'the session is logged')
  t.true(logged.includes('playground-secret'))
  t.false(logged.includes('svc_play_') || logged.includes(hashSecret(play)))
})

test.serial('the policy of the key holds: its limits, its scopes, its allowlist, a change at once', async t => {
  const secret = await key('test', { model_allowlist: ['gpt-4o-mini'], scopes: 'chat', rpm_limit: 2 })
  const { secret: play } = await make(secret)
  t.deepEqual(await refused(await gateway.fetch('/v1/images', { key: play, body: {} })), [403, 'insufficient_scope'])
  const other = { ...hello, model: 'gpt-4o' }
  t.deepEqual(await refused(await gateway.fetch('/v1/chat/completions', { key: play, body: other })), [
    403,
    'model_not_allowed',
  ])
  t.is((await chat(play)).status, 200)
  t.is((await chat(secret)).status, 200)
  t.deepEqual(await chatRefused(play), [429, 'rate_limit_exceeded'])
  await gateway.services.keys.patch(
    owner.organisationId,
    hashSecret(secret),
    {
      rpm_limit: null,
      scopes: ['embeddings'],
    },
    operatorActor,
  )
  t.deepEqual(await chatRefused(play), [403, 'insufficient_scope'])
})

test.serial('401 after 15 minutes, and once the key is revoked, disabled, rolled or expired', async t => {
  const { keys } = gateway.services
  const { organisationId } = owner
  const ends: [code: string, change: (hash: string) => unknown][] = [
    ['expired_api_key', () => (nowMs += quarterHourMs)],
    ['revoked_api_key', hash => keys.revoke(organisationId, hash, operatorActor)],
    ['revoked_api_key', hash => keys.patch(organisationId, hash, { disabled: true }, operatorActor)],
    ['revoked_api_key', hash => keys.roll(organisationId, hash, operatorActor)],
    [
      'expired_api_key',
      hash => keys.patch(organisationId, hash, { expires_at: new Date(nowMs).toISOString() }, operatorActor),
    ],
  ]
  for (const [code, change] of ends) {
    const secret = await key()
    const { secret: play } = await make(secret)
    t.is((await chat(play)).status, 200)
    await change(hashSecret(secret))
    t.deepEqual(await chatRefused(play), [401, code])
    const { status, body } = await refusedSession(gateway.url, { key: play })
    t.deepEqual([status, body.error.code], [401, code])
  }
  t.deepEqual(await chatRefused(`svc_play_${'a'.repeat(40)}`), [401, 'invalid_api_key'])
  t.deepEqual(await chatRefused('svc_play_short'), [401, 'invalid_api_key'])
})

test.serial('members get secrets for test keys and for keys they made, and lose them with their place', async t => {
  const { organisationId } = owner
  const member = await signUp(gateway, { name: 'Grace' })
  await join(gateway, member.userId, organisationId, 'member')
  const [live, own, tests] = [await key('live'), await key('live'), await key('test')]
  const { db } = gateway.services
  await db.apiKey.update({ where: { hash: hashSecret(own) }, data: { createdById: member.userId } })

  const ask = async (secret: string) => {
    const response = await member.visitor.fetch(pathOf(secret), { method: 'POST' })
    return response.status === 201 ? ((await response.json()) as Made).secret : refused(response)
  }
  t.deepEqual(await ask(live), [403, 'insufficient_role'])
  const where = { organisationId_userId: { organisationId, userId: member.userId } }
  await db.membership.update({ where, data: { role: 'admin' } })
  const plays = [await ask(live), await ask(own), await ask(tests)] as string[]
  const models = (play: string) => gateway.fetch('/v1/models', { key: play })
  for (const play of plays) t.is((await models(play)).status, 200)

  await db.membership.update({ where, data: { role: 'member' } })
  t.deepEqual(await refused(await models(plays[0]!)), [401, 'revoked_api_key'])
  for (const play of plays.slice(1)) t.is((await models(play)).status, 200)
  await db.membership.delete({ where })
  for (const play of plays) t.deepEqual(await refused(await models(play)), [401, 'revoked_api_key'])
  t.deepEqual(await ask(tests), [404, 'not_found'])
})

test.serial(
  '404 for another organisation’s key, 400 for a dead one, 401 and 403 without a session of our page',
  async t => {
    const other = await signUp(gateway)
    const secret = await key()
    const post = { method: 'POST' }
    t.deepEqual(await refused(await other.visitor.fetch(pathOf(secret, other.base), post)), [404, 'not_found'])
    t.deepEqual(await refused(await other.visitor.fetch(pathOf(secret), post)), [404, 'not_found'])
    await gateway.services.keys.revoke(owner.organisationId, hashSecret(secret), operatorActor)
    const dead = await owner.visitor.fetch(pathOf(secret), post)
    t.like(((await dead.json()) as Refusal).error, { code: 'invalid_request', param: 'key' })
    t.deepEqual(await refused(await gateway.fetch(pathOf(secret), post)), [403, 'origin_not_allowed'])
    const elsewhere = { ...post, headers: { origin: 'https://elsewhere.example' } }
    t.deepEqual(await refused(await owner.visitor.fetch(pathOf(secret), elsewhere)), [403, 'origin_not_allowed'])
    const headers = { origin: gateway.url }
    t.deepEqual(await refused(await gateway.fetch(pathOf(secret), { ...post, headers })), [401, 'not_signed_in'])
  },
)

test.serial('403 for what would outlive it: client secrets, and the routes of provisioning keys', async t => {
  const { secret: play } = await make(await key())
  const secrets = await gateway.fetch('/v1/realtime/client_secrets', { key: play, body: {} })
  t.deepEqual(await refused(secrets), [403, 'wrong_key_type'])
  t.deepEqual(await refused(await gateway.fetch('/api/v1/keys', { key: play })), [403, 'wrong_key_type'])
  const provisioning = await provisioningKey(gateway, owner.organisationId)
  t.deepEqual(await refused(await gateway.fetch(pathOf(play), { method: 'POST', key: provisioning })), [
    403,
    'origin_not_allowed',
  ])
  const { body } = await refusedSession(gateway.url, { query: `model=${realtimeModel}&key=${play}` })
  t.is(body.error.code, 'missing_api_key')
})

test.serial('200 with the whole catalog for a member, with who can serve it now', async t => {
  type Row = { id: string; available: boolean; providers: { name: string; status: string; pricing: object }[] }
  const { data } = await owner.visitor.json<{ data: Row[] }>(`${owner.base}/models`)
  const enabled = [...gateway.services.catalog.models.values()].filter(({ disabled }) => !disabled)
  t.deepEqual(
    data.map(({ id }) => id),
    enabled.map(({ id }) => id),
  )
  const row = data.find(({ id }) => id === 'gpt-4o-mini')!
  t.true(row.available)
  t.like(row.providers[0], { name: 'openai', status: 'available' })
  t.deepEqual(Object.keys(row.providers[0]!.pricing).slice(0, 2), ['prompt', 'completion'])
  const away = data.find(({ providers }) => providers.every(({ name }) => name === 'anthropic'))!
  t.like(away, { available: false, providers: [{ status: 'not_configured' }] })
  const other = await signUp(gateway)
  t.deepEqual(await refused(await other.visitor.fetch(`${owner.base}/models`)), [404, 'not_found'])
})
