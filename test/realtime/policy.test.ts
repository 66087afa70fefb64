import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { modelRow } from '../../shared/catalog/schema.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { setSuspension } from '../../shared/keys/suspensions.ts'
import { eventually } from '../support/gateway.ts'
import {
  byMinute,
  byToken,
  chargeEveryMs,
  chargesOf,
  patchKey,
  Refused,
  type SessionWorld,
  spentNano,
  type Talk,
  talk,
  tokensNano,
  useSessions,
} from '../support/realtime/sessions.ts'
import { test } from '../support/test.ts'
import { useFolder, useStores } from '../support/use.ts'

const stores = useStores(test)
const folder = useFolder(test)
const world = useSessions(test, stores)

const tokens = { input: 100, output: 50 }

/** The clock goes on until a session is closed; how. */
async function ended({ clock }: SessionWorld, session: Talk) {
  let atMs = Date.now()
  await eventually(() => {
    clock.advance(Date.now() - atMs)
    atMs = Date.now()
    return session.closed !== null
  }, 'the session is closed')
  return session.end()
}

const changes: [title: string, code: number, error: string, change: (w: SessionWorld, key: string) => Promise<unknown>][] = [
  ['4401 when its key is revoked', 4401, 'revoked_api_key', (w, key) => w.services.keys.revoke(null, hashSecret(key), operatorActor)],
  ['4401 when its key is rolled', 4401, 'revoked_api_key', (w, key) => w.services.keys.roll(null, hashSecret(key), operatorActor)],
  ['4401 when the overlap of its rolled secret ends', 4401, 'revoked_api_key', rollWithOverlap],
  ['4401 when its key is disabled', 4401, 'revoked_api_key', (w, key) => patchKey(w.services, key, { disabled: true })],
  ['4401 when its key expires', 4401, 'expired_api_key', (w, key) => patchKey(w.services, key, { expires_at: new Date(w.clock.now() + 3_000).toISOString() })],
  ['4403 when its key’s scopes are narrowed', 4403, 'insufficient_scope', (w, key) => patchKey(w.services, key, { scopes: ['chat'] })],
  ['4403 when its key may not use the model any more', 4403, 'model_not_allowed', (w, key) => patchKey(w.services, key, { model_allowlist: ['gpt-5'] })],
] // biome-ignore format: one change per line

/** Rolls a key so that its old secret works for three more seconds. */
async function rollWithOverlap({ services: { keys, db }, clock }: SessionWorld, key: string) {
  await keys.roll(null, hashSecret(key), operatorActor, { overlapHours: 1 })
  const data = { validUntil: new Date(clock.now() + 3_000) }
  await db.retiredSecret.update({ where: { hash: hashSecret(key) }, data })
}

for (const [title, code, error, change] of changes) {
  test(`${title}, and what was used is charged`, async t => {
    const w = await world()
    const account = await w.gateway.account()
    const [talking, silent, other] = await Promise.all([
      talk(w, account.live),
      talk(w, account.live),
      talk(w, await w.gateway.key(account.organisationId, 'live')),
    ])
    await talking.use(tokens)
    await change(w, account.live)
    t.deepEqual(await ended(w, talking), { code, error })
    t.deepEqual(await ended(w, silent), { code, error })
    t.is(other.closed, null)
    await other.leave()
    t.is(await spentNano(w, account), tokensNano(tokens))
  })
}

test('4403 when its key excludes its provider, though another one serves the model', async t => {
  const catalog = join(folder, 'catalog.json')
  const model = loadCatalog().models.get(byToken)!
  const [deployment] = model.providers
  const providers = [deployment!, { ...deployment!, provider: 'xai' }]
  await writeFile(catalog, JSON.stringify({ models: [modelRow.parse({ ...model, providers })] }))
  const w = await world({ env: { MODEL_CATALOG: catalog } })
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  await session.use(tokens)
  await patchKey(w.services, account.live, { provider: { ignore: ['openai'] } })
  t.deepEqual(await ended(w, session), { code: 4403, error: 'model_not_allowed' })
  t.is(await spentNano(w, account), tokensNano(tokens))
})

