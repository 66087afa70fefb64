import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Emulator } from '../../emulators/emulator.ts'
import { answersError, plainChatReply } from '../../support/api/edge.ts'
import { ledgerCheck } from '../../support/chaos.ts'
import {
  call,
  eventually,
  freshStores,
  type Gateway,
  type Process,
  startGateway,
  startProcess,
} from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Two web processes: a gateway in this one, which also books, and one that is killed. No worker runs. */
let here: Gateway
let there: Process
let upstream: Emulator
let stores: Awaited<ReturnType<typeof freshStores>>
let storage: string

test.before(async () => {
  ;[stores, upstream, storage] = await Promise.all([
    freshStores(),
    Emulator.start(plainChatReply),
    mkdtemp(join(tmpdir(), 'headgate-two-webs-')),
  ])
})
const env = use(test, () => ({
  OPENAI_API_KEY: 'sk-upstream',
  OPENAI_BASE_URL: `${upstream.url}/v1`,
  RUNWAY_API_KEY: 'key_1',
  STORAGE_URL: `file:${storage}`,
}))
test.before(async () => {
  ;[here, there] = await Promise.all([startGateway(stores, env), startProcess('web', stores, env)])
})
test.beforeEach(async () => {
  upstream.reset()
  if (there.child.signalCode) there = await startProcess('web', stores, env)
})
test.after.always(async () => {
  await there?.kill()
  await here?.close()
  await upstream?.close()
  await stores?.drop()
  await rm(storage, { recursive: true, force: true })
})

const chat = { model: 'gpt-4o-mini', max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] }
const video = { model: 'runway-gen4.5', prompt: 'A lake', seconds: 5 }

type Asked = { path: string; body: object; key: string; name: string; prefer?: string }

function post(url: string, { path, body, key, name, prefer }: Asked): Promise<Response> {
  const headers = { 'idempotency-key': name, ...(prefer && { prefer }) }
  return call(url, path, { key, body, headers })
}

/** As a client does that was told to try again: until it gets another answer. Gives that, and the seconds it waited in all. */
async function retry(asked: Asked): Promise<{ response: Response; waitedS: number }> {
  for (let waitedS = 0; waitedS < 60; ) {
    const response = await post(here.url, asked)
    if (response.status !== 409) return { response, waitedS }
    const retryAfterS = Number(response.headers.get('retry-after'))
    waitedS += retryAfterS
    await sleep(retryAfterS * 1_000)
  }
  throw new Error('told to wait for more than a minute')
}

async function charges(organisationId: string): Promise<bigint[]> {
  await here.settled()
  const rows = await here.services.db.ledgerEntry.findMany({ where: { organisationId, kind: 'charge' } })
  return rows.map(({ amountNano }) => -amountNano)
}

for (const [path, body] of [
  ['/v1/videos', video],
  ['/v1/jobs', { body: chat, completion_window: '1h' }],
] as const) {
  test.serial(`202 with the same job after its process was killed before it could answer: ${path}`, async t => {
    const { live, organisationId } = await here.account()
    const asked = { path, body, key: live, name: 'order-1' }
    const cut = post(there.url, { ...asked, prefer: 'wait=60' }).catch(() => {})
    const { job, ledgerEntry } = here.services.db
    await eventually(async () => (await job.count({ where: { organisationId } })) === 1, 'the job is written')
    await there.kill()
    await cut
    const { response, waitedS } = await retry(asked)
    t.is(response.status, 202)
    t.is(waitedS, 0, 'the answer is there at once')
    t.is(response.headers.get('idempotent-replayed'), 'true')
    const answer = (await response.json()) as { id: string; status: string }
    const [row, ...others] = await job.findMany({ where: { organisationId } })
    t.is(others.length, 0)
    t.is(answer.id, row!.id)
    t.is(answer.status, 'queued')
    t.is(response.headers.get('x-generation-id'), row!.id)
    t.is(await ledgerEntry.count({ where: { organisationId, kind: 'charge' } }), path === '/v1/videos' ? 1 : 0)
  })
}

test.serial('200 after a process was killed during its call: 409 for seconds, then one run and one charge', async t => {
  const { live, organisationId } = await here.account()
  const asked = { path: '/v1/chat/completions', body: chat, key: live, name: 'order-1' }
  upstream.next(() => {})
  const cut = post(there.url, asked).catch(() => {})
  await eventually(() => upstream.requests.length === 1, 'the call is with the provider')
  await answersError(t, await post(here.url, asked), 'idempotency_in_progress')
  await there.kill()
  await cut
  const { response, waitedS } = await retry(asked)
  t.is(response.status, 200)
  t.is(response.headers.get('idempotent-replayed'), null)
  t.true(waitedS <= 20, `waited ${waitedS} s`)
  t.is((await charges(organisationId)).length, 1)
})

