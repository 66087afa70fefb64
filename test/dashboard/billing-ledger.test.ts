import type { LedgerLine, MonthTotals } from '../../api/dashboard/wire/billing.ts'
import { csvLine } from '../../shared/base/csv.ts'
import { formatUsd } from '../../shared/base/money.ts'
import { bookUsage } from '../../shared/wallet/booking.ts'
import type { UsageEvent } from '../../shared/wallet/usage-event.ts'
import { answersError } from '../support/api/edge.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'
import { usageEventOf } from '../support/wallet/usage-event.ts'

const startMs = Date.UTC(2026, 9, 31, 23)
let nowMs = startMs

const gateway = useGateway(test, {}, { clock: { now: () => nowMs } })

const hourMs = 3_600_000
const minuteMs = 60_000

/** A charge of a request that ended `minutes` after the last hour of October began. */
function charge(org: string, key: string, minutes: number, cost: number): UsageEvent {
  const at = startMs + minutes * minuteMs
  const id = `chatcmpl-${key}-${minutes}`
  const month = new Date(at).toISOString().slice(0, 7)
  return usageEventOf({ id, at, org, key, month, requestId: `req_${id}`, cost })
}

test('the ledger of a month: charges by day and key or one by one, everything else by itself, page by page, and as CSV', async t => {
  const { visitor, base, organisationId } = await signUp(gateway)
  const { accounts, rawPool, db } = gateway.services
  for (const name of ['=HYPERLINK("http://x")', 'Second, with "quotes"'])
    await gateway.key(organisationId, 'live', { name })
  const keys = await db.apiKey.findMany({ where: { organisationId }, orderBy: { id: 'asc' } })
  const [first, second] = keys.map(({ id }) => id) as [string, string]
  await accounts.deposit({ organisationId, amountNano: 25_000_000_000n, method: 'card', note: '@note\nof two lines' })
  nowMs = startMs + 30 * hourMs
  await accounts.deposit({ organisationId, amountNano: 10_000_000_000n, method: 'grant' })
  await rawPool.transaction(run =>
    bookUsage(
      run,
      [
        charge(organisationId, first, 10, 1),
        charge(organisationId, first, 70, 100_000_000),
        charge(organisationId, first, 80, 200_000_000),
        charge(organisationId, second, 90, 400_000_000),
        charge(organisationId, first, 60 * 26, 800_000_000),
      ],
      nowMs,
    ),
  )
  const shown = ({ at, kind, amount_usd, entries, key }: LedgerLine) =>
    `${at.slice(5, 13)} ${kind} ${amount_usd} ${entries} ${key === null ? '-' : key.id === first ? 'first' : 'second'}`
  const read = async (query: string) => {
    const found: string[] = []
    let after = ''
    for (;;) {
      const path = `${base}/billing/ledger?limit=2${query}${after}`
      const { data, has_more, last_id } = await visitor.json<{
        data: LedgerLine[]
        has_more: boolean
        last_id: string
      }>(path)
      found.push(...data.map(shown))
      if (!has_more) return found
      after = `&after=${last_id}`
    }
  }
  const days = [
    '11-02T05 deposit 10 1 -',
    '11-02T00 charge -0.8 1 first',
    '11-01T00 charge -0.4 1 second',
    '11-01T00 charge -0.3 2 first',
  ]
  t.deepEqual((await read('')).sort(), [...days].sort())
  t.deepEqual(await read(''), await read('&month=2026-11'))
  t.deepEqual(await read('&order=asc'), (await read('')).toReversed())
  t.deepEqual(await read('&detail=entries'), [
    '11-02T05 deposit 10 1 -',
    '11-02T01 charge -0.8 1 first',
    '11-01T00 charge -0.4 1 second',
    '11-01T00 charge -0.2 1 first',
    '11-01T00 charge -0.1 1 first',
  ])
  t.deepEqual(await read('&detail=entries&order=asc'), (await read('&detail=entries')).toReversed())
  t.deepEqual(await read('&kind=deposit'), ['11-02T05 deposit 10 1 -'])
  t.deepEqual(await read('&kind=refund'), [])
  t.deepEqual(await read('&month=2026-10&kind=charge'), ['10-31T00 charge -1e-9 1 first'])
  const totals = { deposits_usd: 10, charges_usd: -1.5, excess_usd: 0, refunds_usd: 0, adjustments_usd: 0, late_usd: 0 }
  const close = { closes_at: '2026-12-03T00:00:00.000Z', closed: false }
  t.deepEqual(await visitor.json<MonthTotals>(`${base}/billing/totals`), { month: '2026-11', ...totals, ...close })

  const file = await visitor.fetch(`${base}/billing/ledger.csv?from=2026-10&to=2026-11`)
  t.is(file.headers.get('content-type'), 'text/csv; charset=utf-8')
  t.is(file.headers.get('content-disposition'), 'attachment; filename="ledger-2026-10-2026-11.csv"')
  const text = await file.text()
  const lines = text.split('\r\n')
  t.is(lines[0], 'at,kind,event,amount_usd,charges,key,method,available_at,reference,note,late_from')
  t.is(lines[1], `2026-10-31T00:00:00.000Z,charge,,-0.000000001,1,"'=HYPERLINK(""http://x"")",,,,,`)
  t.regex(lines[2]!, /^2026-10-31T23:00:00\.000Z,deposit,,25\.000000000,,,card,,dep_\w+,"'@note\nof two lines",$/)
  t.true(text.includes(',-0.400000000,1,"Second, with ""quotes""",'))
  t.is(lines.length, 1 + 6 + 1)
  const whole = await (await visitor.fetch(`${base}/billing/ledger.csv?from=2026-11&to=2026-11&detail=entries`)).text()
  t.is(whole.split('\r\n').length, 1 + 5 + 1)
  t.true(whole.includes(`chatcmpl-${first}-70`))

  const wrong: [path: string, param: string][] = [
    ['/billing/ledger?month=2026-13', 'month'],
    ['/billing/ledger?detail=entries&after=2026-11-01T00:00:00.000Z_key', 'after'],
    ['/billing/ledger?after=x', 'after'],
    ['/billing/ledger?after=2026-11-41T00:00:00.000Z_1', 'after'],
    ['/billing/ledger?after=0000-01-01T00:00:00.000Z_1', 'after'],
    ['/billing/ledger?detail=entries&after=0000-01-01T00:00:00.000Z_1', 'after'],
    ['/billing/ledger?kind=hold', 'kind'],
    ['/billing/ledger.csv?from=2026-11&to=2026-10', 'to'],
    ['/billing/ledger.csv?from=2025-11&to=2026-11', 'to'],
  ]
  for (const [path, param] of wrong)
    await answersError(t, await visitor.fetch(base + path), 'invalid_request', param, path)
})

