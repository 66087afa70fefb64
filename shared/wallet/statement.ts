import type { Nano } from '../base/money.ts'
import { nextMonthStart } from '../base/time.ts'
import { type LedgerEntry, type LedgerKind, Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { DepositMethod } from './accounts.ts'

/** `days` sums charges by UTC day and key; `entries` lists every charge. */
export type Detail = 'days' | 'entries'

/** A line of a statement. `cursor` is its position for pagination; `cause` is null for a sum. */
export type StatementLine = {
  cursor: string
  at: Date
  kind: LedgerKind
  amountNano: Nano
  entries: number
  cause: string | null
  keyId: string | null
  keyName: string | null
  method: DepositMethod | null
  availableAt: Date | null
  note: string | null
  /** The closed month that it was booked too late for: "2026-10"; else null. */
  lateFrom: string | null
}

export type StatementPage = {
  organisationId: string
  /** "2026-11", in UTC. */
  month: string
  detail: Detail
  kind?: LedgerKind | undefined
  order: 'asc' | 'desc'
  limit: number
  after?: string | undefined
}

const cursorShape = /^(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_(\w{1,60})$/

/** Whether a text is a valid cursor of a statement line. */
export function isCursor(text: string, detail: Detail): boolean {
  const [, at, ref] = cursorShape.exec(text) ?? []
  return at !== undefined && !Number.isNaN(Date.parse(at)) && (detail === 'days' || /^\d{1,18}$/.test(ref!))
}

/**
 * Lists a page of an organisation's ledger for one month. The sum of a day is dated at the start of the day; late charges are
 * summed apart.
 */
export async function listStatementLines(db: Connection, page: StatementPage): Promise<StatementLine[]> {
  const { kind, order, limit } = page
  const [, afterAt, afterRef] = cursorShape.exec(page.after ?? '') ?? []
  const { gte, lt } = spanOf(page.month)
  const ofKind = kind ? Prisma.sql`AND kind = ${kind}::ledger_kind` : Prisma.empty
  const own = Prisma.sql`organisation_id = ${page.organisationId} AND created_at >= ${gte} AND created_at < ${lt} ${ofKind}`
  const days = Prisma.sql`organisation_id = ${page.organisationId} AND day >= ${dayOf(gte)}::date AND day < ${dayOf(lt)}::date ${ofKind}`
  const beyond = order === 'asc' ? Prisma.sql`>` : Prisma.sql`<`
  const direction = order === 'asc' ? Prisma.sql`ASC` : Prisma.sql`DESC`
  const entries = Prisma.sql`
    SELECT created_at AS at, lpad(id::text, 18, '0') AS ref, kind, amount_nano, 1 AS entries, cause, key_id, method,
      available_at, note, late_from
    FROM ledger_entries WHERE ${own}`
  // The sums of a day include its late charges: these are taken out of them.
  const chargedDays = Prisma.sql`
    SELECT day, key_id, NULL AS late_from, amount_nano, entries FROM ledger_days WHERE ${days} AND kind = 'charge'
    UNION ALL
    SELECT (created_at AT TIME ZONE 'UTC')::date, coalesce(key_id, ''), taken.late_from, sign * amount_nano, sign
    FROM ledger_entries l, LATERAL (VALUES (l.late_from, 1), (NULL, -1)) AS taken(late_from, sign)
    WHERE ${own} AND kind = 'charge' AND l.late_from IS NOT NULL`
  const lines =
    page.detail === 'entries'
      ? Prisma.sql`${entries}
          ${afterAt ? Prisma.sql`AND (created_at, id) ${beyond} (${new Date(afterAt)}, ${BigInt(afterRef!)})` : Prisma.empty}
        ORDER BY created_at ${direction}, id ${direction} LIMIT ${limit}`
      : Prisma.sql`
        SELECT * FROM (
          ${entries} AND kind <> 'charge'
          UNION ALL
          SELECT day::timestamp AT TIME ZONE 'UTC', concat_ws('_', coalesce(nullif(key_id, ''), 'none'), replace(late_from, '-', '_')),
            'charge', sum(amount_nano)::bigint, sum(entries)::int, NULL, nullif(key_id, ''), NULL, NULL, NULL, late_from
          FROM (${chargedDays}) c GROUP BY day, key_id, late_from HAVING sum(entries) > 0
        ) d ${afterAt ? Prisma.sql`WHERE (at, ref) ${beyond} (${new Date(afterAt)}, ${afterRef})` : Prisma.empty}
        ORDER BY at ${direction}, ref ${direction} LIMIT ${limit}`
  const rows = await db.$queryRaw<(Omit<StatementLine, 'cursor'> & { ref: string })[]>`
    SELECT l.at, l.ref, l.kind::text, l.amount_nano AS "amountNano", l.entries, l.cause, l.key_id AS "keyId", k.name AS "keyName",
      l.method, l.available_at AS "availableAt", l.note, l.late_from AS "lateFrom"
    FROM (${lines}) l LEFT JOIN api_keys k ON k.id = l.key_id
    ORDER BY l.at ${direction}, l.ref ${direction}`
  return rows.map(({ ref, ...line }) => ({ cursor: `${line.at.toISOString()}_${ref}`, ...line }))
}

function spanOf(month: string): { gte: Date; lt: Date } {
  const gte = new Date(`${month}-01T00:00:00Z`)
  return { gte, lt: new Date(nextMonthStart(gte.getTime())) }
}

function dayOf(time: Date): string {
  return time.toISOString().slice(0, 10)
}

/** A month of the ledger: the sums of its kinds, and what of them is late. Nothing is added to a closed month. */
type MonthTotals = Record<LedgerKind, Nano> & { late: Nano; closesAt: Date; closed: boolean }

/** Sums a month of the ledger by kind. */
export async function getMonthTotals(db: Connection, organisationId: string, month: string): Promise<MonthTotals> {
  const span = spanOf(month)
  // Whether it is closed is read first: the sums of a closed month are final.
  const [close] = await db.$queryRaw<[Pick<MonthTotals, 'closesAt' | 'closed'>]>`
    SELECT ledger_closes_at(${month}) AS "closesAt", ledger_closes_at(${month}) <= ledger_now() AS closed`
  const where = { organisationId, day: span }
  const sums = await db.ledgerDay.groupBy({ by: ['kind'], where, _sum: { amountNano: true } })
  const late = { organisationId, createdAt: span, lateFrom: { not: null } }
  const { _sum: lateSum } = await db.ledgerEntry.aggregate({ where: late, _sum: { amountNano: true } })
  const total = (kind: LedgerKind) => sums.find(sum => sum.kind === kind)?._sum.amountNano ?? 0n
  return {
    ...close,
    late: lateSum.amountNano ?? 0n,
    deposit: total('deposit'),
    charge: total('charge'),
    excess: total('excess'),
    refund: total('refund'),
    adjustment: total('adjustment'),
  }
}

/** A deposit, a reversal of one, or an adjustment. */
export type CreditEntry = Pick<
  LedgerEntry,
  'id' | 'kind' | 'amountNano' | 'method' | 'note' | 'availableAt' | 'createdAt'
>

/** Lists the latest credits of an organisation, newest first; by SQL of which PostgreSQL can tell that it needs no charges. */
export function listCredits(db: Connection, organisationId: string, limit: number): Promise<CreditEntry[]> {
  return db.$queryRaw<CreditEntry[]>`
    SELECT id, kind, amount_nano AS "amountNano", method, note, available_at AS "availableAt", created_at AS "createdAt"
    FROM ledger_entries WHERE organisation_id = ${organisationId} AND kind IN ('deposit', 'adjustment')
    ORDER BY created_at DESC, id DESC LIMIT ${limit}`
}
