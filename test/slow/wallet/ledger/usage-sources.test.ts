import { newId } from '../../../../shared/base/ids.ts'
import { dayMs } from '../../../../shared/base/time.ts'
import { Prisma } from '../../../../shared/generated/prisma/client.ts'
import type { Connection } from '../../../../shared/io/db.ts'
import { sumDurations } from '../../../../shared/wallet/sketches.ts'
import { sumUsage } from '../../../../shared/wallet/usage-query.ts'
import { type Measure, sumSeries } from '../../../../shared/wallet/usage-series.ts'
import type { Dimension, Step, UsageFilter } from '../../../../shared/wallet/usage-source.ts'
import { breaches, observe } from '../../../support/chaos.ts'
import { monotonicAt } from '../../../support/clocks/monotonic.ts'
import { createAccount } from '../../../support/gateway.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { use, useStores } from '../../../support/use.ts'

/** Usage summed from days and hours is what the request log adds up to. */

const hourMs = 3_600_000
const endMs = Date.parse('2027-03-10T12:00:00Z')
const spanDays = 45
const keys = ['key_1', 'key_2']
let organisationIds: string[]

const stores = useStores(test)
const services = use(test, () => observe(stores))
test.before(async () => {
  organisationIds = [(await createAccount(services)).organisationId, (await createAccount(services)).organisationId]
  await insertRequests(600)
  await changeRequests()
})

/** The same numbers in every run. */
let seed = 7
function draw(below: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
  return Math.floor((seed / 2 ** 31) * below)
}
const pick = <T>(values: readonly T[]): T => values[draw(values.length)]!

/** Puts random requests into the log; `fixed`: what is not random of the one with this number. */
async function insertRequests(count: number, fixed: (i: number) => object = () => ({})): Promise<void> {
  const statuses = [200, 200, 200, 400, 401, 429, 499, 502]
  const counts = {
    completionTokens: 7,
    cachedTokens: 2,
    reasoningTokens: 1,
    attempts: 1,
    estimated: false,
  }
  const data = Array.from({ length: count }, (_, i) => {
    const status = pick(statuses)
    const isCharged = status === 200 && draw(4) > 0
    return {
      ...counts,
      id: newId('chatcmpl'),
      requestId: newId('req'),
      organisationId: pick(organisationIds),
      keyId: pick(keys),
      // Many at the edges of hours and days.
      createdAt: new Date(endMs - draw(spanDays * 24) * hourMs - pick([0, 1, hourMs - 1, draw(hourMs)])),
      model: pick(['gpt-5', 'coin', '']),
      provider: pick(['openai', 'xai', null]),
      kind: pick(['chat', 'video']),
      environment: pick(['live', 'test'] as const),
      status,
      calls: status === 400 ? 3 : 1,
      promptTokens: draw(1_000),
      costNano: isCharged ? BigInt(draw(1e9)) : 0n,
      marginPpm: isCharged ? pick([50_000, 0, null]) : null,
      waiver: isCharged ? null : 'no_price',
      durationMs: draw(200_000),
      firstByteMs: pick([null, draw(5_000)]),
      streamed: draw(2) === 0,
      ...fixed(i),
    }
  })
  await services.db.generation.createMany({ data })
}

/** Jobs end at another provider, and are refunded. */
async function changeRequests(): Promise<void> {
  await services.db.$executeRaw`
    UPDATE generations SET cost_nano = cost_nano / 2, provider = 'gemini', duration_ms = duration_ms + 70000
    WHERE kind = 'video' AND prompt_tokens % 3 = 0`
  await services.db.$executeRaw`UPDATE generations SET status = 502, cost_nano = 0 WHERE prompt_tokens % 7 = 0`
}

const dimensions: Dimension[] = ['key', 'member', 'model', 'provider', 'type', 'environment', 'outcome', 'organisation']
const steps: (Step | null)[] = [null, 'hour', '4h', 'day', 'week', 'month']
const measures: Measure[] = ['cost', 'requests', 'errors', 'tokens']

