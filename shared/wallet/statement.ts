import type { Nano } from '../base/money.ts'
import { dayMs, nextMonthStart, utcDateOf } from '../base/time.ts'
import { type LedgerEntry, type LedgerKind, Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { DepositMethod } from './wallets.ts'

/** `days` sums charges by UTC day and key; `entries` lists every charge. */
export type Detail = 'days' | 'entries'

/** A line of a statement. `cursor` is its position for pagination; `cause` is null for a sum. */
export type StatementLine = {
  cursor: string
  /** The id of the entry; null for a sum. */
  entryId: string | null
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
  /** The balance after it; null in a list of one kind, and where none was asked for. */
  balanceNano: Nano | null
  /** Who created the key. */
  memberId: string | null
}

/** UTC days such as "2026-11-01", both included. */
export type Period = { from: string; to: string }

export type StatementPage = Period & {
  organisationId: string
  detail: Detail
  kind?: LedgerKind | undefined
  order: 'asc' | 'desc'
  limit: number
  after?: string | undefined
  /** The balance of a line sums the ledger from its beginning: who reads all lines of a period adds them up instead. */
  balances: boolean
}

const cursorShape = /^(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)_(\w{1,60})$/

const orders = {
  asc: { beyond: Prisma.sql`>`, direction: Prisma.sql`ASC` },
  desc: { beyond: Prisma.sql`<`, direction: Prisma.sql`DESC` },
}

/** Whether a text is a valid cursor of a statement line. */
export function isCursor(text: string, detail: Detail): boolean {
  const [, at, ref] = cursorShape.exec(text) ?? []
  return at !== undefined && !Number.isNaN(Date.parse(at)) && (detail === 'days' || /^\d{1,18}$/.test(ref!))
}

/**
 * Lists a page of an organisation's ledger, in one query, so that its balances belong to one instant. The sum of a day is dated at the
 * start of the day; late charges are summed apart.
 */
export async function listStatementLines(db: Connection, page: StatementPage): Promise<StatementLine[]> {
  const { kind, order, limit } = page
  const [, afterAt, afterRef] = cursorShape.exec(page.after ?? '') ?? []
  const { from, to } = page.detail === 'days' ? await daysOfPage(db, page, afterAt?.slice(0, 10)) : page
  const { gte, lt } = spanOf({ from, to })
  const ofKind = kind ? Prisma.sql`AND kind = ${kind}::ledger_kind` : Prisma.empty
  const own = Prisma.sql`organisation_id = ${page.organisationId} AND created_at >= ${gte} AND created_at < ${lt} ${ofKind}`
  const balanceFrom = (opening: Prisma.Sql) =>
    page.balances && !kind
      ? Prisma.sql`sum(amount_nano) OVER (ORDER BY at, ref) + (${opening})`
      : Prisma.sql`NULL::numeric`
  const days = Prisma.sql`organisation_id = ${page.organisationId} AND day >= ${from}::date AND day <= ${to}::date ${ofKind}`
  const { beyond, direction } = orders[order]
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
  const before = (day: Prisma.Sql) => Prisma.sql`
    SELECT coalesce(sum(amount_nano), 0) FROM ledger_days WHERE organisation_id = ${page.organisationId} AND day < ${day}`
  // Before a page of entries are the whole days before its first one, and the earlier entries of that day.
  const beforePage = Prisma.sql`
    SELECT (${before(Prisma.sql`(f.at AT TIME ZONE 'UTC')::date`)}) + (
      SELECT coalesce(sum(e.amount_nano), 0) FROM ledger_entries e
      WHERE e.organisation_id = ${page.organisationId} AND e.created_at >= date_trunc('day', f.at, 'UTC')
        AND (e.created_at, e.id) < (f.at, f.ref::bigint)
    ) AS nano FROM page f ORDER BY f.at, f.ref LIMIT 1`
  const lines =
    page.detail === 'entries'
      ? Prisma.sql`
        WITH page AS MATERIALIZED (
          ${entries} ${afterAt ? Prisma.sql`AND (created_at, id) ${beyond} (${new Date(afterAt)}, ${BigInt(afterRef!)})` : Prisma.empty}
          ORDER BY created_at ${direction}, id ${direction} LIMIT ${limit}
        )
        SELECT page.*, ${balanceFrom(beforePage)} AS balance_nano
        FROM page`
      : Prisma.sql`
        SELECT * FROM (
          SELECT c.*, ${balanceFrom(before(Prisma.sql`${from}::date`))} AS balance_nano
          FROM (
            ${entries} AND kind <> 'charge'
            UNION ALL
            SELECT day::timestamp AT TIME ZONE 'UTC', concat_ws('_', coalesce(nullif(key_id, ''), 'none'), replace(late_from, '-', '_')),
              'charge', sum(amount_nano)::bigint, sum(entries)::int, NULL, nullif(key_id, ''), NULL, NULL, NULL, late_from
            FROM (${chargedDays}) c GROUP BY day, key_id, late_from HAVING sum(entries) > 0
          ) c
        ) d ${afterAt ? Prisma.sql`WHERE (at, ref) ${beyond} (${new Date(afterAt)}, ${afterRef})` : Prisma.empty}
        ORDER BY at ${direction}, ref ${direction} LIMIT ${limit}`
  const rows = await db.$queryRaw<(Omit<StatementLine, 'cursor' | 'entryId'> & { ref: string })[]>`
    SELECT l.at, l.ref, l.kind::text, l.amount_nano AS "amountNano", l.entries, l.cause, l.key_id AS "keyId", k.name AS "keyName",
      l.method, l.available_at AS "availableAt", l.note, l.late_from AS "lateFrom", l.balance_nano::bigint AS "balanceNano",
      k.created_by_id AS "memberId"
    FROM (${lines}) l LEFT JOIN api_keys k ON k.id = l.key_id
    ORDER BY l.at ${direction}, l.ref ${direction}`
  return rows.map(({ ref, ...line }) => ({
    cursor: `${line.at.toISOString()}_${ref}`,
    entryId: line.cause === null ? null : String(BigInt(ref)),
    ...line,
  }))
}

/**
 * The days of a period that a page of day sums can be on: those from its cursor's day on, or from the period's first one, that have at
 * least `limit` sums beside that day's. A sum of the ledger is at least one line.
 */
async function daysOfPage(
  db: Connection,
  { organisationId, from, to, kind, order, limit }: StatementPage,
  afterDay?: string,
): Promise<Period> {
  const ascends = order === 'asc'
  const { beyond, direction } = orders[order]
  const start = ascends ? from : to
  // A cursor may be that of a line outside the period.
  const first = afterDay && afterDay >= from && afterDay <= to ? afterDay : start
  const ofKind = kind ? Prisma.sql`AND kind = ${kind}::ledger_kind` : Prisma.empty
  const [last] = await db.$queryRaw<{ text: string }[]>`
    SELECT day::text AS text FROM ledger_days
    WHERE organisation_id = ${organisationId} AND day >= ${from}::date AND day <= ${to}::date AND day ${beyond} ${first}::date ${ofKind}
    ORDER BY day ${direction} OFFSET ${limit - 1} LIMIT 1`
  return ascends ? { from: first, to: last?.text ?? to } : { from: last?.text ?? from, to: first }
}

function spanOf({ from, to }: Period): { gte: Date; lt: Date } {
  const gte = new Date(`${from}T00:00:00Z`)
  return { gte, lt: new Date(Date.parse(`${to}T00:00:00Z`) + dayMs) }
}

/** The days of a month such as "2026-11". */
export function daysOfMonth(month: string): Period {
  const next = nextMonthStart(Date.parse(`${month}-01T00:00:00Z`))
  return { from: `${month}-01`, to: utcDateOf(Date.parse(next) - dayMs) }
}

/** A subtotal of a statement. `id` is null for the rest, and for what belongs to no key or member. */
export type Subtotal = { id: string | null; name: string | null; isRest: boolean; amountNano: Nano; entries: number }

/** Opening balance + the kinds = closing balance. `late` is a part of the kinds. */
export type StatementTotals = Record<LedgerKind, Nano> & {
  opening: Nano
  closing: Nano
  late: Nano
  /** When the last month of the period closes: nothing is added to it afterwards. */
  closesAt: Date
  closed: boolean
  days: Subtotal[]
  /** What the charges of each key sum up to, the largest first; refunds and excess included. */
  keys: Subtotal[]
  /** The same by who created the key. */
  members: Subtotal[]
}

/** The balances before and after a period, of one instant. */
export async function getStatementBalances(
  db: Connection,
  { organisationId, from, to }: Period & { organisationId: string },
): Promise<{ opening: Nano; closing: Nano }> {
  const [found] = await db.$queryRaw<[{ opening: Nano; closing: Nano }]>`
    SELECT coalesce(sum(amount_nano) FILTER (WHERE day < ${from}::date), 0)::bigint AS opening,
      coalesce(sum(amount_nano), 0)::bigint AS closing
    FROM ledger_days WHERE organisation_id = ${organisationId} AND day <= ${to}::date`
  return found
}

/** Sums a period by UTC day and kind: at most five lines a day, which are lines of a statement in the least detail. */
export async function listStatementDays(
  db: Connection,
  organisationId: string,
  { from, to }: Period,
): Promise<StatementLine[]> {
  const rows = await db.$queryRaw<Pick<StatementLine, 'at' | 'kind' | 'amountNano' | 'entries'>[]>`
    SELECT day::timestamp AT TIME ZONE 'UTC' AS at, kind::text, sum(amount_nano)::bigint AS "amountNano",
      sum(entries)::float8 AS entries
    FROM ledger_days WHERE organisation_id = ${organisationId} AND day >= ${from}::date AND day <= ${to}::date
    GROUP BY day, kind HAVING sum(entries) > 0 ORDER BY day, kind`
  const none = { entryId: null, cause: null, keyId: null, keyName: null, method: null, availableAt: null, note: null }
  const sum = { ...none, lateFrom: null, balanceNano: null, memberId: null }
  return rows.map(row => ({ ...sum, ...row, cursor: `${row.at.toISOString()}_${row.kind}` }))
}

const maxSubtotals = 50

/** Sums a period of the ledger; all amounts are those of one instant. */
export async function getStatementTotals(
  db: Connection,
  organisationId: string,
  period: Period,
): Promise<StatementTotals> {
  // Whether it is closed is read first: the sums of a closed month are final.
  const month = period.to.slice(0, 7)
  const [close] = await db.$queryRaw<[Pick<StatementTotals, 'closesAt' | 'closed'>]>`
    SELECT ledger_closes_at(${month}) AS "closesAt", ledger_closes_at(${month}) <= ledger_now() AS closed`
  const { gte, lt } = spanOf(period)
  const ranked = (set: string, id: Prisma.Sql) => Prisma.sql`
    SELECT ${set}, CASE WHEN rank <= ${maxSubtotals} THEN id END, rank > ${maxSubtotals}, sum(nano), sum(entries), min(rank) FROM (
      SELECT ${id} AS id, sum(amount_nano) AS nano, sum(d.entries) AS entries,
        row_number() OVER (ORDER BY sum(amount_nano), ${id}) AS rank
      FROM own d LEFT JOIN api_keys k ON k.id = d.key_id WHERE kind IN ('charge', 'excess', 'refund') GROUP BY 1
    ) r GROUP BY 2, 3`
  type Row = { set: string; id: string | null; isRest: boolean; amountNano: Nano; entries: number; name: string | null }
  const rows = await db.$queryRaw<Row[]>`
    WITH own AS MATERIALIZED (
      SELECT day, kind, key_id, amount_nano, entries FROM ledger_days
      WHERE organisation_id = ${organisationId} AND day >= ${period.from}::date AND day <= ${period.to}::date
    ), sums(set, id, is_rest, nano, entries, place) AS (
      SELECT 'opening', NULL, false, coalesce(sum(amount_nano), 0), 0, 0 FROM ledger_days
      WHERE organisation_id = ${organisationId} AND day < ${period.from}::date
      UNION ALL
      SELECT 'late', NULL, false, coalesce(sum(amount_nano), 0), 0, 0 FROM ledger_entries
      WHERE organisation_id = ${organisationId} AND created_at >= ${gte} AND created_at < ${lt} AND late_from IS NOT NULL
      UNION ALL
      SELECT 'kind', kind::text, false, sum(amount_nano), sum(entries), 0 FROM own GROUP BY kind
      UNION ALL
      SELECT 'day', day::text, false, sum(amount_nano), sum(entries), 0 FROM own GROUP BY day
      UNION ALL ${ranked('key', Prisma.sql`d.key_id`)}
      UNION ALL ${ranked('member', Prisma.sql`coalesce(k.created_by_id, '')`)}
    )
    SELECT s.set, nullif(s.id, '') AS id, s.is_rest AS "isRest", s.nano::bigint AS "amountNano", s.entries::float8 AS entries,
      CASE s.set WHEN 'key' THEN k.name WHEN 'member' THEN u.email END AS name
    FROM sums s LEFT JOIN api_keys k ON s.set = 'key' AND k.id = s.id LEFT JOIN users u ON s.set = 'member' AND u.id = s.id
    ORDER BY s.set, s.place, s.id`
  const of = (set: string) => rows.filter(row => row.set === set).map(({ set: _, ...subtotal }) => subtotal)
  const kind = (name: LedgerKind) => of('kind').find(({ id }) => id === name)?.amountNano ?? 0n
  const opening = of('opening')[0]!.amountNano
  return {
    ...close,
    opening,
    closing: of('kind').reduce((sum, { amountNano }) => sum + amountNano, opening),
    late: of('late')[0]!.amountNano,
    deposit: kind('deposit'),
    charge: kind('charge'),
    excess: kind('excess'),
    refund: kind('refund'),
    adjustment: kind('adjustment'),
    days: of('day'),
    keys: of('key'),
    members: of('member'),
  }
}

/** A deposit, a reversal of one, or an adjustment. */
type CreditEntry = Pick<LedgerEntry, 'id' | 'kind' | 'amountNano' | 'method' | 'note' | 'availableAt' | 'createdAt'>

/** Lists the latest credits of an organisation, newest first; by SQL of which PostgreSQL can tell that it needs no charges. */
export function listCredits(db: Connection, organisationId: string, limit: number): Promise<CreditEntry[]> {
  return db.$queryRaw<CreditEntry[]>`
    SELECT id, kind, amount_nano AS "amountNano", method, note, available_at AS "availableAt", created_at AS "createdAt"
    FROM ledger_entries WHERE organisation_id = ${organisationId} AND kind IN ('deposit', 'adjustment')
    ORDER BY created_at DESC, id DESC LIMIT ${limit}`
}
