// Secrets that keep working for a while after a roll.

import { operatorActor } from '../../shared/io/audit.ts'
import type { KeyRecord } from '../../shared/keys/keys.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { setSuspension } from '../../shared/keys/suspensions.ts'
import { errorCode } from '../support/dashboard/dashboard.ts'
import { startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway, useStores } from '../support/use.ts'

/** What the clock of both processes is ahead of the real one. */
let aheadMs = 0
const clock = { now: () => Date.now() + aheadMs }
const hourMs = 3_600_000

const stores = useStores(test)
const first = useGateway(test, {}, { stores, clock })
const second = useGateway(test, {}, { stores, clock })
test.afterEach.always(() => {
  aheadMs = 0
})

type Rolled = { data: KeyRecord; key: string }

/** An organisation with a test key that both processes have served, and what is done to it. */
async function world(options: object = {}) {
  const { organisationId } = await first.account({ usd: '0' })
  const key = await first.key(organisationId, 'test', options)
  const { secret: provisioning } = await first.services.keys.createProvisioning(organisationId, operatorActor)
  const send = (path: string, method: string, body?: object) =>
    first.fetch(`/api/v1/keys/${path}`, { key: provisioning, method, body })
  const roll = async (secret: string, body?: object) =>
    (await (await send(`${hashSecret(secret)}/roll`, 'POST', body)).json()) as Rolled
  await outcome(key)
  return { organisationId, key, provisioning, send, roll }
}

/** How both processes answer a secret, on a route that is admitted and on one that is not: `ok`, or the code of an error. */
async function outcome(key: string): Promise<string> {
  const found = new Set<string>()
  for (const gateway of [first, second])
    for (const body of [{ model: 'auto', messages: [{ role: 'user', content: 'Hello' }] }, undefined]) {
      const answer = await gateway.fetch(body ? '/v1/chat/completions' : '/v1/balance', { key, body })
      found.add(answer.ok ? 'ok' : `${await errorCode(answer)}`)
    }
  return [...found].join(' ')
}

const outcomes = async (...keys: string[]) => Promise.all(keys.map(outcome))

test.serial('200 with both secrets until the overlap ends; then 401 with the old one, in every process', async t => {
  const { organisationId, key, roll, send } = await world()
  const { data, key: next } = await roll(key, { overlap_hours: 24 })
  t.is(data.previous_secret_last4, key.slice(-4))
  const until = Date.parse(data.previous_secret_valid_until!)
  t.true(Math.abs(until - (Date.now() + 24 * hourMs)) < 60_000)
  const audited = await first.services.db.auditEvent.findMany({ where: { organisationId, action: 'key.rolled' } })
  t.deepEqual(
    audited.map(({ changes }) => changes),
    [
      {
        last4: [key.slice(-4), next.slice(-4)],
        previous_secret_valid_until: [null, data.previous_secret_valid_until],
      },
    ],
  )
  t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
  aheadMs = 24 * hourMs - 120_000
  t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
  aheadMs = 24 * hourMs + 120_000
  t.deepEqual(await outcomes(key, next), ['revoked_api_key', 'ok'])
  const answer = (await (await send(data.hash, 'GET')).json()) as Rolled
  t.like(answer.data, { previous_secret_last4: null, previous_secret_valid_until: null, status: 'active' })
  // The time has come for a process that has not seen the secret before, too.
  const fresh = await startGateway(stores, {}, clock)
  t.teardown(() => fresh.close())
  t.is(await errorCode(await fresh.fetch('/v1/balance', { key })), 'revoked_api_key')
})

test.serial('401 with the old secret at once without an overlap, with or without a body', async t => {
  for (const body of [undefined, {}, { overlap_hours: 0 }]) {
    const { key, roll } = await world()
    const { data, key: next } = await roll(key, body)
    t.is(data.previous_secret_valid_until, null)
    t.deepEqual(await outcomes(key, next), ['revoked_api_key', 'ok'])
  }
})

test.serial('400 naming overlap_hours for one that is none, and the secret stays', async t => {
  const { key, send } = await world()
  for (const overlap_hours of [-1, 73, 1.5, '24', null]) {
    const answer = await send(`${hashSecret(key)}/roll`, 'POST', { overlap_hours })
    t.is(answer.status, 400)
    t.like(await answer.json(), { error: { param: 'overlap_hours' } })
  }
  t.is(await outcome(key), 'ok')
})

