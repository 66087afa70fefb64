import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { addToBalance, addToKeyMonth } from './booking.ts'
import { maxAttempts, type RoutedAttempt, type RoutingRecord } from './routing-record.ts'
import { storable } from './storable-json.ts'
import { type LoggedField, loggedColumns, type UsageEvent } from './usage-event.ts'

/** Charges and refunds of jobs, booked in the transaction that changes the job. */

/** The account that a job is charged to. */
type JobAccount = {
  id: string
  organisationId: string
  keyId: string
  /** UTC month of its creation, in which its charge and its refund count. */
  month: string
  capNano: bigint | null
}

/**
 * Books the cost of a job; idempotent. The part above `reservedNano`, the amount reserved for it, becomes a separate `excess`
 * entry.
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

/** Refunds the charge of a job; idempotent. */
async function refundJob(tx: Connection, account: JobAccount, amountNano: bigint, nowMs: number): Promise<void> {
  await book(tx, account, 'refund', `refund:${account.id}`, amountNano, nowMs)
}

/** The settlement of a job: a refund, or a charge of `costNano` against its hold plus `extraNano`, reserved in addition. */
type JobSettlement = { refund: boolean; costNano?: bigint; extraNano?: bigint }
type SettledJob = JobAccount & { environment: 'live' | 'test'; costNano: bigint | null; holdNano: bigint }

/** Settles a job at its end. Returns its total cost. */
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
  // Locks the wallet first, as the ledger worker does, to prevent deadlocks.
  await tx.$executeRaw`SELECT 1 FROM wallets WHERE organisation_id = ${organisationId} FOR UPDATE`
  // Months close by the process' clock, which is compared with those of both stores.
  await tx.$executeRaw`SELECT set_config('headgate.now', ${new Date(nowMs).toISOString()}, true)`
  await tx.$executeRaw`
    WITH booked AS (
      INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, key_id, created_at, month)
      VALUES (${organisationId}, ${kind}::ledger_kind, ${amountNano}, ${cause}, ${keyId}, ${new Date(nowMs)}, ${month})
      ON CONFLICT (cause) DO NOTHING
      RETURNING amount_nano
    ), balance AS (
      INSERT INTO wallets (organisation_id, balance_nano, version, updated_at)
      SELECT ${organisationId}, amount_nano, 1, now() FROM booked
      ${addToBalance}
    )
    INSERT INTO key_spend (key_id, month, spent_nano, excess_nano, cap_nano, requests, version)
    SELECT ${keyId}, ${month}, -amount_nano, ${excessNano}::bigint, ${capNano}::bigint, ${kind === 'charge' ? 1 : 0}, 1 FROM booked
    ${addToKeyMonth}`
}

/** The request log entry of a job: inserted with the job and updated at its end. */
type JobLine = JobAccount & {
  requestId: string
  kind: string
  environment: 'live' | 'test'
  model: string
  createdAt: Date
}
/** Fields of the request log that the job itself determines; its provider call determines the others. */
const jobFields = [
  'requestId',
  'kind',
  'environment',
  'status',
  'errorCode',
  'errorMessage',
  'errorParam',
  'streamed',
  'durationMs',
  'waiver',
] as const
/** The logged fields of a job's provider call, for jobs that make exactly one; what is absent stays as logged. */
export type JobCall = Pick<UsageEvent, 'model' | 'provider'> &
  Partial<Pick<UsageEvent, Exclude<LoggedField, (typeof jobFields)[number]>>>

/** The fields of a usage event that describe the call. */
export function callOfEvent(event: UsageEvent): JobCall {
  const ofJob = new Set<string>(jobFields)
  const fields = (Object.keys(loggedColumns) as LoggedField[]).filter(field => !ofJob.has(field) && field in event)
  return Object.fromEntries(fields.map(field => [field, event[field]])) as JobCall
}

type JobOutcome = {
  provider: string | null
  /** The own provider key that it ran with. */
  providerKeyId?: string | null
  status: number
  errorCode: string | null
  errorMessage: string | null
  costNano: bigint
  nowMs: number
  attempts: number
  call?: JobCall | undefined
}

