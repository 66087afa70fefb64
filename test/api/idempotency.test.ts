import { Emulator, type Reply } from '../emulators/emulator.ts'
import {
  answersError,
  embeddingReply,
  plainChatReply,
  plainStream,
  provisioningKey,
  validBodies,
} from '../support/api/edge.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let account: Account

/** A clock that runs with the real one, moved ahead by `aheadMs`. */
let aheadMs = 0
const clock = { now: () => Date.now() + aheadMs }

const reply: Reply = (request, response) => {
  if (request.path === '/v1/embeddings') return embeddingReply(request.body)(request, response)
  if (request.body.stream !== true) return plainChatReply(request, response)
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(plainStream)
}

const upstream = use(test, () => Emulator.start(reply))
const gateway = useGateway(
  test,
  () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1`, RUNWAY_API_KEY: 'key_1' }),
  { clock },
)
test.beforeEach(async () => {
  account = await gateway.account({ rpm_limit: 1_000 })
  upstream.reset()
})

const chat = '/v1/chat/completions'
const hello = validBodies[chat]

function post(path: string, idempotencyKey: string, body: unknown = hello, key = account.live): Promise<Response> {
  return gateway.fetch(path, { method: 'POST', key, body, headers: { 'idempotency-key': idempotencyKey } })
}

async function spentNano(): Promise<bigint> {
  await gateway.settled()
  const { balanceNano, reservedNano } = await gateway.services.wallets.view(account.organisationId)
  return 25_000_000_000n - balanceNano + reservedNano
}

for (const path of [chat, '/v1/completions', '/v1/embeddings'] as const) {
  test.serial(`200 again with the first answer and one charge: ${path}`, async t => {
    const first = await post(path, 'key-1', validBodies[path])
    t.is(first.status, 200)
    t.is(first.headers.get('idempotent-replayed'), null)
    const body = await first.text()
    const charged = await spentNano()
    t.true(charged > 0n)
    const second = await post(path, 'key-1', validBodies[path])
    t.is(second.status, 200)
    t.is(second.headers.get('idempotent-replayed'), 'true')
    t.is(await second.text(), body)
    for (const name of ['x-generation-id', 'x-gateway-model', 'x-gateway-provider', 'x-gateway-cost-usd'])
      t.is(second.headers.get(name), first.headers.get(name) ?? '', name)
    t.not(second.headers.get('x-request-id'), first.headers.get('x-request-id'))
    t.is(first.headers.get('x-ratelimit-remaining-requests'), '999')
    t.is(second.headers.get('x-ratelimit-remaining-requests'), '998')
    t.is(await spentNano(), charged)
    t.is(upstream.requests.length, 1)
  })
}

test.serial('200 again for POST /v1/route, with its headers', async t => {
  const first = await post('/v1/route', 'key-1')
  const second = await post('/v1/route', 'key-1')
  t.is(second.headers.get('idempotent-replayed'), 'true')
  t.is(second.headers.get('x-gateway-model'), first.headers.get('x-gateway-model') ?? '')
  t.deepEqual(await second.json(), await first.json())
})

test.serial('409 idempotency_key_reused for another body or route under the same key', async t => {
  t.is((await post(chat, 'key-1')).status, 200)
  const others = [
    post(chat, 'key-1', { ...hello, n: 1 }),
    post(chat, 'key-1', `${JSON.stringify(hello)} `),
    post('/v1/route', 'key-1'),
  ]
  for (const response of await Promise.all(others)) {
    await answersError(t, response, 'idempotency_key_reused', 'Idempotency-Key')
    t.is(response.headers.get('x-should-retry'), 'false')
  }
  t.is(upstream.requests.length, 1)
})

test.serial('409 idempotency_in_progress while the first runs, its answer afterwards', async t => {
  const gate = Promise.withResolvers<void>()
  upstream.next(async (request, response) => {
    await gate.promise
    await plainChatReply(request, response)
  })
  const first = post(chat, 'key-1')
  await eventually(() => upstream.requests.length === 1, 'the first request is with the provider')
  const second = await post(chat, 'key-1')
  await answersError(t, second, 'idempotency_in_progress', 'Idempotency-Key')
  t.is(second.headers.get('retry-after'), '1')
  t.is(second.headers.get('x-should-retry'), 'true')
  gate.resolve()
  const body = await (await first).text()
  // The answer is stored before it is sent, so a client that has it can repeat the request at once.
  t.is(await (await post(chat, 'key-1')).text(), body)
  t.is(upstream.requests.length, 1)
})

test.serial('200 once, 409 or the same answer for the others of many at the same time', async t => {
  const responses = await Promise.all(Array.from({ length: 20 }, () => post(chat, 'key-1')))
  const answers = new Set<string>()
  for (const response of responses) {
    if (response.status === 200) answers.add(await response.text())
    else await answersError(t, response, 'idempotency_in_progress')
  }
  t.is(answers.size, 1)
  t.is(upstream.requests.length, 1)
})

test.serial('400 for a key of 256 characters or none, 200 for 255', async t => {
  await answersError(t, await post(chat, 'k'.repeat(256)), 'invalid_request', 'Idempotency-Key')
  await answersError(t, await post(chat, ''), 'invalid_request', 'Idempotency-Key')
  t.is((await post(chat, 'k'.repeat(255))).status, 200)
})

test.serial('200 after a failure of the same key: a failure keeps nothing', async t => {
  await answersError(t, await post(chat, 'key-1', { ...hello, model: 'nope' }), 'model_not_found')
  await answersError(t, await post(chat, 'key-1', '{'), 'invalid_json')
  const response = await post(chat, 'key-1')
  t.is(response.status, 200)
  t.is(response.headers.get('idempotent-replayed'), null)
})

test.serial('200 twice for streams: they are not replayed', async t => {
  for (let call = 0; call < 2; call++) {
    const response = await post(chat, 'key-1', { ...hello, stream: true })
    t.is(response.headers.get('idempotent-replayed'), null)
    t.true((await response.text()).endsWith('data: [DONE]\n\n'))
  }
  t.is(upstream.requests.length, 2)
})

test.serial('200 anew for another organisation, and for a test key beside a live one', async t => {
  t.is((await post(chat, 'key-1')).status, 200)
  const other = await gateway.account()
  for (const key of [other.live, account.test]) {
    const response = await post(chat, 'key-1', hello, key)
    t.is(response.status, 200)
    t.is(response.headers.get('idempotent-replayed'), null)
  }
  const sibling = await gateway.key(account.organisationId, 'live')
  t.is((await post(chat, 'key-1', hello, sibling)).headers.get('idempotent-replayed'), 'true')
})

test.serial('200 anew after 24 hours, the first answer until then', async t => {
  const first = await (await post(chat, 'key-1')).text()
  try {
    aheadMs = 24 * 3_600_000 - 60_000
    t.is(await (await post(chat, 'key-1')).text(), first)
    aheadMs = 24 * 3_600_000 + 60_000
    const later = await post(chat, 'key-1')
    t.is(later.status, 200)
    t.is(later.headers.get('idempotent-replayed'), null)
  } finally {
    aheadMs = 0
  }
})

/** Holds the provider's answer to the next request until `release`. */
function heldAnswer(): { release(): void } {
  const gate = Promise.withResolvers<void>()
  upstream.next(async (request, response) => {
    await gate.promise
    await plainChatReply(request, response)
  })
  return { release: gate.resolve }
}

/** Moves the end of the account's lease to so many seconds from now. */
function moveLease(seconds: number): Promise<number> {
  return gateway.services.db.$executeRaw`
    UPDATE idempotency_keys SET locked_until = now() + ${seconds}::float8 * interval '1 second'
    WHERE organisation_id = ${account.organisationId}`
}

test.serial('409 as long as a request runs, which renews its lease; 409 tells when a dead one’s ends', async t => {
  const held = heldAnswer()
  const first = post(chat, 'key-1')
  await eventually(() => upstream.requests.length === 1, 'the request is with the provider')
  await moveLease(6)
  const dying = await post(chat, 'key-1')
  await answersError(t, dying, 'idempotency_in_progress')
  const retryAfterS = Number(dying.headers.get('retry-after'))
  t.true(retryAfterS > 1 && retryAfterS <= 6, 'when its lease ends, should it be dead')
  const { db } = gateway.services
  const left = async () => {
    const [row] = await db.$queryRaw<[{ s: number }]>`
      SELECT extract(epoch FROM locked_until - now())::float8 AS s FROM idempotency_keys
      WHERE organisation_id = ${account.organisationId}`
    return row.s
  }
  await eventually(async () => (await left()) > 10, 'the lease is renewed')
  const alive = await post(chat, 'key-1')
  await answersError(t, alive, 'idempotency_in_progress')
  t.is(alive.headers.get('retry-after'), '1')
  held.release()
  t.is((await first).status, 200)
  t.is(upstream.requests.length, 1)
})

test.serial('200 with the answer of the one that took its key over, and one charge, for one that lost it', async t => {
  const held = heldAnswer()
  const first = post(chat, 'key-1')
  await eventually(() => upstream.requests.length === 1, 'the request is with the provider')
  await moveLease(-1)
  const second = await post(chat, 'key-1')
  t.is(second.status, 200)
  t.is(second.headers.get('idempotent-replayed'), null)
  const body = await second.text()
  held.release()
  const loser = await first
  t.is(loser.status, 200)
  t.is(loser.headers.get('idempotent-replayed'), 'true')
  t.is(await loser.text(), body)
  t.is(await (await post(chat, 'key-1')).text(), body)
  t.is(upstream.requests.length, 2)
  t.deepEqual(await gateway.settled(), [])
  const { organisationId } = account
  const charges = await gateway.services.db.ledgerEntry.findMany({ where: { organisationId, kind: 'charge' } })
  t.is(charges.length, 1)
  t.is(await spentNano(), -charges[0]!.amountNano, 'nothing stays reserved')
})

test.serial('200 with the first answer although the database failed when it was to be kept', async t => {
  const { db } = gateway.services
  await db.$executeRawUnsafe(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '57P03'; END $$`)
  await db.$executeRawUnsafe(
    'CREATE TRIGGER refuse BEFORE UPDATE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION refuse()',
  )
  const first = await post(chat, 'key-1')
  t.is(first.status, 200)
  const body = await first.text()
  await answersError(t, await post(chat, 'key-1'), 'idempotency_in_progress')
  await db.$executeRawUnsafe('DROP FUNCTION refuse CASCADE')
  await eventually(async () => (await post(chat, 'key-1')).status === 200, 'the answer is kept')
  t.is(await (await post(chat, 'key-1')).text(), body)
  t.is(upstream.requests.length, 1)
})

