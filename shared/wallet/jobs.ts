import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { storable } from './ledger.ts'
import { mostAttempts, type RoutedAttempt } from './routing-record.ts'
import type { UsageEvent } from './usage-event.ts'

/** The money of slow work: charged and refunded in the transaction that changes the job. */

/** Whom a job's money belongs to. */
export type JobAccount = {
  id: string
  organisationId: string
  keyId: string
  /** UTC month whose spend it counts in: that of its creation, for its refund, too. */
  month: string
  capNano: bigint | null
}

/**
 * Books what a job costs, once whatever happens. What exceeds `reservedNano`, which was reserved for it, is an entry of its
 * own kind.
 */
export async function chargeJob(
  tx: Connection,
  account: JobAccount,
  amountNano: bigint,
  reservedNano: bigint,
  nowMs: number,
): Promise<void> {
  const coveredNano = amountNano < reservedNano ? amountNano : reservedNano
  await book(tx, account, 'charge', `generation:${account.id}`, -coveredNano, nowMs)
  await book(tx, account, 'excess', `excess:${account.id}`, coveredNano - amountNano, nowMs)
}

/** Gives back what was charged for a job, once whatever happens. */
async function refundJob(tx: Connection, account: JobAccount, amountNano: bigint, nowMs: number): Promise<void> {
  await book(tx, account, 'refund', `refund:${account.id}`, amountNano, nowMs)
}

/** How a job ends, for its money: refunded, or charged `costNano` on its hold and what was reserved beside it. */
type JobSettlement = { refund: boolean; costNano?: bigint; extraNano?: bigint }
type SettledJob = JobAccount & { environment: 'live' | 'test'; costNano: bigint | null; holdNano: bigint }

/** Books what the end of a job means for its money; gives what it costs in all. */
export async function settleJob(
  tx: Connection,
  job: SettledJob,
  { refund, costNano, extraNano = 0n }: JobSettlement,
  nowMs: number,
): Promise<bigint> {
  if (job.environment === 'test') return 0n
  if (refund) {
    await refundJob(tx, job, job.costNano ?? 0n, nowMs)
    return 0n
  }
  if (costNano === undefined) return job.costNano ?? 0n
  await chargeJob(tx, job, costNano, job.holdNano + extraNano, nowMs)
  return costNano
}

async function book(
  tx: Connection,
  { organisationId, keyId, month, capNano }: JobAccount,
  kind: 'charge' | 'refund' | 'excess',
  cause: string,
  amountNano: bigint,
  nowMs: number,
): Promise<void> {
  if (amountNano === 0n) return
  const excessNano = kind === 'excess' ? -amountNano : 0n
  // The order of the ledger worker: first the wallet, so that two transactions never wait for each other in a circle.
  await tx.$executeRaw`SELECT 1 FROM wallets WHERE organisation_id = ${organisationId} FOR UPDATE`
  await tx.$executeRaw`
    WITH booked AS (
      INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, key_id, created_at)
      VALUES (${organisationId}, ${kind}::ledger_kind, ${amountNano}, ${cause}, ${keyId}, ${new Date(nowMs)})
      ON CONFLICT (cause) DO NOTHING
      RETURNING amount_nano
    ), balance AS (
      INSERT INTO wallets (organisation_id, balance_nano, version, updated_at)
      SELECT ${organisationId}, amount_nano, 1, now() FROM booked
      ON CONFLICT (organisation_id) DO UPDATE
      SET balance_nano = wallets.balance_nano + excluded.balance_nano, version = wallets.version + 1, updated_at = now()
    )
    INSERT INTO key_spend (key_id, month, spent_nano, excess_nano, cap_nano, requests, version)
    SELECT ${keyId}, ${month}, -amount_nano, ${excessNano}::bigint, ${capNano}::bigint, ${kind === 'charge' ? 1 : 0}, 1 FROM booked
    ON CONFLICT (key_id, month) DO UPDATE SET
      spent_nano = key_spend.spent_nano + excluded.spent_nano,
      excess_nano = key_spend.excess_nano + excluded.excess_nano,
      cap_nano = CASE WHEN key_spend.cap_nano IS NULL OR excluded.cap_nano IS NULL THEN NULL
                      ELSE greatest(key_spend.cap_nano, excluded.cap_nano) END,
      requests = key_spend.requests + excluded.requests,
      version = key_spend.version + 1`
}

/** The request log's line of a job: written with it and brought up to date by its end. */
export type JobLine = JobAccount & {
  requestId: string
  kind: string
  environment: 'live' | 'test'
  model: string
  createdAt: Date
}
/** What the log tells of the call that a job came to, where it was one. */
export type JobCall = Pick<
  UsageEvent,
  | 'model'
  | 'provider'
  | 'mode'
  | 'upstreamId'
  | 'finishReason'
  | 'attempts'
  | 'promptTokens'
  | 'completionTokens'
  | 'cachedTokens'
  | 'reasoningTokens'
  | 'estimated'
  | 'firstByteMs'
  | 'routing'
>
export type JobOutcome = {
  provider: string | null
  status: number
  errorCode: string | null
  costNano: bigint
  nowMs: number
  attempts: number
  call?: JobCall | undefined
}

/** Logs a job as a request of its key. */
export async function logJob(tx: Connection, job: JobLine, costNano: bigint): Promise<void> {
  const { id, organisationId, keyId, requestId, kind, environment, model, createdAt } = job
  const tokens = { promptTokens: 0, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0 }
  await tx.generation.create({
    data: {
      ...{ id, createdAt, organisationId, keyId, requestId, kind, environment, model, costNano, ...tokens },
      ...{ status: 202, streamed: false, attempts: 0, estimated: false, durationMs: 0 },
    },
  })
}

/** Adds a provider's answer to the start of a job to its line in the request log, a good one only after bad ones. */
export async function logJobAttempt(
  db: Connection,
  { id, createdAt }: Pick<JobLine, 'id' | 'createdAt'>,
  attempt: RoutedAttempt,
): Promise<void> {
  const attempts = Prisma.sql`coalesce(routing->'attempts', '[]')`
  await db.$executeRaw`
    UPDATE generations
    SET routing = jsonb_set(coalesce(routing, '{}'), '{attempts}', ${attempts} || ${JSON.stringify([attempt])}::jsonb)
    WHERE id = ${id} AND created_at = ${createdAt} AND jsonb_array_length(${attempts}) < ${mostAttempts}
      AND (${attempt.fault !== null} OR routing IS NOT NULL)`
}

/** Writes how a job ended into the request log. */
export async function logJobEnd(tx: Connection, { id, createdAt }: JobLine, end: JobOutcome): Promise<void> {
  const { provider, status, errorCode, costNano, nowMs, attempts, call } = end
  // The clocks of two machines may differ.
  const durationMs = Math.min(Math.max(nowMs - createdAt.getTime(), 0), mostInt)
  await tx.generation.updateMany({
    where: { id, createdAt },
    data: { provider, status, errorCode, costNano, attempts, durationMs, ...(call && storableCall(call)) },
  })
}

const mostInt = 2 ** 31 - 1

/** Whatever a provider says, as a row can hold it. */
function storableCall({ routing, ...figures }: JobCall): JobCall {
  const fit = (name: string, value: unknown) =>
    typeof value === 'number' ? Math.min(value, mostInt) : storable(name, value)
  const row: JobCall = JSON.parse(JSON.stringify(figures, fit))
  return routing ? { ...row, routing: JSON.parse(JSON.stringify(routing, storable)) } : row
}
