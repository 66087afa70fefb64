import type { LedgerLine, LedgerPage, StatementTotals } from '../../../api/dashboard/wire/billing.ts'
import { csvLine } from '../../../shared/base/csv.ts'
import { formatUsd } from '../../../shared/base/money.ts'
import { bookUsage } from '../../../shared/wallet/booking.ts'
import type { UsageEvent } from '../../../shared/wallet/usage-event.ts'
import { answersError } from '../../support/api/edge.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { useGateway } from '../../support/use.ts'
import { usageEventOf } from '../../support/wallet/usage-event.ts'

const startMs = Date.UTC(2026, 9, 31, 23)
let nowMs = startMs

/** Its tests run one by one: two histories at once keep the process so busy that its stores seem to be away. */
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

test.serial(
  'the ledger of a month: charges by day and key or one by one, everything else by itself, page by page, and as CSV',
  async t => {
    const { visitor, base, organisationId } = await signUp(gateway)
    const { wallets, rawPool, db } = gateway.services
    for (const name of ['=HYPERLINK("http://x")', 'Second, with "quotes"'])
      await gateway.key(organisationId, 'live', { name })
    const keys = await db.apiKey.findMany({ where: { organisationId }, orderBy: { id: 'asc' } })
    const [first, second] = keys.map(({ id }) => id) as [string, string]
    await wallets.deposit({ organisationId, amountNano: 25_000_000_000n, method: 'card', note: '@note\nof two lines' })
    nowMs = startMs + 30 * hourMs
    await wallets.deposit({ organisationId, amountNano: 10_000_000_000n, method: 'grant' })
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
    const totals = {
      deposits_usd: 10,
      charges_usd: -1.5,
      excess_usd: 0,
      refunds_usd: 0,
      adjustments_usd: 0,
      late_usd: 0,
    }
    const close = { closes_at: '2026-12-03T00:00:00.000Z', closed: false }
    const sums = await visitor.json<StatementTotals>(`${base}/billing/totals`)
    const { days: byDay, keys: byKey, members: byMember, ...balances } = sums
    const period = { from: '2026-11-01', to: '2026-11-30', currency: 'usd', opening_usd: 24.999999999 } as const
    t.deepEqual(balances, { ...period, ...totals, closing_usd: 33.499999999, ...close })
    t.deepEqual(
      byDay.map(({ id, amount_usd }) => [id, amount_usd]),
      [
        ['2026-11-01', -0.7],
        ['2026-11-02', 9.2],
      ],
    )
    t.deepEqual(
      byKey.map(({ id, amount_usd, entries }) => [id, amount_usd, entries]),
      [
        [first, -1.1, 3],
        [second, -0.4, 1],
      ],
    )
    t.deepEqual(byMember, [{ id: null, name: null, is_rest: false, amount_usd: -1.5, entries: 4 }])

    const file = await visitor.fetch(`${base}/billing/ledger.csv?from=2026-10&to=2026-11`)
    t.is(file.headers.get('content-type'), 'text/csv; charset=utf-8')
    t.is(
      file.headers.get('content-disposition'),
      'attachment; filename="ada-s-organisation-statement-2026-10-01-to-2026-11-30.csv"',
    )
    const text = await file.text()
    const lines = text.split('\r\n')
    t.is(
      lines[0],
      'at,kind,event,amount_usd,charges,key,method,available_at,reference,note,late_from,currency,balance_usd,entry_id,key_id,member_id',
    )
    t.is(lines[1], '2026-10-01T00:00:00.000Z,opening_balance,,,,,,,,,,USD,0.000000000,,,')
    t.is(
      lines[2],
      `2026-10-31T00:00:00.000Z,charge,,-0.000000001,1,"'=HYPERLINK(""http://x"")",,,,,,USD,-0.000000001,,${first},`,
    )
    t.regex(
      lines[3]!,
      /^2026-10-31T23:00:00\.000Z,deposit,,25\.000000000,,,card,,dep_\w+,"'@note\nof two lines",,USD,24\.999999999,\d+,,$/,
    )
    t.is(lines.at(-2), '2026-11-30T23:59:59.999Z,closing_balance,,,,,,,,,,USD,33.499999999,,,')
    t.true(text.includes(',-0.400000000,1,"Second, with ""quotes""",'))
    t.is(lines.length, 1 + 8 + 1)
    const whole = await (
      await visitor.fetch(`${base}/billing/ledger.csv?from=2026-11&to=2026-11&detail=entries`)
    ).text()
    t.is(whole.split('\r\n').length, 1 + 7 + 1)
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
      ['/billing/totals?from=2026-11-31&to=2026-12-01', 'from'],
      ['/billing/totals?from=2026-11-01', 'to'],
      ['/billing/totals?month=2026-11&from=2026-11-01&to=2026-11-02', 'to'],
    ]
    for (const [path, param] of wrong)
      await answersError(t, await visitor.fetch(base + path), 'invalid_request', param, path)
  },
)

