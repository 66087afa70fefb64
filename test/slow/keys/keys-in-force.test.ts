import type { ErrorBody } from '../../../shared/base/errors.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { keyPatch } from '../../../shared/keys/key-requests.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import type { Gateway, KeyOptions } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { useGateway, useStores } from '../../support/use.ts'

// Two gateways over the same stores, each with a memory of its own: a key is changed at one, used at the other.

const stores = useStores(test)
// All tests run at the same time: none should wait for a connection.
const env = { DATABASE_POOL: '20' }
const here = useGateway(test, env, { stores })
const there = useGateway(test, env, { stores })

const model = 'gpt-4o-mini'
const messages = [{ role: 'user', content: 'Hello' }]

async function ask(gateway: Gateway, key: string, body: unknown = { model, messages }, path = '/v1/chat/completions') {
  const response = await gateway.fetch(path, { key, body })
  const { error } = (await response.json()) as Partial<ErrorBody>
  const limit = response.headers.get('x-ratelimit-limit-requests')
  return { status: response.status, code: error?.code ?? null, limit, mode: response.headers.get('x-gateway-mode') }
}

/** A test key that the gateway `there` remembers. */
async function remembered(options: KeyOptions = {}): Promise<{ key: string; hash: string }> {
  const { organisationId } = await here.account({ usd: '0' })
  const key = await here.key(organisationId, 'test', options)
  await ask(there, key)
  await there.fetch('/v1/models', { key })
  return { key, hash: hashSecret(key) }
}

function patch(gateway: Gateway, hash: string, fields: (typeof keyPatch)['_zod']['input']) {
  return gateway.services.keys.patch(null, hash, keyPatch.parse(fields), operatorActor)
}

const soon = '2020-01-01T00:00:00Z'
const auto = { model: 'auto', messages }
const changes = [
  ['disabled', {}, { disabled: true }, { status: 401, code: 'revoked_api_key' }],
  ['an expiry in the past', {}, { expires_at: soon }, { status: 401, code: 'expired_api_key' }],
  ['scopes taken away', {}, { scopes: 'embeddings' }, { status: 403, code: 'insufficient_scope' }],
  ['scopes given', { scopes: 'embeddings' }, { scopes: 'chat' }, { status: 200 }],
  ['models taken away', {}, { model_allowlist: ['gpt-4o'] }, { status: 403, code: 'model_not_allowed' }],
  ['models given', { model_allowlist: ['gpt-4o'] }, { model_allowlist: ['gpt-4o', model] }, { status: 200 }],
  ['an allowlist cleared', { model_allowlist: ['gpt-4o'] }, { model_allowlist: null }, { status: 200 }],
  ['a lower rpm', { rpm_limit: 100 }, { rpm_limit: 1 }, { status: 429, code: 'rate_limit_exceeded', limit: '1' }],
  ['another rpm', {}, { rpm_limit: 70 }, { status: 200, limit: '70' }],
  ['rpm cleared', { rpm_limit: 70 }, { rpm_limit: null }, { status: 200, limit: null }],
  ['another mode', { mode: 'cost' }, { mode: 'quality' }, { status: 200, mode: 'quality' }],
] as const

for (const [what, before, after, expected] of changes) {
  for (const path of ['/v1/chat/completions', '/v1/route']) {
    test(`${expected.status} at once on another process after a PATCH: ${what}, ${path}`, async t => {
      const { key, hash } = await remembered(before as KeyOptions)
      await patch(here, hash, after as Parameters<typeof patch>[2])
      t.like(await ask(there, key, 'mode' in after ? auto : undefined, path), expected)
    })
  }
}

test('200 with the models of the allowlist as it is now, on another process', async t => {
  const { key, hash } = await remembered()
  await patch(here, hash, { model_allowlist: [model] })
  const { data } = (await (await there.fetch('/v1/models', { key })).json()) as { data: { id: string }[] }
  t.deepEqual(data.map(({ id }) => id).sort(), ['auto', model])
})

test('401 at once on another process after a revoke, whatever the request is', async t => {
  const requests = [
    ['/v1/chat/completions', { model, messages }],
    ['/v1/chat/completions', { model: 'no-such-model', messages }],
    ['/v1/chat/completions', { messages: 5 }],
    ['/v1/chat/completions', '{'],
    ['/v1/route', auto],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'a' }],
    ['/v1/models', undefined],
    ['/v1/balance', undefined],
    ['/v1/generation?id=a', undefined],
    ['/v1/generation', undefined],
  ] as const
  for (const [path, body] of requests) {
    const { key, hash } = await remembered({ scopes: path.includes('embeddings') ? 'chat' : '*' })
    await here.services.keys.revoke(null, hash, operatorActor)
    const response = await there.fetch(path, { key, body })
    t.is(response.status, 401, `${path} ${JSON.stringify(body)}`)
    t.is(((await response.json()) as ErrorBody).error.code, 'revoked_api_key')
  }
})