test.serial('201, 202 and 200 are kept in the transaction of what they tell of', async t => {
  const { db } = gateway.services
  const { organisationId, live } = account
  const provisioning = await provisioningKey(gateway, organisationId)
  const video = { model: 'runway-gen4.5', prompt: 'A lake', seconds: 5 }
  const line = { custom_id: 'a', method: 'POST', url: chat, body: hello }
  const kept = async (table: string, path: string, body: unknown, key: string) => {
    const response = await post(path, `in ${table}`, body, key)
    t.true(response.ok, `${path}: ${response.status}`)
    const answer = (await response.json()) as { id: string; data: { hash: string } }
    // `xmin` is the transaction that wrote a row last.
    const [same] = await db.$queryRawUnsafe<[{ same: boolean }]>(
      `SELECT i.xmin = r.xmin AS same FROM idempotency_keys i, ${table} r
       WHERE i.organisation_id = $1 AND i.key LIKE $2 AND ${table === 'api_keys' ? 'r.hash' : 'r.id'} = $3`,
      organisationId,
      `%:in ${table}`,
      table === 'api_keys' ? answer.data.hash : answer.id,
    )
    t.true(same.same, path)
  }
  await kept('jobs', '/v1/jobs', { body: hello, completion_window: '1h' }, live)
  await db.idempotencyKey.deleteMany({ where: { organisationId } })
  await kept('jobs', '/v1/videos', video, live)
  await kept('batches', '/v1/batches', { requests: [line] }, live)
  await kept('api_keys', '/api/v1/keys', { name: 'Once' }, provisioning)
})

