import { newId } from '../../../shared/base/ids.ts'
import type { Connection } from '../../../shared/io/db.ts'
import { listStatementLines, type StatementLine, type StatementPage } from '../../../shared/wallet/statement.ts'
import { observe } from '../../support/chaos.ts'
import { createAccount } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'

/** A statement read page by page is the statement read at once, and its pages together read hardly more rows than it has. */

const startMs = Date.UTC(2027, 0, 1)
const spanDays = 40
const keys = 20
const period = { from: '2027-01-06', to: '2027-02-04' }
const stores = useStores(test)
const services = use(test, () => observe(stores))
let organisationId: string

/** Every key has a charge on each day, and some have more, or late ones; there are deposits and refunds between them. */
test.before(async () => {
  organisationId = (await createAccount(services)).organisationId
  await services.db.$executeRaw`
    INSERT INTO ledger_entries (organisation_id, kind, cause, amount_nano, key_id, created_at, method)
    SELECT ${organisationId}, (CASE WHEN turn = 0 THEN 'charge' WHEN key % 9 = 0 THEN 'deposit' ELSE 'refund' END)::ledger_kind,
      format('%s:%s:%s:%s', ${newId('req')}::text, day, key, turn), CASE turn WHEN 0 THEN -1000 - key ELSE 77 END,
      CASE WHEN turn = 1 AND key % 9 = 0 THEN NULL ELSE format('key_%s', lpad(key::text, 3, '0')) END,
      ${new Date(startMs)}::timestamptz + make_interval(days => day, mins => key * 7 + turn),
      CASE WHEN turn = 1 AND key % 9 = 0 THEN 'grant' END
    FROM generate_series(0, ${spanDays - 1}::int) day, generate_series(1, ${keys}::int) key, generate_series(0, 1) turn
    WHERE turn = 0 OR (day + key) % 7 = 0`
  await services.db.$executeRaw`
    UPDATE ledger_entries SET late_from = '2026-12'
    WHERE organisation_id = ${organisationId} AND kind = 'charge' AND amount_nano % 5 = 0`
})

async function readPages(db: Connection, wanted: StatementPage): Promise<StatementLine[]> {
  const lines: StatementLine[] = []
  for (;;) {
    const page = await listStatementLines(db, { ...wanted, after: lines.at(-1)?.cursor })
    lines.push(...page)
    if (page.length < wanted.limit) return lines
  }
}

for (const detail of ['days', 'entries'] as const)
  for (const order of ['asc', 'desc'] as const)
    for (const kind of [undefined, 'charge', 'refund'] as const)
      test.serial(`pages of any size are the statement: ${detail}, ${order}, ${kind ?? 'all kinds'}`, async t => {
        const wanted = { organisationId, ...period, detail, order, kind, balances: true }
        const all = await listStatementLines(services.db, { ...wanted, limit: 10_000 })
        t.true(all.length > 50)
        for (const limit of [19, 20, 300])
          t.deepEqual(await readPages(services.db, { ...wanted, limit }), all, `${limit} a page`)
        const beside = order === 'asc' ? '2026-12-01' : '2027-12-01'
        const after = `${beside}T00:00:00.000Z_${detail === 'days' ? 'key' : '1'}`
        t.deepEqual(await listStatementLines(services.db, { ...wanted, limit: 10_000, after }), all)
      })

/** How many rows of the ledger this connection has read since PostgreSQL has last summed up what it read. */
async function countReads(tx: Connection): Promise<number> {
  const [row] = await tx.$queryRaw<[{ rows: number }]>`
    SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::float8 AS rows FROM pg_stat_xact_user_tables
    WHERE relname LIKE 'ledger_%'`
  return row.rows
}

for (const detail of ['days', 'entries'] as const)
  test.serial(`all pages together read a few times the rows that there are: ${detail}`, async t => {
    const wanted = {
      organisationId,
      from: '2027-01-01',
      to: '2027-02-28',
      detail,
      order: 'asc',
      balances: false,
    } as const
    const [lines, reads] = await services.db.$transaction(async tx => {
      // As with the ledgers of many organisations: that of this test is so small that PostgreSQL would read all of it.
      await tx.$executeRaw`SET LOCAL enable_seqscan = off`
      const before = await countReads(tx)
      const found = await readPages(tx, { ...wanted, limit: 40 })
      return [found.length, (await countReads(tx)) - before] as const
    })
    t.true(lines > 800)
    t.true(reads < 6 * lines, `${reads} rows for ${lines} lines`)
  })
