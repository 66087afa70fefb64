import pg from 'pg'
import type { LedgerLine, LedgerPage, StatementTotals } from '../../../api/dashboard/wire/billing.ts'
import { newId } from '../../../shared/base/ids.ts'
import { stepBatch } from '../../../shared/batches/step.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { chargeJob, settleJob } from '../../../shared/wallet/jobs.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { createBatch, jsonLines, uploadInput } from '../../support/batches/gateway.ts'
import { coinLines } from '../../support/batches/world.ts'
import { signUp, type Visitor } from '../../support/dashboard/dashboard.ts'
import { delayed, gated, path as jobsPath } from '../../support/delayed/jobs.ts'
import { eventually } from '../../support/gateway.ts'
import { answerOf, over } from '../../support/jobs/gateway.ts'
import { setLedgerTime } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway, useStores } from '../../support/use.ts'
import { moneyEnvironment, testClock } from '../../support/wallet/money.ts'
import { startWorkers, type Workers } from '../../support/workers.ts'

const clock = testClock('2028-02-29T23:59:40Z')
const closesAt = '2028-03-03T00:00:00.000Z'
let workers: Workers | null = null

const stores = useStores(test)
const upstream = use(test, startOpenAiEmulator)
const gateway = useGateway(test, async () => await moneyEnvironment(upstream.url), { stores, clock })
test.beforeEach(async () => {
  clock.set('2028-02-29T23:59:40Z')
  await setTime('2028-02-29T23:59:40Z')
})
test.afterEach.always(async () => {
  await workers?.stop()
  workers = null
  upstream.reset()
})

/** Sets the time of the database by which months close. */
async function setTime(iso: string): Promise<void> {
  const client = new pg.Client({ connectionString: stores.databaseUrl })
  await client.connect()
  await client.query(setLedgerTime(iso))
  await client.end()
}

type Tenant = { visitor: Visitor; base: string; organisationId: string; live: string; keyId: string; usageKey: string }

/** An organisation with credits, as its owner and its programs see it. */
async function tenant(): Promise<Tenant> {
  const { visitor, base, organisationId } = await signUp(gateway)
  const { wallets, keys, db } = gateway.services
  await wallets.deposit({ organisationId, amountNano: 25_000_000_000n, method: 'grant' })
  const live = await gateway.key(organisationId, 'live', {})
  const { id: keyId } = await db.apiKey.findFirstOrThrow({ where: { organisationId } })
  const { secret: usageKey } = await keys.createProvisioning(organisationId, operatorActor)
  return { visitor, base, organisationId, live, keyId, usageKey }
}

const chat = { model: 'coin', max_tokens: 20, messages: [{ role: 'user', content: 'Which month is it?' }] }

function ask({ live }: Tenant, more: object = {}): Promise<Response> {
  return gateway.fetch('/v1/chat/completions', { key: live, body: { ...chat, ...more } })
}

const totalsOf = ({ visitor, base }: Tenant, month: string) =>
  visitor.json<StatementTotals>(`${base}/billing/totals?month=${month}`)

async function linesOf({ visitor, base }: Tenant, month: string, detail = 'entries'): Promise<LedgerLine[]> {
  const page = await visitor.json<LedgerPage>(`${base}/billing/ledger?month=${month}&detail=${detail}&order=asc`)
  return page.data.filter(({ kind }) => kind !== 'deposit')
}

/** What a month cost in USD by each figure that shows one: the statement, the spend of the key, the usage. */
async function figures(of: Tenant, month: string): Promise<{ statement: number; key: number; usage: number }> {
  const { charges_usd, refunds_usd, excess_usd } = await totalsOf(of, month)
  const spend = await gateway.services.db.keySpend.findFirst({ where: { keyId: of.keyId, month } })
  const end = new Date(Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5)))).toISOString()
  const answer = await gateway.fetch(`/api/v1/usage?granularity=month&from=${month}-01T00:00:00Z&to=${end}`, {
    key: of.usageKey,
  })
  const { data } = (await answer.json()) as { data: { start: string; cost_usd: number }[] }
  return {
    statement: nanoOf(0 - charges_usd - refunds_usd - excess_usd),
    key: Number(spend?.spentNano ?? 0n),
    usage: nanoOf(data.reduce((sum, { cost_usd }) => sum + cost_usd, 0)),
  }
}