test.serial('200 and one charge after a process was killed between its call and keeping the answer', async t => {
  const { live, organisationId } = await here.account()
  const asked = { path: '/v1/chat/completions', body: chat, key: live, name: 'order-1' }
  const gate = Promise.withResolvers<void>()
  upstream.next(async (request, response) => {
    await gate.promise
    await plainChatReply(request, response)
  })
  const cut = post(there.url, asked).catch(() => {})
  await eventually(() => upstream.requests.length === 1, 'the call is with the provider')
  const { db } = here.services
  await db.$transaction(
    async tx => {
      // The answer cannot be stored while this transaction lasts.
      await tx.$executeRaw`SELECT 1 FROM idempotency_keys WHERE organisation_id = ${organisationId} FOR UPDATE`
      gate.resolve()
      const waiting = () => db.$queryRaw<{ pid: number }[]>`
        SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%idempotency_keys%'
          AND datname = current_database()`
      await eventually(async () => (await waiting()).length > 0, 'the answer is about to be kept')
      await here.settled()
      await there.kill()
      await cut
      // What Postgres already has of it would come to pass without the process.
      for (const { pid } of await waiting()) await db.$executeRaw`SELECT pg_terminate_backend(${pid}::int)`
    },
    { timeout: 60_000 },
  )
  await db.$executeRaw`
    UPDATE idempotency_keys SET locked_until = now() - interval '1 second' WHERE organisation_id = ${organisationId} AND status IS NULL`
  const { response } = await retry(asked)
  t.is(response.status, 200)
  const { usage } = (await response.json()) as { usage: { cost: number } }
  t.deepEqual(await charges(organisationId), [BigInt(Math.round(usage.cost * 1e9))])
})

test.serial('200 again and one charge after a process was killed between keeping its answer and settling', async t => {
  const { live, organisationId } = await here.account()
  const asked = { path: '/v1/chat/completions', body: chat, key: live, name: 'order-1' }
  const first = await post(here.url, asked)
  const answer = (await first.json()) as { id: string; usage: { cost: number } }
  t.is((await charges(organisationId)).length, 1)
  // As if the settlement had never reached Redis: nothing is booked.
  const { db } = here.services
  await db.$transaction([
    db.$executeRaw`ALTER TABLE ledger_entries DISABLE TRIGGER ALL`,
    db.$executeRaw`DELETE FROM ledger_entries WHERE organisation_id = ${organisationId} AND kind = 'charge'`,
    db.$executeRaw`ALTER TABLE ledger_entries ENABLE TRIGGER ALL`,
    db.$executeRaw`DELETE FROM generations WHERE organisation_id = ${organisationId}`,
    db.$executeRaw`DELETE FROM usage_days WHERE organisation_id = ${organisationId}`,
    db.$executeRaw`DELETE FROM usage_hours WHERE organisation_id = ${organisationId}`,
    db.$executeRaw`DELETE FROM usage_peaks WHERE organisation_id = ${organisationId}`,
    db.$executeRaw`DELETE FROM usage_day_details WHERE organisation_id = ${organisationId}`,
    db.$executeRaw`DELETE FROM ledger_days WHERE organisation_id = ${organisationId} AND kind = 'charge'`,
    db.$executeRaw`DELETE FROM key_spend WHERE key_id IN (SELECT id FROM api_keys WHERE organisation_id = ${organisationId})`,
    db.$executeRaw`UPDATE wallets SET balance_nano = 25000000000 WHERE organisation_id = ${organisationId}`,
  ])
  for (let i = 0; i < 3; i++) {
    const again = await post(here.url, asked)
    t.is(again.headers.get('idempotent-replayed'), 'true')
    t.deepEqual(await again.json(), answer)
  }
  t.deepEqual(await charges(organisationId), [BigInt(Math.round(answer.usage.cost * 1e9))])
})

test.serial('429 beyond rpm over two processes: 100 of 300 at once, none later within the minute', async t => {
  const { live } = await here.account({ rpm_limit: 100 })
  const urls = [here.url, there.url]
  const ask = (i: number) => call(urls[i % 2]!, '/v1/chat/completions', { key: live, body: chat })
  const first = await Promise.all(Array.from({ length: 300 }, (_, i) => ask(i)))
  t.is(first.filter(({ status }) => status === 200).length, 100)
  for (const refused of first.filter(({ status }) => status !== 200)) {
    t.is(refused.status, 429)
    const retryAfterS = Number(refused.headers.get('retry-after'))
    t.true(retryAfterS >= 1 && retryAfterS <= 60, String(retryAfterS))
  }
})

test.serial('0 from the ledger check after all of it', async t => {
  await here.settled()
  const { exitCode, report } = await ledgerCheck(stores)
  t.deepEqual(
    report.invariants.flatMap(({ name, breaches }) => breaches.map(breach => `${name}: ${breach}`)),
    [],
  )
  t.is(exitCode, 0)
})