test('401 for the old secret and 200 for the new one at once on another process after a roll', async t => {
  const { key, hash } = await remembered({ rpm_limit: 40, mode: 'cost' })
  const { secret } = await here.services.keys.roll(null, hash, operatorActor)
  t.like(await ask(there, key), { status: 401, code: 'revoked_api_key' })
  t.like(await ask(there, secret, auto), { status: 200, limit: '40', mode: 'cost' })
  t.like(await ask(here, key), { status: 401, code: 'revoked_api_key' })
})

test('404 for all but one of several rolls of a key at a time, and one secret is left', async t => {
  const { hash } = await remembered()
  const rolls = await Promise.allSettled(
    [here, there, here, there].map(gateway => gateway.services.keys.roll(null, hash, operatorActor)),
  )
  const done = rolls.filter(roll => roll.status === 'fulfilled')
  t.is(done.length, 1)
  for (const roll of rolls) if (roll.status === 'rejected') t.is(roll.reason.code, 'not_found')
  for (const gateway of [here, there]) t.is((await ask(gateway, done[0]!.value.secret)).status, 200)
})

test('401 after a crash between the commit and the cache write; 200 after one before the commit', async t => {
  const { db, policies } = here.services
  for (const commits of [true, false]) {
    const { key, hash } = await remembered()
    const { organisationId } = await db.apiKey.findUniqueOrThrow({ where: { hash } })
    const reached = Promise.withResolvers<void>()
    void policies.applyChange({ hash, organisationId }, async () => {
      if (commits)
        await db.apiKey.update({ where: { hash }, data: { revokedAt: new Date(), version: { increment: 1 } } })
      reached.resolve()
      await new Promise(() => {}) // The process is gone from here on.
    })
    await reached.promise
    const expected = commits ? { status: 401, code: 'revoked_api_key' } : { status: 200 }
    for (let i = 0; i < 3; i++) for (const gateway of [there, here]) t.like(await ask(gateway, key), expected)
    t.is(await here.services.redis.get(`keyversion:${hash}`), null, 'nothing is confirmed')
    await here.services.redis.del(`keytombstone:${hash}`) // As when it expires.
    for (let i = 0; i < 3; i++) for (const gateway of [there, here]) t.like(await ask(gateway, key), expected)
    if (commits) await here.services.keys.revoke(null, hash, operatorActor)
    else await patch(there, hash, { rpm_limit: 5 })
    t.like(await ask(there, key), commits ? expected : { status: 200, limit: '5' })
  }
})

test('200 under the later of two changes at a time, however their steps interleave with requests', async t => {
  const { db, policies } = here.services
  const { key, hash } = await remembered()
  const { organisationId } = await db.apiKey.findUniqueOrThrow({ where: { hash } })
  for (let i = 1; i <= 20; i++) {
    const [inner, outer] = [1_000 * i, 1_000 * i + 1]
    await policies.applyChange({ hash, organisationId }, async () => {
      await ask(there, key)
      await patch(there, hash, { rpm_limit: inner })
      // The other change is over, ours is not: what requests confirm now must not outlive ours.
      t.is((await ask(there, key)).limit, String(inner))
      if (i % 2) await ask(here, key)
      await db.apiKey.update({ where: { hash }, data: { rpmLimit: outer, version: { increment: 1 } } })
      if (i % 3) await ask(there, key)
    })
    for (const gateway of [there, here, there]) t.is((await ask(gateway, key)).limit, String(outer))
  }
})

test('200 under the state of the last answer, in hundreds of changes among concurrent requests', async t => {
  const { key, hash } = await remembered({ rpm_limit: 100_000 })
  let over = false
  const noise = [here, there].flatMap(gateway =>
    Array.from({ length: 3 }, async () => {
      while (!over) await ask(gateway, key)
    }),
  )
  for (let i = 1; i <= 150; i++) {
    const patcher = i % 2 ? here : there
    await patch(patcher, hash, { rpm_limit: 100_000 + i })
    const seen = await Promise.all([ask(here, key), ask(there, key)])
    for (const { limit } of seen) t.is(limit, String(100_000 + i))
    if (i % 10) continue
    await Promise.all([here, there].map((gateway, n) => patch(gateway, hash, { rpm_limit: 200_000 + n })))
    const { rpmLimit } = await here.services.keys.get(null, hash)
    for (const gateway of [here, there]) t.is((await ask(gateway, key)).limit, String(rpmLimit))
  }
  over = true
  await Promise.all(noise)
})
