import type { Overview, UsageChart, UsageGroups } from '../../api/dashboard/wire/usage.ts'
import { usdFromNano } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import { getStatementTotals } from '../../shared/wallet/statement.ts'
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
  const { wallets } = gateway.services
  await wallets.deposit({ organisationId, amountNano: 4_000_000_000n, method: 'grant' })
  const heldUntil = new Date(noonMs + 10 * dayMs)
  await wallets.deposit({ organisationId, amountNano: 20_000_000_000n, method: 'ach', availableAt: heldUntil })
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
    organisationId,
    hour,
    keyId: 'key_x',
    model: `m${i}`,
    provider: '',
    kind: 'chat',
    environment: 'live' as const,
    ...counts,
    latency: [],
    firstByte: [],
    outcome: 'ok',
    costNano: BigInt((i + 1) * 1_000_000_000),
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

const groups = (query: string, { visitor, base } = owner) => visitor.json<UsageGroups>(`${base}/usage/groups${query}`)

test.serial('months and quarters are those of UTC, and cost what their statement says', async t => {
  const { gateway } = world
  const { db, wallets } = gateway.services
  const own = await signUp(gateway)
  const { organisationId } = own
  const keys = [await gateway.key(organisationId, 'live'), await gateway.key(organisationId, 'live')]
  for (const ago of [60, 40, 20, 3, 0]) {
    daysAgo = ago
    if (ago === 60) await wallets.deposit({ organisationId, amountNano: 4_000_000_000n, method: 'grant' })
    for (const key of keys) await ask(key, '/v1/chat/completions', saying('gpt-5'))
    // Booked before its month closes.
    t.deepEqual(await gateway.settled(), [])
  }
  const spans = {
    month: ['2026-11-01', '2026-11-18'],
    last_month: ['2026-10-01', '2026-10-31'],
    quarter: ['2026-10-01', '2026-11-18'],
    last_quarter: ['2026-07-01', '2026-09-30'],
  }
  for (const [span, [first, last]] of Object.entries(spans)) {
    for (const by of ['key', 'model', 'none']) {
      const answer = await groups(`?span=${span}&by=${by}${by === 'none' ? '&granularity=day' : ''}`, own)
      const { from, to, rows, other, total, statement_usd: statementUsd } = answer
      t.deepEqual([from.slice(0, 10), new Date(Date.parse(to) - 1).toISOString().slice(0, 10)], [first, last])
      const { charge, excess, refund } = await getStatementTotals(db, organisationId, { from: first!, to: last! })
      t.is(statementUsd, usdFromNano(-(charge + excess + refund)))
      t.is(total.cost_usd, statementUsd!, span)
      t.is(other, null)
      const nano = rows.reduce((sum, { cost_usd: cost }) => sum + Math.round(cost * 1e9), 0)
      t.is(nano, Math.round(total.cost_usd * 1e9))
    }
  }
  // The month has what the quarter has more than its month before.
  const [month, before, quarter] = await Promise.all(
    ['month', 'last_month', 'quarter'].map(async span =>
      Math.round((await groups(`?span=${span}`, own)).total.cost_usd * 1e9),
    ),
  )
  t.true(month! > 0 && before! > 0)
  t.is(quarter, month! + before!)
  t.is((await groups('?span=month&model=gpt-5', own)).statement_usd, null)
  t.is((await groups('?span=month&environment=test', own)).statement_usd, null)
  t.is((await owner.visitor.fetch(`${owner.base}/usage/groups?by=none`)).status, 400)
})

test.serial('beside a month stands the same part of the month before; beside a past one, all of it', async t => {
  const current = await groups('?span=month')
  const { total } = await groups('?from=2026-10-01T00:00:00Z&to=2026-10-18T12:00:00Z')
  t.is(current.before!.cost_usd, total.cost_usd)
  const past = await groups('?span=last_quarter')
  t.is(past.before!.cost_usd, 0)
})

test.serial(
  'the long tail is one row, which with the others is exactly the total, on the page and in the file',
  async t => {
    const other = await signUp(world.gateway, { name: 'Tail' })
    const { organisationId } = other
    const counts = { promptTokens: 3n, completionTokens: 2n, cachedTokens: 1n, reasoningTokens: 0n }
    const data = Array.from({ length: 73 }, (_, i) => ({
      organisationId,
      hour: new Date('2026-10-08T08:00:00Z'),
      keyId: 'key_x',
      model: `m${i}`,
      provider: '',
      kind: 'chat',
      environment: 'live' as const,
      latency: [],
      firstByte: [],
      ...counts,
      outcome: i % 3 === 0 ? 'failed' : 'ok',
      requests: BigInt(i + 1),
      costNano: BigInt((i + 1) * 1_000_000_007),
    }))
    await world.gateway.services.db.usageHour.createMany({ data })
    const {
      rows,
      other: rest,
      total,
    } = await groups('?from=2026-10-08T00:00:00Z&to=2026-10-08T23:00:00Z&by=model', other)
    t.deepEqual(
      rows.map(({ groups: [group] }) => group!.id),
      Array.from({ length: 50 }, (_, i) => `m${72 - i}`),
    )
    for (const field of ['requests', 'failed', 'ok', 'prompt_tokens', 'completion_tokens', 'cached_tokens'] as const)
      t.is(
        rows.reduce((sum, row) => sum + row[field], rest![field]),
        total[field],
        field,
      )
    const nano = (usd: number) => Math.round(usd * 1e9)
    t.is(
      rows.reduce((sum, row) => sum + nano(row.cost_usd), nano(rest!.cost_usd)),
      nano(total.cost_usd),
    )
    t.is(rest!.requests, (23 * 24) / 2)
    t.is(rest!.latency_p95_ms, null)
    const query = '?from=2026-10-01T00:00:00Z&to=2026-11-01T00:00:00Z&by=model'
    const file = await other.visitor.fetch(`${other.base}/usage/groups.csv${query}`)
    t.is(
      file.headers.get('content-disposition'),
      'attachment; filename="tail-s-organisation-usage-2026-10-01-to-2026-10-31.csv"',
    )
    await world.gateway.services.db.usageHour.deleteMany({ where: { organisationId } })
  },
)