/** Whole hours, as what hours know has no finer ends, or an exact time. */
function drawFilter(): UsageFilter {
  if (draw(4) === 0) {
    const fromMs = endMs - draw(40 * dayMs)
    const toMs = fromMs + draw(pick([hourMs, dayMs, 20 * dayMs])) + 1
    return { organisationId: pick(organisationIds), from: new Date(fromMs), to: new Date(toMs), isExact: true }
  }
  const toMs = endMs - draw(20 * 24) * hourMs
  const fromMs = toMs - (1 + draw(30 * 24)) * hourMs
  const [from, to] =
    draw(4) === 0 ? [Math.floor(fromMs / dayMs) * dayMs, Math.ceil(toMs / dayMs) * dayMs] : [fromMs, toMs]
  return {
    organisationId: draw(5) === 0 ? null : pick(organisationIds),
    from: new Date(from),
    to: new Date(to),
    environment: pick([undefined, 'live']),
    keyId: pick([undefined, undefined, 'key_1']),
    model: pick([undefined, undefined, 'gpt-5']),
    provider: pick([undefined, undefined, 'gemini']),
    type: pick([undefined, undefined, 'chat']),
    outcomes: pick([undefined, undefined, ['ok'], ['failed', 'invalid']]),
  }
}

async function compare(t: ExecutionContext, filter: UsageFilter, step: Step | null, by: Dimension[]): Promise<number> {
  const { db } = services
  const shared = { step, by, order: pick(['time', 'latest', 'cost', 'errors'] as const), limit: 10_000 }
  const said = JSON.stringify({ filter, ...shared })
  const summed = await sumUsage(db, filter, { ...shared, source: 'hours' })
  // The log reads from the beginning of the first period, too.
  t.deepEqual(summed, await sumUsage(db, filter, { ...shared, source: 'log' }), said)
  if (step === null) return summed.total?.requests ?? 0
  const wanted = { step, by: by[0] ?? 'model', measure: pick(measures), maxSeries: 2 }
  const inOrder = async (source: 'hours' | 'log') =>
    (await sumSeries(db, filter, { ...wanted, source }))
      .map(one => `${one.start.toISOString()} ${one.id} ${one.amount}`)
      .sort()
  t.deepEqual(await inOrder('hours'), await inOrder('log'), said)
  return summed.total?.requests ?? 0
}

/** Compares random sums; gives how many requests these had. */
async function compareMany(t: ExecutionContext, times: number): Promise<number> {
  let requests = 0
  for (let i = 0; i < times; i++) {
    const by = [...new Set([pick(dimensions), pick(dimensions)])].slice(0, draw(3))
    requests += await compare(t, drawFilter(), pick(steps), by)
  }
  return requests
}

const clock = { now: () => endMs + dayMs }
/** Its time stands still, so that no run ends before its work does. */
const monotonic = { now: () => monotonicAt(0) }
const sumUp = () => sumDurations({ db: services.db, clock, monotonic })
const openRows = async () => {
  const [row] = await services.db.$queryRaw<{ open: bigint }[]>`
    SELECT (SELECT count(*) FROM usage_hours WHERE outcome = 'ok' AND latency_sketch IS NULL) +
      (SELECT count(*) FROM usage_day_details WHERE outcome = 'ok' AND latency_sketch IS NULL) AS open`
  return Number(row!.open)
}
const usageBreaches = async () => (await breaches(services)).filter(breach => breach.includes('usage'))

type Plan = { 'Rows Removed by Join Filter'?: number; 'Actual Loops': number; Plans?: Plan[] }

/** Runs a statement as its plan is explained; gives how many pairs of rows it compares in vain. */
async function countVainComparisons(tx: Connection, statement: Prisma.Sql): Promise<number> {
  const [row] = await tx.$queryRaw<{ 'QUERY PLAN': { Plan: Plan }[] }[]>`EXPLAIN (ANALYZE, FORMAT JSON) ${statement}`
  const countIn = (plan: Plan): number => {
    const own = (plan['Rows Removed by Join Filter'] ?? 0) * plan['Actual Loops']
    return (plan.Plans ?? []).reduce((sum, inner) => sum + countIn(inner), own)
  }
  return row!['QUERY PLAN'].reduce((sum, { Plan }) => sum + countIn(Plan), 0)
}