test.serial('401 with the oldest secret after a second roll, whatever its own overlap was', async t => {
  for (const overlap_hours of [0, 1]) {
    const { key, roll } = await world()
    const { key: next } = await roll(key, { overlap_hours: 72 })
    t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
    const { data, key: last } = await roll(next, { overlap_hours })
    t.deepEqual(await outcomes(key, next, last), ['revoked_api_key', overlap_hours ? 'ok' : 'revoked_api_key', 'ok'])
    t.is(data.previous_secret_last4, overlap_hours ? next.slice(-4) : null)
  }
})

test.serial('401 with both secrets as soon as the key is revoked or disabled', async t => {
  const { key, roll, send } = await world()
  const { data, key: next } = await roll(key, { overlap_hours: 24 })
  t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
  await send(data.hash, 'PATCH', { disabled: true })
  t.deepEqual(await outcomes(key, next), ['revoked_api_key', 'revoked_api_key'])
  await send(data.hash, 'PATCH', { disabled: false })
  t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
  // The old secret is not an address of the key.
  t.is((await send(hashSecret(key), 'DELETE')).status, 404)
  await send(data.hash, 'DELETE')
  t.deepEqual(await outcomes(key, next), ['revoked_api_key', 'revoked_api_key'])
})

test.serial('401 with both secrets once the key has expired, although the overlap is longer', async t => {
  const { key, roll } = await world({ expires_in_days: 1 })
  const { key: next } = await roll(key, { overlap_hours: 72 })
  aheadMs = 25 * hourMs
  t.deepEqual(await outcomes(key, next), ['expired_api_key', 'expired_api_key'])
  const { key: last } = await roll(next, { overlap_hours: 1 })
  t.deepEqual(await outcomes(next, last), ['expired_api_key', 'expired_api_key'])
})

test.serial('403 with both secrets while the organisation is suspended; 200 with both once it is resumed', async t => {
  const { organisationId, key, roll } = await world()
  const { key: next } = await roll(key, { overlap_hours: 24 })
  t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
  await setSuspension(second.services, organisationId, 'fraud', operatorActor)
  t.deepEqual(await outcomes(key, next), ['organisation_suspended', 'organisation_suspended'])
  await setSuspension(second.services, organisationId, null, operatorActor)
  t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
})

test.serial('429 counts the requests of both secrets together; a change of the limit applies to both', async t => {
  const { key, roll, send } = await world({ rpm_limit: 10 })
  const { data, key: next } = await roll(key, { overlap_hours: 1 })
  await send(data.hash, 'PATCH', { rpm_limit: 7 })
  // Four of them were counted before the roll.
  for (const secret of [key, next, key]) {
    const answer = await second.fetch('/v1/balance', { key: secret })
    t.is(answer.status, 200)
    t.is(answer.headers.get('x-ratelimit-limit-requests'), '7')
  }
  for (const secret of [key, next]) t.is((await first.fetch('/v1/balance', { key: secret })).status, 429)
})

test.serial('the old secret is served from the cache, without a query', async t => {
  const { key, roll } = await world()
  const { db } = first.services
  const { findUnique } = db.retiredSecret
  let reads = 0
  db.retiredSecret.findUnique = ((query: object) => {
    reads++
    return findUnique.call(db.retiredSecret, query as never)
  }) as typeof findUnique
  const { key: next } = await roll(key, { overlap_hours: 1 })
  await outcomes(key, next)
  t.true(reads > 0)
  await outcomes(key, next)
  reads = 0
  t.deepEqual(await outcomes(key, next), ['ok', 'ok'])
  db.retiredSecret.findUnique = findUnique
  t.is(reads, 0)
})

test.serial('an idempotent retry of a roll returns the same secret and end', async t => {
  const { key, provisioning } = await world()
  const roll = () =>
    first.fetch(`/api/v1/keys/${hashSecret(key)}/roll`, {
      key: provisioning,
      body: { overlap_hours: 24 },
      headers: { 'idempotency-key': 'roll-1' },
    })
  const answers = [await roll(), await roll()]
  const [once, again] = (await Promise.all(answers.map(answer => answer.json()))) as [Rolled, Rolled]
  t.deepEqual(again, once)
  t.truthy(once.data.previous_secret_valid_until)
  t.deepEqual(await outcomes(key, once.key), ['ok', 'ok'])
})
