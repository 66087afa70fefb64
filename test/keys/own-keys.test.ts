import { rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { operatorActor } from '../../shared/io/audit.ts'
import { Emulator, type Recorded, type Reply } from '../emulators/emulator.ts'
import {
  chatReply,
  failure,
  insufficientQuota,
  invalidKey,
  rateLimited,
  reply,
  serverError,
} from '../emulators/openai.ts'
import {
  type Account,
  call,
  eventually,
  freshStores,
  type Gateway,
  type KeyOptions,
  type Process,
  type Stores,
  startGateway,
  startProcess,
} from '../support/gateway.ts'
import { dumpRedis } from '../support/io/leaks.ts'
import { test } from '../support/test.ts'
import { moneyEnvironment, nanoPerInputToken, nanoPerOutputToken, operator } from '../support/wallet/money.ts'

const shared = 'upstream-shared-9c1b'
const feePercent = 10

let stores: Stores
let openai: Emulator
/** Two gateways on the same stores: one in this process, one whose log is seen. */
let gateway: Gateway
let web: Process
/** What the provider says to one of its keys. */
const answers = new Map<string, Reply>()
let secrets = 0

test.before(async () => {
  stores = await freshStores()
  openai = await Emulator.start((request, response) => (answers.get(keyOf(request)) ?? reply)(request, response))
  const money = await moneyEnvironment(openai.url)
  const env = {
    ...money,
    OPENAI_API_KEY: shared,
    OWN_KEY_FEE_PERCENT: String(feePercent),
    ENCRYPTION_KEY: 'a'.repeat(32),
  }
  gateway = await startGateway(stores, env)
  web = await startProcess('web', stores, { ...env, LOG_LEVEL: 'trace' })
})
test.beforeEach(() => {
  answers.clear()
  openai.reset()
})
test.after.always(async () => {
  await gateway?.close()
  await Promise.all([web?.kill(), openai?.close()])
  await stores?.drop()
})

const keyOf = ({ headers }: Recorded) => String(headers.authorization).replace('Bearer ', '')
/** The keys of the calls that were made, apart from tests of keys. */
const calledKeys = () => openai.requests.filter(({ method }) => method === 'POST').map(keyOf)
const newSecret = () => `own-secret-${++secrets}-4d2f8a`
const body = { model: 'coin', messages: [{ role: 'user', content: 'Hello there' }], max_tokens: 50 }

type World = Account & { provisioning: string; own: string; keyId: string }

/** An organisation with one own key at OpenAI, and a live key in a mode. */
async function organisation(
  own_keys: KeyOptions['own_keys'],
  options: { usd?: string; none?: true } = {},
): Promise<World> {
  const account = await gateway.account({ usd: options.usd ?? '5' })
  const provisioning = (await gateway.services.keys.createProvisioning(account.organisationId, operatorActor)).secret
  const own = newSecret()
  const keyId = options.none ? '' : await addKey(provisioning, { secret: own })
  const live = await gateway.key(account.organisationId, 'live', { own_keys })
  return { ...account, live, provisioning, own, keyId }
}

async function addKey(provisioning: string, fields: object): Promise<string> {
  const response = await gateway.fetch('/api/v1/provider-keys', {
    key: provisioning,
    body: { provider: 'openai', name: 'Mine', ...fields },
  })
  const answer = (await response.json()) as { data: { id: string } }
  if (response.status !== 201) throw new Error(JSON.stringify(answer))
  return answer.data.id
}

const chat = (key: string, more: object = {}, base = gateway.url) =>
  call(base, '/v1/chat/completions', { key, body: { ...body, ...more } })
const errorOf = async (response: Response) =>
  ((await response.json()) as { error: { code: string; message: string } }).error

test.serial('201 stores a key encrypted after its provider accepted it; no answer shows more than its end', async t => {
  const { provisioning, own, keyId } = await organisation('own')
  t.deepEqual(
    openai.requests.map(one => [one.method, one.path, keyOf(one)]),
    [['GET', '/v1/models', own]],
  )
  const response = await gateway.fetch('/api/v1/provider-keys', { key: provisioning })
  const text = await response.text()
  t.false(text.includes(own))
  const [row] = JSON.parse(text).data
  t.like(row, { id: keyId, provider: 'openai', name: 'Mine', enabled: true, models: null, last4: own.slice(-4) })
  t.is(row.test.outcome, 'accepted')
  const stored = await gateway.services.db.providerKey.findUniqueOrThrow({ where: { id: keyId } })
  t.regex(stored.secret, /^sealed:1:/)
})

test.serial('400 with the provider’s answer for a key that it refuses, and nothing is stored', async t => {
  const { provisioning } = await organisation('own', { none: true })
  const secret = newSecret()
  answers.set(
    secret,
    failure(401, `Incorrect API key provided: ${secret}.`, 'invalid_request_error', 'invalid_api_key'),
  )
  const response = await gateway.fetch('/api/v1/provider-keys', {
    key: provisioning,
    body: { provider: 'openai', name: 'Bad', secret },
  })
  t.is(response.status, 400)
  const { message } = await errorOf(response)
  t.regex(message, /openai refused this key \(HTTP 401/)
  t.false(message.includes(secret))
  const list = (await (await gateway.fetch('/api/v1/provider-keys', { key: provisioning })).json()) as {
    data: unknown[]
  }
  t.deepEqual(list.data, [])
  for (const provider of ['azure', 'ollama', 'nobody'])
    t.is(
      (await gateway.fetch('/api/v1/provider-keys', { key: provisioning, body: { provider, name: 'n', secret } }))
        .status,
      400,
    )
})

test.serial(
  '200 with the own key for every dialect and for embeddings; only the fee is charged, and the upstream cost shown',
  async t => {
    const { live, own, keyId } = await organisation('own')
    const response = await chat(live)
    const text = await response.text()
    t.is(response.status, 200, text)
    t.is(response.headers.get('x-gateway-own-key'), '1')
    t.deepEqual(calledKeys(), [own])
    const { usage } = JSON.parse(text)
    const listNano = usage.prompt_tokens * nanoPerInputToken + usage.completion_tokens * nanoPerOutputToken
    t.is(Math.round(usage.cost * 1e9), Math.ceil((listNano * feePercent) / 100))
    t.true(usage.is_byok)
    t.is(Math.round(usage.cost_details.upstream_inference_cost * 1e9), listNano)
    t.deepEqual(await gateway.settled(), [])
    const id = response.headers.get('x-generation-id')!
    const generation = (await (await gateway.fetch(`/v1/generation?id=${id}`, { key: live })).json()) as {
      data?: object
    }
    const shown = (generation.data ?? generation) as Record<string, unknown>
    t.is(shown.is_byok, true)
    t.is(shown.upstream_inference_cost, listNano / 1e9)
    const row = await gateway.services.db.generation.findFirstOrThrow({ where: { id } })
    t.like(row, {
      providerKeyId: keyId,
      upstreamCostNano: BigInt(listNano),
      costNano: BigInt(Math.round(usage.cost * 1e9)),
    })
    const others: [string, object][] = [
      ['/v1/messages', { model: 'coin', max_tokens: 20, messages: body.messages }],
      ['/v1/responses', { model: 'coin', input: 'Hello', store: false }],
      ['/v1/embeddings', { model: 'coin-embedding', input: 'Hello' }],
      ['/v1/chat/completions', { ...body, stream: true }],
      ['/v1/chat/completions', { ...body, model: 'auto' }],
    ]
    for (const [path, body] of others) {
      openai.reset()
      const answer = await gateway.fetch(path, { key: live, body })
      const text = await answer.text()
      t.is(answer.status, 200, `${path} ${text}`)
      t.deepEqual(calledKeys(), [own], path)
    }
    t.deepEqual(await gateway.settled(), [])
  },
)

test.serial('403 no_own_key where `own` has no key for the model; restrictions to models and keys hold', async t => {
  const { live, provisioning, organisationId } = await organisation('own', { none: true })
  const response = await chat(live)
  t.is(response.status, 403)
  const { code, message } = await errorOf(response)
  t.is(code, 'no_own_key')
  t.regex(message, /openai/)
  t.deepEqual(openai.requests, [])
  const secret = newSecret()
  const id = await addKey(provisioning, { secret, models: ['coin-embedding'] })
  t.is((await chat(live)).status, 403)
  const { keys, db } = gateway.services
  const other = await keys.create(organisationId, { environment: 'live', own_keys: 'own' }, operatorActor)
  const change = (patch: object) =>
    gateway.fetch(`/api/v1/provider-keys/${id}`, { key: provisioning, method: 'PATCH', body: patch })
  t.is((await change({ models: null, key_ids: [other.row.id] })).status, 200)
  t.is((await chat(live)).status, 403)
  t.is((await chat(other.secret)).status, 200)
  t.is((await change({ key_ids: ['key_unknown'] })).status, 400)
  t.is((await change({ enabled: false })).status, 200)
  t.is((await chat(other.secret)).status, 403)
  const events = await db.auditEvent.findMany({ where: { organisationId, action: { startsWith: 'provider_key.' } } })
  t.deepEqual(events.map(({ action }) => action).sort(), [
    'provider_key.created',
    'provider_key.updated',
    'provider_key.updated',
  ])
  t.false(JSON.stringify(events).includes(secret))
  const elsewhere = await gateway.fetch(`/api/v1/provider-keys/${id}`, {
    key: (await organisation('own')).provisioning,
  })
  t.is(elsewhere.status, 404)
})

test.serial('own_then_shared tries own keys first and fails over to the service’s where they are refused', async t => {
  const refusals: Reply[] = [
    invalidKey,
    insufficientQuota,
    rateLimited('20'),
    failure(403, 'No.', 'invalid_request_error', 'forbidden'),
  ]
  for (const refusal of refusals) {
    const { live, own } = await organisation('own_then_shared')
    openai.reset()
    t.is((await chat(live)).headers.get('x-gateway-own-key'), '1')
    answers.set(own, refusal)
    const response = await chat(live)
    const text = await response.text()
    t.is(response.status, 200, text)
    t.is(response.headers.get('x-gateway-own-key'), null)
    t.deepEqual(calledKeys(), [own, own, shared])
    const { usage } = JSON.parse(text)
    const listNano = usage.prompt_tokens * nanoPerInputToken + usage.completion_tokens * nanoPerOutputToken
    t.is(Math.round(usage.cost * 1e9), listNano, 'the whole price')
    // The refused key rests, alone.
    openai.reset()
    t.is((await chat(live)).status, 200)
    t.deepEqual(calledKeys(), [shared])
  }
  t.deepEqual(await gateway.settled(), [])
})

test.serial(
  '403 own_key_refused names the key; the breaker of the provider and other organisations are untouched',
  async t => {
    const bad = await organisation('own')
    const good = await organisation('own')
    const neither = await organisation('shared')
    answers.set(
      bad.own,
      failure(401, `Incorrect API key provided: ${bad.own}.`, 'invalid_request_error', 'invalid_api_key'),
    )
    for (let calls = 0; calls < 6; calls++) {
      const response = await chat(bad.live)
      t.is(response.status, 403)
      const { code, message } = await errorOf(response)
      t.is(code, 'own_key_refused')
      t.regex(message, /openai refused your organisation’s own key “Mine” \(…2f8a\)/)
      t.false(message.includes(bad.own))
    }
    t.is(calledKeys().length, 1, 'it is not asked again at once')
    answers.set(bad.own, serverError)
    openai.reset()
    t.is((await chat(good.live)).status, 200)
    t.is((await chat(neither.live)).status, 200)
    t.deepEqual(calledKeys(), [good.own, shared])
    const { catalog, upstreams } = gateway.services
    const [target] = upstreams.targets(catalog.find('coin')!, 'live')
    t.like(upstreams.figures(target!), { circuit: 'closed', cooldownMs: 0 })
    t.is(target!.own, undefined)
  },
)

test.serial('several own keys take turns, and one that is limited rests alone', async t => {
  const { live, own, provisioning } = await organisation('own')
  const second = newSecret()
  await addKey(provisioning, { secret: second })
  openai.reset()
  for (let calls = 0; calls < 4; calls++) t.is((await chat(live)).status, 200)
  t.deepEqual(calledKeys().sort(), [own, own, second, second].sort())
  answers.set(own, rateLimited('30'))
  openai.reset()
  for (let calls = 0; calls < 4; calls++) t.is((await chat(live)).status, 200)
  t.is(calledKeys().filter(key => key === own).length, 1)
})

test.serial(
  'a replaced secret is used by every process at once, and a running stream ends with the old one',
  async t => {
    const { live, own, keyId, provisioning } = await organisation('own')
    t.is((await chat(live, {}, web.url)).status, 200)
    const gate = Promise.withResolvers<void>()
    answers.set(own, async (request, response) => {
      await gate.promise
      await chatReply()(request, response)
    })
    const running = chat(live, { stream: true })
    await eventually(async () => calledKeys().length === 2, 'the stream has begun')
    const secret = newSecret()
    const path = `/api/v1/provider-keys/${keyId}`
    const changed = await gateway.fetch(path, { key: provisioning, method: 'PATCH', body: { secret } })
    t.is(changed.status, 200)
    openai.reset()
    t.is((await chat(live, {}, web.url)).status, 200)
    t.is((await chat(live)).status, 200)
    t.deepEqual(calledKeys(), [secret, secret])
    gate.resolve()
    const text = await (await running).text()
    t.regex(text, /\[DONE\]/)
    t.is((await gateway.fetch(path, { key: provisioning, method: 'DELETE' })).status, 200)
    t.is((await chat(live, {}, web.url)).status, 403)
    t.is((await chat(live)).status, 403)
  },
)

test.serial('test keys never use own keys, and keys without the policy do not', async t => {
  const { organisationId } = await organisation('own')
  openai.reset()
  const sandboxed = await gateway.key(organisationId, 'test', { own_keys: 'own' })
  t.is((await chat(sandboxed)).headers.get('x-sandbox'), 'true')
  t.deepEqual(calledKeys(), [])
  t.is((await chat(await gateway.key(organisationId, 'live', {}))).status, 200)
  t.deepEqual(calledKeys(), [shared])
})

test.serial('402 for an empty wallet while there is a fee', async t => {
  const { live } = await organisation('own', { usd: '0' })
  t.is((await chat(live)).status, 402)
})

test.serial('a secret is in no log, answer, log entry, event or key of Redis', async t => {
  const { live, own, organisationId } = await organisation('own_then_shared')
  answers.set(
    own,
    failure(401, `Incorrect API key provided: ${own}. It is Bearer ${own}`, 'invalid_request_error', 'invalid_api_key'),
  )
  const texts = [
    await (await chat(live, {}, web.url)).text(),
    await (await chat(live, { stream: true }, web.url)).text(),
  ]
  answers.set(own, failure(400, `Your key ${own} may not do this.`, 'invalid_request_error', null))
  const only = await gateway.key(organisationId, 'live', { own_keys: 'own' })
  texts.push(await (await chat(only)).text())
  t.deepEqual(await gateway.settled(), [])
  const { db, redis } = gateway.services
  const rows = await db.generation.findMany({ where: { organisationId } })
  t.true(rows.length >= 2)
  const bigint = (_name: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value)
  texts.push(JSON.stringify(rows, bigint), await dumpRedis(redis), web.output())
  for (const text of texts) t.false(text.includes(own))
})

test.serial('`operator own-key` adds, lists, tests and deletes', async t => {
  const { organisationId } = await organisation('own', { none: true })
  const secret = newSecret()
  const file = join(tmpdir(), secret)
  await writeFile(file, `${secret}\n`)
  t.teardown(() => rm(file))
  const run = (...argv: string[]) => operator(gateway.services, ...argv)
  const added = (
    await run('own-key', 'add', '--org', organisationId, '--provider', 'openai', '--name', 'Ops', '--secret-file', file)
  ).data as {
    data: { id: string }
  }
  const { text } = await run('own-key', 'list', '--org', organisationId)
  t.regex(text, /openai.*accepted.*Ops/)
  t.false(text.includes(secret))
  const at = ['--org', organisationId, '--id', added.data.id]
  t.regex((await run('own-key', 'test', ...at)).text, /accepted/)
  await run('own-key', 'delete', ...at)
  t.is((await run('own-key', 'list', '--org', organisationId)).text, 'No provider keys.')
})

test.serial('200 from the cache only for keys that may use the same provider keys', async t => {
  const { organisationId, provisioning } = await organisation('own', { none: true })
  const { keys } = gateway.services
  const cached = { environment: 'live', own_keys: 'own', cache: { ttl_s: 60 } } as const
  const [one, other] = await Promise.all([1, 2].map(() => keys.create(organisationId, cached, operatorActor)))
  for (const { row } of [one!, other!]) await addKey(provisioning, { secret: newSecret(), key_ids: [row.id] })
  const stateOf = async (secret: string) => {
    const response = await chat(secret)
    t.is(response.status, 200, await response.text())
    return response.headers.get('x-gateway-cache')
  }
  t.is(await stateOf(one!.secret), 'miss')
  await eventually(async () => (await stateOf(one!.secret)) === 'hit', 'the answer is stored')
  t.is(await stateOf(other!.secret), 'miss')
})