const nanoOf = (usd: number) => Math.round(usd * 1e9)

/** Has calls to the provider wait until the test lets them go. */
function held(count: number): () => void {
  const gates = Array.from({ length: count }, () => gated())
  for (const { reply } of gates) upstream.next(reply)
  return () => {
    for (const { go } of gates) go()
  }
}

async function agree(t: ExecutionContext, of: Tenant, month: string): Promise<number> {
  const { statement, key, usage } = await figures(of, month)
  t.is(statement, key, `${month}: statement and spend of the key`)
  t.is(statement, usage, `${month}: statement and usage`)
  return statement
}

test.serial(
  'closed: statement, spend of the key and usage of a month agree, whatever was under way at its end',
  async t => {
    const own = await tenant()
    const before = await ask(own)
    t.is(before.status, 200)
    const door = { url: gateway.url, key: own.live }
    const batch = await createBatch(door, await uploadInput(door, jsonLines(coinLines(2))), {
      batch_routing: 'gateway',
    })
    const { id: job } = await answerOf(
      await gateway.fetch(jobsPath, { key: own.live, body: delayed('Answered in the next month') }),
    )
    const release = held(4)
    const underWay = [ask(own), ask(own, { stream: true })]
    const visit = stepBatch(gateway.services, batch.id, new AbortController().signal)
    await eventually(() => upstream.requests.length === 5, 'four calls are under way')

    clock.set('2028-03-01T00:00:30Z')
    await setTime('2028-03-01T00:00:30Z')
    release()
    for (const response of await Promise.all(underWay)) {
      t.is(response.status, 200)
      await response.text()
    }
    await visit
    t.is((await ask(own)).status, 200)
    workers = startWorkers(gateway.services)
    await gateway.services.delayedTasks.add('run', job)
    await over(gateway, own.live, jobsPath, job)
    t.deepEqual(await gateway.settled(), [])

    const february = await agree(t, own, '2028-02')
    const march = await agree(t, own, '2028-03')
    t.true(february > march && march > 0)
    const lines = await linesOf(own, '2028-02')
    t.is(lines.length, 6, 'one before, two calls and two lines under way, the delayed job')
    t.is(lines.at(-1)!.at, '2028-02-29T23:59:59.999Z', 'the job is dated in the month in which it was created')
    t.is(lines.at(-1)!.reference, job)
    t.true(lines.every(({ late_from }) => late_from === null))
    t.like(await totalsOf(own, '2028-02'), { closes_at: closesAt, closed: false, late_usd: 0 })

    await setTime(closesAt)
    t.like(await totalsOf(own, '2028-02'), { charges_usd: 0 - february / 1e9, closed: true })
  },
)

test.serial(
  'closed: charges that are booked later count in the open month, marked; the closed one stays as it was',
  async t => {
    const own = await tenant()
    for (let requests = 0; requests < 2; requests++) t.is((await ask(own)).status, 200)
    t.deepEqual(await gateway.settled(), [])
    const release = held(2)
    const underWay = [ask(own), ask(own)]
    await eventually(() => upstream.requests.length === 4, 'two calls are under way')
    await setTime('2028-03-05T12:34:56Z')
    const [closed, closedLines] = [await totalsOf(own, '2028-02'), await linesOf(own, '2028-02')]
    t.true(closed.closed)
    release()
    await Promise.all(underWay)
    t.deepEqual(await gateway.settled(), [])
    clock.set('2028-03-05T12:34:57Z')
    t.is((await ask(own)).status, 200)
    t.deepEqual(await gateway.settled(), [])

    t.deepEqual(await totalsOf(own, '2028-02'), closed)
    t.deepEqual(await linesOf(own, '2028-02'), closedLines)
    const march = await linesOf(own, '2028-03')
    const shown = march.map(({ at, late_from }) => [at, late_from])
    t.deepEqual(shown, [
      ['2028-03-05T12:34:56.000Z', '2028-02'],
      ['2028-03-05T12:34:56.000Z', '2028-02'],
      ['2028-03-05T12:34:57.000Z', null],
    ])
    const totals = await totalsOf(own, '2028-03')
    t.is(totals.late_usd, march[0]!.amount_usd + march[1]!.amount_usd)
    t.is(nanoOf(totals.charges_usd), nanoOf(march.reduce((sum, { amount_usd }) => sum + amount_usd, 0)))
    // The spend of the key and the usage name their own rule: when requests began.
    const [february, after] = [await figures(own, '2028-02'), await figures(own, '2028-03')]
    const late = 0 - nanoOf(totals.late_usd)
    t.is(february.key, february.statement + late)
    t.is(february.usage, february.key)
    t.is(after.statement, after.key + late)
    t.is(after.usage, after.key)

    const days = await linesOf(own, '2028-03', 'days')
    t.deepEqual(
      days.map(({ at, entries, late_from, amount_usd }) => [at.slice(0, 10), entries, late_from, nanoOf(amount_usd)]),
      [
        ['2028-03-05', 1, null, nanoOf(march[2]!.amount_usd)],
        ['2028-03-05', 2, '2028-02', nanoOf(totals.late_usd)],
      ],
    )
    const { visitor, base } = own
    const first = await visitor.json<LedgerPage>(`${base}/billing/ledger?month=2028-03&order=asc&limit=1`)
    const next = `${base}/billing/ledger?month=2028-03&order=asc&limit=1&after=${first.last_id}`
    t.deepEqual([...first.data, ...(await visitor.json<LedgerPage>(next)).data], days)
    for (const detail of ['days', 'entries']) {
      const file = await (
        await visitor.fetch(`${base}/billing/ledger.csv?from=2028-03&to=2028-03&detail=${detail}`)
      ).text()
      const [head, ...rows] = file.trim().split('\r\n')
      const lateFrom = head!.split(',').indexOf('late_from')
      t.is(rows.filter(row => row.split(',')[lateFrom] === '2028-02').length, detail === 'days' ? 1 : 2)
    }
  },
)

