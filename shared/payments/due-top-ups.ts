import { nanoFromCents } from '../base/money.ts'
import { monthOf } from '../base/time.ts'
import { Prisma, type TopUpStatus } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { heldDeposits } from '../wallet/wallets.ts'

/** Organisations at a time; the next round follows within seconds. */
const perRound = 50
const inFlight = ['open', 'processing'] as const
/** The states that count towards a month: a charge in flight may still succeed, and a refund does not undo a charge. */
const counted = [...inFlight, 'paid', 'refunded'] as const
const nanoPerCent = Prisma.sql`${nanoFromCents(1)}::bigint`

/** Whether a row `t` is an automatic top-up with one of these statuses: literals, by which the partial index is found. */
function isAutomatic(statuses: readonly TopUpStatus[]): Prisma.Sql {
  return Prisma.raw(`t.automatic AND t.status IN (${statuses.map(status => `'${status}'`).join(', ')})`)
}

/** What automatic top-ups of the current UTC month add up to, those in flight included. */
export async function monthSpendNano(db: Connection, organisationId: string, nowMs: number): Promise<bigint> {
  const createdAt = { gte: monthStart(nowMs) }
  const where = { organisationId, automatic: true, status: { in: [...counted] }, createdAt }
  const { _sum: sum } = await db.topUp.aggregate({ where, _sum: { amountNano: true } })
  return sum.amountNano ?? 0n
}

/**
 * Organisations, or one, whose card is to be charged now: the balance is below the threshold, none is in flight, the last failure
 * is long enough ago, and the amount fits into the month.
 */
export function listDue(db: Connection, nowMs: number, organisationId: string | null = null): Promise<Low[]> {
  const now = new Date(nowMs)
  return listLow(
    db,
    nowMs,
    Prisma.sql`l.next_attempt_at <= ${now} AND l.spent + l.amount <= l.bound
      AND (${organisationId}::text IS NULL OR l.organisation_id = ${organisationId})
      AND NOT EXISTS (
        SELECT 1 FROM top_ups t
        WHERE t.organisation_id = l.organisation_id AND ${isAutomatic(inFlight)})`,
  )
}

/** Organisations whose balance is below their threshold, but whose month has no room for the amount, unless they were told. */
export function listLimited(db: Connection, nowMs: number): Promise<Low[]> {
  return listLow(
    db,
    nowMs,
    Prisma.sql`l.spent + l.amount > l.bound
      AND NOT EXISTS (SELECT 1 FROM alerts x WHERE x.cause = ${limitCausePrefix} || l.organisation_id || ':' || ${monthOf(nowMs)} || ':' || l.bound)`,
  )
}

const limitCausePrefix = 'auto_top_up_limit:'

/** The cause of the alert about a month's limit: one, and another when the limit was changed. */
export function limitCause({ organisationId, bound }: Low, nowMs: number): string {
  return `${limitCausePrefix}${organisationId}:${monthOf(nowMs)}:${bound}`
}

/** Nano-dollars. */
export type Low = { organisationId: string; balance: bigint; spent: bigint; bound: bigint }

/** Organisations that charge a card when their balance, without held deposits, is below a threshold, while it is. */
function listLow(db: Connection, nowMs: number, condition: Prisma.Sql): Promise<Low[]> {
  return db.$queryRaw<Low[]>`
    SELECT l.organisation_id AS "organisationId", l.balance, l.spent, l.bound FROM (
      SELECT a.organisation_id, a.updated_at, a.next_attempt_at,
        a.threshold_cents * ${nanoPerCent} AS threshold, a.amount_cents * ${nanoPerCent} AS amount,
        a.monthly_limit_cents * ${nanoPerCent} AS bound,
        coalesce(w.balance_nano, 0) - (
          SELECT coalesce(sum(amount), 0)::bigint FROM (${heldDeposits(new Date(nowMs))}) held) AS balance,
        (SELECT coalesce(sum(t.amount_nano), 0)::bigint FROM top_ups t
          WHERE t.organisation_id = o.id AND ${isAutomatic(counted)} AND t.created_at >= ${monthStart(nowMs)}) AS spent
      FROM auto_top_ups a JOIN organisations o ON o.id = a.organisation_id LEFT JOIN wallets w ON w.organisation_id = o.id
      WHERE a.enabled AND a.payment_method_id IS NOT NULL AND a.customer_id IS NOT NULL AND o.suspended_at IS NULL) l
    WHERE l.balance < l.threshold AND ${condition}
    ORDER BY l.updated_at, l.organisation_id LIMIT ${perRound}`
}

function monthStart(nowMs: number): Date {
  return new Date(`${monthOf(nowMs)}-01`)
}