test.serial('401 instead of a kept answer once the key is revoked', async t => {
  t.is((await post(chat, 'key-1')).status, 200)
  const row = await gateway.services.db.apiKey.findFirstOrThrow({
    where: { organisationId: account.organisationId, environment: 'live' },
  })
  // As another process revokes it: this one still remembers the key.
  await gateway.services.db.apiKey.update({
    where: { id: row.id },
    data: { revokedAt: new Date(), version: { increment: 1 } },
  })
  await gateway.services.redis.del(`keyversion:${row.hash}`)
  await answersError(t, await post(chat, 'key-1'), 'revoked_api_key')
  await answersError(t, await post(chat, 'key-1', { ...hello, n: 1 }), 'revoked_api_key')
})

test.serial('201 again with the same secret, to its own provisioning key only; the database never has it', async t => {
  const provisioning = await provisioningKey(gateway, account.organisationId)
  const first = await post('/api/v1/keys', 'key-1', { name: 'Once' }, provisioning)
  t.is(first.status, 201)
  const made = (await first.json()) as { key: string; data: { hash: string } }
  const second = await post('/api/v1/keys', 'key-1', { name: 'Once' }, provisioning)
  t.is(second.status, 201)
  t.is(second.headers.get('idempotent-replayed'), 'true')
  t.deepEqual(await second.json(), made)
  const { organisationId } = account
  t.is(await gateway.services.db.apiKey.count({ where: { organisationId, name: 'Once' } }), 1)
  const sibling = await provisioningKey(gateway, organisationId)
  await answersError(t, await post('/api/v1/keys', 'key-1', { name: 'Once' }, sibling), 'idempotency_key_reused')
  const rows = await gateway.services.db.idempotencyKey.findMany({ where: { organisationId } })
  t.is(rows.length, 1)
  const stored = Buffer.from(rows[0]!.body!)
  for (const part of [made.key, made.key.slice(12), made.data.hash]) t.false(stored.includes(part))
  t.is((await gateway.fetch('/v1/models', { key: made.key })).status, 200)
})