for (const step of [null, 'hour'] as const)
  test.serial(
    `no request and no group is compared with all others, however it is planned: ${step ?? 'one period'}`,
    async t => {
      const filter = { organisationId: organisationIds[0]!, from: new Date(endMs - 40 * dayMs), to: new Date(endMs) }
      const grouping = { step, source: 'hours', by: ['key'], order: 'cost', limit: 1_000 } as const
      const { total } = await sumUsage(services.db, filter, grouping)
      const comparisons = await services.db.$transaction(async tx => {
        await tx.$executeRaw`SET LOCAL enable_hashjoin = off`
        await tx.$executeRaw`SET LOCAL enable_mergejoin = off`
        const statements: Prisma.Sql[] = []
        const note = async (...[strings, ...values]: Parameters<typeof Prisma.sql>) => {
          statements.push(Prisma.sql(strings, ...values))
          return []
        }
        await sumUsage({ $queryRaw: note } as unknown as Connection, filter, grouping)
        return countVainComparisons(tx, statements[0]!)
      })
      t.true(comparisons < total!.requests, `${comparisons} comparisons for ${total!.requests} requests`)
    },
  )

test.serial('what days and hours add up to is what the log adds up to: any time, period, filter and group', async t => {
  t.true((await openRows()) > 100)
  t.true((await compareMany(t, 50)) > 500, 'before durations are summed up')
  await sumUp()
  t.is(await openRows(), 0)
  t.true((await compareMany(t, 50)) > 500)
  t.deepEqual(await usageBreaches(), [])
})

test.serial('durations of hours and days that change late are those of the log, and are summed up again', async t => {
  await insertRequests(100)
  await services.db
    .$executeRaw`UPDATE generations SET status = 200, duration_ms = 77 WHERE calls = 1 AND prompt_tokens % 11 = 0`
  t.true((await openRows()) > 10)
  await compareMany(t, 30)
  await sumUp()
  t.is(await openRows(), 0)
  await compareMany(t, 30)
  t.deepEqual(await usageBreaches(), [])
})

test.serial('durations are summed up after every booking, however many tasks and bookings run at once', async t => {
  const bookings = Array.from({ length: 12 }, () => insertRequests(10))
  await Promise.all([sumUp(), ...bookings, sumUp(), changeRequests(), sumUp(), insertRequests(60), sumUp()])
  await compareMany(t, 20)
  await sumUp()
  t.is(await openRows(), 0)
  await compareMany(t, 20)
  t.deepEqual(await usageBreaches(), [])
})

test.serial('of an hour with many keys, none is compared with all others when durations are summed up', async t => {
  const { organisationId } = await createAccount(services)
  const rows = 2_000
  const known = { organisationId, status: 200, kind: 'chat', createdAt: new Date(endMs) }
  await insertRequests(rows, i => ({ ...known, keyId: `key_${i}` }))
  let comparisons = 0
  const explained = (tx: Connection) =>
    new Proxy(tx, {
      get(target, name, receiver) {
        if (name !== '$executeRaw') return Reflect.get(target, name, receiver)
        return async (...[strings, ...values]: Parameters<typeof Prisma.sql>) => {
          const statement = Prisma.sql(strings, ...values)
          if (!/^\s*UPDATE/.test(statement.sql)) return tx.$executeRaw(statement)
          comparisons += await countVainComparisons(tx, statement)
          return 0
        }
      },
    })
  const transaction = (run: (tx: Connection) => Promise<unknown>) => services.db.$transaction(tx => run(explained(tx)))
  const db = new Proxy(services.db, {
    get: (target, name, receiver) => (name === '$transaction' ? transaction : Reflect.get(target, name, receiver)),
  })
  await sumDurations({ db, clock, monotonic })
  t.is(await openRows(), 0)
  t.true(comparisons < rows, `${comparisons} comparisons`)
})
