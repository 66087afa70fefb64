import type { Overview, UsageChart } from '../../api/dashboard/wire/usage.ts'
import { usdFromNano } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import { failure } from '../emulators/openai.ts'
import { chargedNano, saying, startWorld } from '../support/chat/gateway.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { over, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

/** A noon in the middle of a month; the gateway's clock goes from there, or from some days before. */
const noonMs = Date.parse('2026-11-18T12:00:00Z')
const startedMs = Date.now()
let daysAgo = 0

const world = use(test, () => startWorld({}, { now: () => noonMs - daysAgo * dayMs + Date.now() - startedMs }))
use(test, () => startWorkers(world.gateway.services))
const owner = use(test, () => signUp(world.gateway))

const overview = ({ visitor, base } = owner) => visitor.json<Overview>(`${base}/overview`)
const chart = (query = '', { visitor, base } = owner) => visitor.json<UsageChart>(`${base}/usage${query}`)

async function ask(key: string, path: string, body: object): Promise<void> {
  const response = await world.gateway.fetch(path, { key, body })
  await response.text()
}

test.serial('a new organisation has done none of its first steps, and uses nothing', async t => {
  const visitor = await signUp(world.gateway, { verified: false })
  const { first_steps, today, wallet, low_balance } = await overview(visitor)
  t.deepEqual(first_steps, { email_verified: false, key_created: false, request_made: false, credits_added: false })
  t.deepEqual(today, { spend_usd: 0, requests: 0, errors: 0, tokens: 0 })
  t.like(wallet, { balance_usd: 0, available_usd: 0, held_release_at: null })
  // A wallet that never had money does not run out.
  t.deepEqual(low_balance, { threshold_usd: 5, is_low: false })
  t.deepEqual((await chart('', visitor)).series, [])
})

test.serial('what days and charts add up to is what the ledger charged, less what it refunded', async t => {
  const { gateway, openai } = world
  const { organisationId } = owner
  const { accounts } = gateway.services
  await accounts.deposit({ organisationId, amountNano: 4_000_000_000n, method: 'grant' })
  const heldUntil = new Date(noonMs + 10 * dayMs)
  await accounts.deposit({ organisationId, amountNano: 20_000_000_000n, method: 'ach', availableAt: heldUntil })
  const first = await gateway.key(organisationId, 'live', { name: 'First' })
  const second = await gateway.key(organisationId, 'live', { name: 'Second' })
  const sandbox = await gateway.key(organisationId, 'test')
  for (daysAgo of [40, 20, 3]) await ask(first, '/v1/chat/completions', saying('gpt-5'))
  daysAgo = 0
  await ask(first, '/v1/chat/completions', saying('gpt-5-mini', 'Hello', { stream: true }))
  await ask(second, '/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hello' })
  openai.next(failure(400, 'No.', 'invalid_request_error', null))
  await ask(second, '/v1/chat/completions', saying('gpt-5-nano'))
  await ask(sandbox, '/v1/chat/completions', saying('gpt-5'))
  // A job is charged at its creation, under the model that is asked for, and at its end under the one that served it.
  const delayed = { body: saying('gpt-5'), completion_window: '1h' }
  const job = await submit(gateway, '/v1/jobs', second, delayed)
  await over(gateway, second, '/v1/jobs', job.id)
  const video = await submit(gateway, '/v1/videos', sandbox, { prompt: 'A heron' })
  await over(gateway, sandbox, '/v1/videos', video.id)

  const charged = await chargedNano(world, { organisationId, live: first, test: sandbox })
  t.true(charged > 0)
  for (const by of ['model', 'key', 'type', 'member', 'provider', 'environment', 'outcome']) {
    const { times, step_ms, series, total } = await chart(`?span=90d&by=${by}&environment=live`)
    t.is(times.length, 90)
    t.is(step_ms, dayMs)
    t.is(times.at(-1), '2026-11-18T00:00:00.000Z')
    t.is(total, usdFromNano(BigInt(charged)), by)
    const values = series.flatMap(({ values }) => values.map(value => Math.round(value * 1e9)))
    t.is(
      values.reduce((sum, nano) => sum + nano, 0),
      charged,
    )
    t.deepEqual(
      [...series].sort((a, b) => b.total - a.total),
      series,
    )
  }
  const byKey = await chart('?span=7d&by=key&measure=requests')
  t.deepEqual(
    byKey.series.map(({ name, total }) => [name, total]),
    [
      ['Second', 3],
      ['First', 2],
    ],
  )
  const byType = await chart('?span=30d&by=type&measure=requests')
  t.deepEqual(Object.fromEntries(byType.series.map(({ id, total }) => [id, total])), {
    chat: 4,
    embedding: 1,
    async: 1,
  })
  t.deepEqual(
    (await chart('?environment=test&measure=requests&by=type&span=1h')).series.map(({ id, total }) => [id, total]),
    [
      ['chat', 1],
      ['video', 1],
    ],
  )
  t.true((await chart('?measure=tokens')).total > 0)

  const { today, month, wallet, low_balance, first_steps } = await overview()
  t.like(today, { requests: 4, errors: 1 })
  t.like(month, { requests: 5, errors: 1 })
  t.true(month.spend_usd > today.spend_usd)
  t.is(Math.round(wallet.balance_usd * 1e9), 24e9 - charged)
  t.like(wallet, { held_usd: 20, held_release_at: heldUntil.toISOString() })
  // What is held cannot be spent.
  t.deepEqual(low_balance, { threshold_usd: 5, is_low: true })
  t.true(Object.values(first_steps).every(Boolean))
})

test.serial('the largest series are shown, the others as one, and none of another organisation', async t => {
  const { db } = world.gateway.services
  const other = await signUp(world.gateway)
  const { organisationId } = other
  const hour = new Date('2026-11-18T08:00:00Z')
  const counts = { requests: 1n, promptTokens: 1n, completionTokens: 0n, cachedTokens: 0n, reasoningTokens: 0n }
  const data = Array.from({ length: 12 }, (_, i) => ({
    ...{
      organisationId,
      hour,
      keyId: 'key_x',
      model: `m${i}`,
      provider: '',
      kind: 'chat',
      environment: 'live' as const,
    },
    ...{ ...counts, latency: [], firstByte: [], outcome: 'ok', costNano: BigInt((i + 1) * 1_000_000_000) },
  }))
  await db.usageHour.createMany({ data })
  const { series, total } = await chart('?span=7d', other)
  t.deepEqual(
    series.map(({ id, total }) => [id, total]),
    [...[11, 10, 9, 8, 7, 6, 5, 4].map(i => [`m${i}`, i + 1]), [null, 1 + 2 + 3 + 4]],
  )
  t.is(total, 78)
  t.false((await chart('?span=7d')).series.some(({ name }) => name === 'm1'))
  const wrong = [
    ...['?span=8d', '?by=colour', '?measure=weight', '?since=2020', '?to=2026-11-18T00:00:00Z'],
    ...['?span=7d&from=2026-11-18T00:00:00Z', '?from=2020-01-01T00:00:00Z', '?from=2026-11-19T00:00:00Z'],
  ]
  for (const query of wrong) {
    const answer = await owner.visitor.fetch(`${owner.base}/usage${query}`)
    t.is(answer.status, 400, query)
  }
  // The hours were made up.
  await db.usageHour.deleteMany({ where: { organisationId } })
  t.deepEqual(await world.gateway.settled(), [])
})