test.serial('a statement of many pages arrives whole and in order', async t => {
  const { visitor, base, organisationId } = await signUp(gateway)
  await gateway.key(organisationId, 'live')
  const { id } = await gateway.services.db.apiKey.findFirstOrThrow({ where: { organisationId } })
  const events = Array.from({ length: 2_500 }, (_, i) => charge(organisationId, id, 120 + i / 100, 1_000 + i))
  await gateway.services.rawPool.transaction(run => bookUsage(run, events, nowMs))
  const path = `${base}/billing/ledger.csv?from=2026-11&to=2026-11&detail=entries`
  const lines = (await (await visitor.fetch(path)).text()).trimEnd().split('\r\n').slice(2, -1)
  t.is(new Set(lines).size, 2_500)
  t.deepEqual(
    lines.map(line => line.split(',')[3]!),
    events.map(({ cost }) => formatUsd(BigInt(-cost))),
  )
})

/** A generator of the same numbers for the same seed (mulberry32). */
function random(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

test.serial(
  'of any history and period, opening balance + entries = closing balance, which is that of the ledger',
  async t => {
    const { visitor, base, organisationId } = await signUp(gateway)
    const { db } = gateway.services
    await gateway.key(organisationId, 'live')
    await gateway.key(organisationId, 'live')
    const keys = await db.apiKey.findMany({ where: { organisationId } })
    const next = random(46)
    const firstDay = Date.UTC(2027, 0, 1)
    const dayMs = 24 * hourMs
    const events = ['payment', 'failed', 'refund:re_1', 'refund_undone:re_1', 'dispute:dp_1', 'dispute_undone:dp_1']
    const row = (i: number) => {
      // Some entries share their millisecond, some are at the edges of days.
      const at = firstDay + next(60) * dayMs + [0, 1, dayMs - 1, next(dayMs)][next(4)]!
      const amount = BigInt(1 + next(2_000_000_000))
      const kind = (['charge', 'charge', 'charge', 'excess', 'refund', 'deposit', 'deposit', 'adjustment'] as const)[
        next(8)
      ]!
      const isOut = kind === 'charge' || kind === 'excess' || (kind !== 'refund' && next(3) === 0)
      const cause = kind === 'deposit' ? `topup:top_${i}:${events[next(events.length)]}` : `${kind}:of_${i}`
      const ofKey = kind === 'charge' || kind === 'excess' || kind === 'refund'
      return {
        organisationId,
        kind,
        cause,
        amountNano: isOut ? -amount : amount,
        createdAt: new Date(at),
        keyId: ofKey ? keys[next(2)]!.id : null,
        ...(kind === 'deposit' && { method: 'ach', availableAt: new Date(at + 5 * dayMs) }),
      }
    }
    await db.ledgerEntry.createMany({ data: Array.from({ length: 400 }, (_, i) => row(i)) })
    const entries = await db.ledgerEntry.findMany({
      where: { organisationId },
      orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
    })
    const sumOf = (some: { amountNano: bigint }[]) => some.reduce((sum, { amountNano }) => sum + amountNano, 0n)
    const nanoOf = (text: string) => BigInt(text.replace('.', ''))
    for (let i = 0; i < 12; i++) {
      const start = next(60)
      const dates = [start, start + next(60 - start)].map(day =>
        new Date(firstDay + day * dayMs).toISOString().slice(0, 10),
      )
      const [from, to] = dates as [string, string]
      const dateOf = ({ createdAt }: { createdAt: Date }) => createdAt.toISOString().slice(0, 10)
      const within = entries.filter(entry => dateOf(entry) >= from && dateOf(entry) <= to)
      const opening = sumOf(entries.filter(entry => dateOf(entry) < from))
      const closing = opening + sumOf(within)
      for (const detail of ['days', 'entries']) {
        const query = `from=${from}&to=${to}&detail=${detail}`
        const text = await (await visitor.fetch(`${base}/billing/ledger.csv?${query}`)).text()
        const lines = text
          .trimEnd()
          .split('\r\n')
          .slice(1)
          .map(line => line.split(','))
        t.is(lines[0]![12], formatUsd(opening), query)
        t.is(lines.at(-1)![12], formatUsd(closing), query)
        t.deepEqual([lines[0]![1], lines.at(-1)![1]], ['opening_balance', 'closing_balance'])
        let balance = opening
        for (const line of lines.slice(1, -1)) {
          balance += nanoOf(line[3]!)
          t.is(line[12], formatUsd(balance), query)
        }
        t.is(balance, closing, query)
        if (detail === 'entries')
          t.deepEqual(
            lines.slice(1, -1).map(line => line[13]),
            within.map(({ id }) => String(id)),
          )
        const shown: LedgerLine[] = []
        for (let after = ''; ; ) {
          const page = await visitor.json<LedgerPage>(`${base}/billing/ledger?limit=40&${query}${after}`)
          shown.push(...page.data)
          if (!page.has_more) break
          after = `&after=${page.last_id}`
        }
        t.deepEqual(
          shown.map(({ balance_usd }) => balance_usd!.toFixed(9)).toReversed(),
          lines.slice(1, -1).map(line => Number(line[12]).toFixed(9)),
        )
      }
      const sums = await visitor.json<StatementTotals>(`${base}/billing/totals?from=${from}&to=${to}`)
      t.is(sums.closing_usd.toFixed(9), formatUsd(closing))
      const work = sumOf(within.filter(({ keyId }) => keyId !== null))
      for (const [subtotals, of] of [
        [sums.days, closing - opening],
        [sums.keys, work],
        [sums.members, work],
      ] as const)
        t.is(
          subtotals.reduce((sum, { amount_usd }) => sum + Math.round(amount_usd * 1e9), 0),
          Number(of),
        )
    }
  },
)

test('cells of CSV that a spreadsheet would run are defused, numbers stay numbers', t => {
  const cells = ['=1+1', '+1', '-1', '-1+2', '@x', '\tx', 'a"b', 'a,b', 'a\r\nb', 'plain', null, -5]
  t.is(csvLine(cells), `'=1+1,'+1,-1,'-1+2,'@x,'\tx,"a""b","a,b","a\r\nb",plain,,-5\r\n`)
})

test.serial('a file is exported however many others of another organisation are asked for', async t => {
  const many = await signUp(gateway)
  const one = await signUp(gateway)
  let exported = 0
  const statements = Array.from({ length: 12 }, async () => {
    const file = await many.visitor.fetch(`${many.base}/billing/statement.pdf?month=2026-10`)
    exported++
    return file.status
  })
  await eventually(() => exported > 0, 'the first statement is there')
  t.is((await one.visitor.fetch(`${one.base}/billing/ledger.csv?month=2026-10`)).status, 200)
  t.true(exported < 10, `after ${exported} of theirs`)
  t.deepEqual(new Set(await Promise.all(statements)), new Set([200]))
})