test.serial('200 again for a roll: the secret is replaced once', async t => {
  const provisioning = await provisioningKey(gateway, account.organisationId)
  const created = (await (await post('/api/v1/keys', 'key-1', { name: 'Roll me' }, provisioning)).json()) as Made
  const path = `/api/v1/keys/${created.data.hash}/roll`
  const first = (await (await post(path, 'key-2', {}, provisioning)).json()) as Made
  const second = await post(path, 'key-2', {}, provisioning)
  t.is(second.status, 200)
  t.is(((await second.json()) as Made).key, first.key)
  t.not(first.key, created.key)
  t.is((await gateway.fetch('/v1/models', { key: first.key })).status, 200)
})
type Made = { key: string; data: { hash: string } }

test.serial('403 for a kept answer of a model that the asking key may not use', async t => {
  const first = await post(chat, 'shared')
  t.is(first.status, 200)
  const model = first.headers.get('x-gateway-model')!
  const narrow = (allowlist: string[]) =>
    gateway
      .key(account.organisationId, 'live', { model_allowlist: allowlist })
      .then(key => post(chat, 'shared', hello, key))
  const refused = await narrow(['gpt-5-nano'])
  t.is(refused.status, 403)
  t.is(((await refused.json()) as { error: { code: string } }).error.code, 'model_not_allowed')
  const allowed = await narrow([model])
  t.is(allowed.status, 200)
  t.is(allowed.headers.get('idempotent-replayed'), 'true')
})

test.serial('404 for a live generation under a test key of the same organisation', async t => {
  const answer = await post(chat, 'looked-up')
  const path = `/v1/generation?id=${answer.headers.get('x-generation-id')}`
  await gateway.settled()
  t.is((await gateway.fetch(path, { key: account.live })).status, 200)
  t.is((await gateway.fetch(path, { key: account.test })).status, 404)
})