/**
 * Inserts a job into the request log. `marginPpm`: that in its charges, unless its call says otherwise; null for one with own
 * provider keys, of which `upstreamCostNano` is the price.
 */
export async function logJob(
  tx: Connection,
  job: JobLine,
  costNano: bigint,
  marginPpm: bigint | null,
  upstreamCostNano: bigint | null = null,
): Promise<void> {
  const { id, organisationId, keyId, requestId, kind, environment, model, createdAt } = job
  const tokens = { promptTokens: 0, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0 }
  await tx.generation.create({
    data: {
      id,
      createdAt,
      organisationId,
      keyId,
      requestId,
      kind,
      environment,
      model,
      costNano,
      ...tokens,
      status: 202,
      streamed: false,
      attempts: 0,
      estimated: false,
      durationMs: 0,
      marginPpm: marginPpm === null ? null : Number(marginPpm),
      upstreamCostNano,
    },
  })
}

/**
 * Appends calls for a job to its request log entry, before its end; successful ones only after failed ones. At most
 * `maxAttempts` are kept.
 */
export async function logJobAttempts(
  db: Connection,
  { id, createdAt }: LoggedJob,
  attempts: readonly RoutedAttempt[],
): Promise<void> {
  const logged = Prisma.sql`coalesce(routing->'attempts', '[]')`
  const added = JSON.stringify(attempts, storable)
  const hasFailed = attempts.some(({ fault }) => fault !== null)
  await db.$executeRaw`
    UPDATE generations
    SET routing = jsonb_set(coalesce(routing, '{}'), '{attempts}',
      jsonb_path_query_array(${logged} || ${added}::jsonb, ${`$[0 to ${maxAttempts - 1}]`}::jsonpath))
    WHERE id = ${id} AND created_at = ${createdAt} AND jsonb_array_length(${logged}) < ${maxAttempts}
      AND (${hasFailed} OR routing IS NOT NULL)`
}

type LoggedJob = Pick<JobLine, 'id' | 'createdAt'>

/** The calls for a job that its request log entry has. */
export async function readJobAttempts(db: Connection, { id, createdAt }: LoggedJob): Promise<RoutedAttempt[]> {
  const row = await db.generation.findUnique({
    where: { id_createdAt: { id, createdAt } },
    select: { routing: true },
  })
  return ((row?.routing ?? {}) as RoutingRecord).attempts?.slice() ?? []
}

/** Updates a job's request log entry at its end. The calls of its last run are added to those of earlier ones. */
export async function logJobEnd(tx: Connection, { id, createdAt }: JobLine, end: JobOutcome): Promise<void> {
  const { provider, providerKeyId, status, errorCode, errorMessage, costNano, nowMs, attempts, call: last } = end
  const call = last?.routing ? await withEarlierAttempts(tx, { id, createdAt }, last) : last
  // The clocks of two machines may differ.
  const durationMs = Math.min(Math.max(nowMs - createdAt.getTime(), 0), maxInt)
  await tx.generation.updateMany({
    where: { id, createdAt },
    data: {
      provider,
      status,
      errorCode,
      errorMessage,
      costNano,
      attempts,
      durationMs,
      ...(providerKeyId != null && { providerKeyId }),
      ...(call && storableCall(call)),
    },
  })
}

/** The last calls matter most: they are kept, and as many of the earlier ones as there is room for. */
async function withEarlierAttempts(tx: Connection, job: LoggedJob, call: JobCall): Promise<JobCall> {
  const attempts = call.routing?.attempts ?? []
  const earlier = (await readJobAttempts(tx, job)).slice(0, Math.max(0, maxAttempts - attempts.length))
  if (earlier.length === 0) return call
  return { ...call, routing: { ...call.routing, attempts: [...earlier, ...attempts] } }
}

const maxInt = 2 ** 31 - 1

/** Clamps figures and texts from a provider to the limits of the columns. */
function storableCall({ routing, ...figures }: JobCall): JobCall {
  const clamp = (name: string, value: unknown) =>
    typeof value === 'number' && !name.endsWith('Nano') ? Math.min(value, maxInt) : storable(name, value)
  const row: JobCall = JSON.parse(JSON.stringify(figures, clamp))
  return routing ? { ...row, routing: JSON.parse(JSON.stringify(routing, storable)) } : row
}