test('4403 when its organisation is suspended, with every key, and what was used is charged', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const sessions = await Promise.all([
    talk(w, account.live),
    talk(w, await w.gateway.key(account.organisationId, 'live')),
  ])
  const other = await talk(w, (await w.gateway.account()).live)
  await sessions[0].use(tokens)
  await setSuspension(w.services, account.organisationId, 'fraud', operatorActor)
  for (const session of sessions) t.deepEqual(await ended(w, session), { code: 4403, error: 'organisation_suspended' })
  t.is(other.closed, null)
  await other.leave()
  t.is(await spentNano(w, account), tokensNano(tokens))
})

test('101 and on when something else of its key changes, also while it is charged', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  for (const [part, patch] of [{ mode: 'cost' as const }, { rpm_limit: 1 }, { name: 'other' }].entries()) {
    await session.use(tokens)
    w.clock.advance(chargeEveryMs)
    await patchKey(w.services, account.live, patch)
    await chargesOf(w.services, session, part + 1)
  }
  t.is(session.closed, null)
  await session.leave()
  t.is(await spentNano(w, account), tokensNano(tokens, tokens, tokens))
})

test('4429 when it uses more tokens a minute than its key may, also after a long silence', async t => {
  const w = await world()
  const account = await w.gateway.account({ tpm_limit: 1_000 })
  const session = await talk(w, account.live)
  await session.use({ input: 600, output: 300 })
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 1)
  w.clock.advance(170_000)
  await session.use({ input: 900, output: 900 })
  await chargesOf(w.services, session, 2)
  t.is(session.closed, null)
  await session.use(tokens)
  w.clock.advance(chargeEveryMs)
  t.deepEqual(await session.end(), { code: 4429, error: 'rate_limit_exceeded' })
  const refused = await t.throwsAsync(talk(w, account.live), { instanceOf: Refused })
  t.is(refused.status, 429)
  t.is(await spentNano(w, account), tokensNano({ input: 600, output: 300 }, { input: 900, output: 900 }, tokens))
})

test('429 at the second session a minute of a key that may send one request; the open one goes on', async t => {
  const w = await world()
  const account = await w.gateway.account({ rpm_limit: 1 })
  const session = await talk(w, account.live, byMinute)
  const refused = await t.throwsAsync(talk(w, account.live), { instanceOf: Refused })
  t.is(refused.status, 429)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 1)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 2)
  t.is(session.closed, null)
  await session.leave()
  t.is(await spentNano(w, account), 42_000_000)
})

test('101: open sessions cost Postgres no look at their keys, and one a key where Redis has forgotten it', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const sessions = await Promise.all([byToken, byMinute, byToken, byToken].map(model => talk(w, account.live, model)))
  const { redis } = w.services
  let looks = 0
  const { query } = pg.Pool.prototype
  const hash = hashSecret(account.live)
  pg.Pool.prototype.query = function (this: pg.Pool, ...given: [string, string[][]]) {
    const isLook = String(given[0]).includes('FROM api_keys') && given[1]?.[0]?.includes(hash)
    if (isLook) looks++
    return query.apply(this, given as never)
  } as typeof query
  t.teardown(() => {
    pg.Pool.prototype.query = query
  })
  const pass = async () => {
    for (let round = 0; round < 3; round++) {
      w.clock.advance(2_000)
      await sleep(1_100)
    }
  }
  await pass()
  t.is(looks, 0)
  const name = `keyversion:${hashSecret(account.live)}`
  await redis.del(name)
  await pass()
  t.is(await redis.get(name), '1')
  t.is(looks, 1)
  await Promise.all(sessions.map(session => session.leave()))
  t.true((await spentNano(w, account)) > 0)
})