test('a statement of many pages arrives whole and in order', async t => {
  const { visitor, base, organisationId } = await signUp(gateway)
  await gateway.key(organisationId, 'live')
  const { id } = await gateway.services.db.apiKey.findFirstOrThrow({ where: { organisationId } })
  const events = Array.from({ length: 2_500 }, (_, i) => charge(organisationId, id, 120 + i / 100, 1_000 + i))
  await gateway.services.rawPool.transaction(run => bookUsage(run, events, nowMs))
  const path = `${base}/billing/ledger.csv?from=2026-11&to=2026-11&detail=entries`
  const lines = (await (await visitor.fetch(path)).text()).trimEnd().split('\r\n').slice(1)
  t.is(new Set(lines).size, 2_500)
  t.deepEqual(
    lines.map(line => line.split(',')[3]!),
    events.map(({ cost }) => formatUsd(BigInt(-cost))),
  )
})

test('cells of CSV that a spreadsheet would run are defused, numbers stay numbers', t => {
  const cells = ['=1+1', '+1', '-1', '-1+2', '@x', '\tx', 'a"b', 'a,b', 'a\r\nb', 'plain', null, -5]
  t.is(csvLine(cells), `'=1+1,'+1,-1,'-1+2,'@x,'\tx,"a""b","a,b","a\r\nb",plain,,-5\r\n`)
})