test.serial(
  'closed: a refund and a deposit dated before are late from the last minute on; a repetition books nothing',
  async t => {
    const own = await tenant()
    const { organisationId, keyId } = own
    const { db } = gateway.services
    const id = newId('ajob')
    const job = {
      id,
      organisationId,
      keyId,
      month: '2028-02',
      capNano: null,
      environment: 'live' as const,
      costNano: 5_000n,
      holdNano: 0n,
    }
    await db.$transaction(tx => chargeJob(tx, job, 5_000n, 5_000n, clock.now()))
    await setTime('2028-03-02T23:59:00Z')
    t.false((await totalsOf(own, '2028-02')).closed)
    const february = await totalsOf(own, '2028-02')
    for (let times = 0; times < 2; times++)
      await db.$transaction(tx => settleJob(tx, job, { refund: true }, Date.parse('2028-03-02T23:59:00Z')))
    await gateway.services.wallets.deposit({ organisationId, amountNano: 7_000n, method: 'grant' })
    t.deepEqual(await totalsOf(own, '2028-02'), february)
    const entries = await db.ledgerEntry.findMany({
      where: { organisationId, lateFrom: { not: null } },
      orderBy: { id: 'asc' },
    })
    t.deepEqual(
      entries.map(({ kind, amountNano, lateFrom, createdAt }) => [kind, amountNano, lateFrom, createdAt.toISOString()]),
      [
        ['refund', 5_000n, '2028-02', '2028-03-02T23:59:00.000Z'],
        ['deposit', 7_000n, '2028-02', '2028-03-02T23:59:00.000Z'],
      ],
    )
    t.is((await db.keySpend.findFirstOrThrow({ where: { keyId, month: '2028-02' } })).spentNano, 0n)
    const { balanceNano } = await db.wallet.findUniqueOrThrow({ where: { organisationId } })
    t.is(balanceNano, 25_000_007_000n)
  },
)

test.serial('closed: an entry of the previous release, which names no month, is late as well', async t => {
  const own = await tenant()
  const { db } = gateway.services
  await setTime('2028-03-03T00:00:00Z')
  await db.$executeRaw`
    INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, key_id, created_at)
    VALUES (${own.organisationId}, 'charge', -1, 'generation:previous', ${own.keyId}, '2028-02-29T23:00:00Z')`
  t.like(await db.ledgerEntry.findUniqueOrThrow({ where: { cause: 'generation:previous' } }), {
    createdAt: new Date('2028-03-03T00:00:00Z'),
    occurredAt: new Date('2028-02-29T23:00:00Z'),
    lateFrom: '2028-02',
    month: null,
  })
  t.is((await totalsOf(own, '2028-02')).charges_usd, 0)
})
