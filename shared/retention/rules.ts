import type { RetentionPeriods } from '../base/retention-config.ts'
import { dayMs } from '../base/time.ts'
import { endedBatches } from '../batches/batches.ts'
import { counterRetentionMs } from '../feedback/counters.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { deleteExpired, measureExpired, type Removable } from '../io/expired-rows.ts'
import type { JobServices } from '../jobs/job-services.ts'
import { endedJobs, forgetJobs, unforgottenJobs } from '../jobs/retention.ts'
import { factorMemoryMs } from '../providers/reservation-factors.ts'
import type { ResponseServices } from '../responses/response-services.ts'
import { expiredConversations } from '../responses/stored-conversations.ts'
import { expiredResponses } from '../responses/stored-responses.ts'
import { maintainPartitions, measureOldMonths, monthStart } from '../wallet/partitions.ts'

/** What is removed from one table, and when. */
type Rule = {
  table: string
  /** What is removed, as the operator reads it. */
  what: string
  /** What `prune` would remove now. */
  measure(services: JobServices & ResponseServices): Promise<Removable>
  /** Removes it in bounded steps. Safe to repeat and to run concurrently; a later call continues where one stopped. */
  prune(services: JobServices & ResponseServices): Promise<unknown>
}

/** Retention of expired invitations. */
const invitationRetentionMs = 90 * dayMs
/** Within this time a repeated request with an `Idempotency-Key` gets the stored answer. */
const idempotencyRetentionMs = dayMs
/** Retention of ended replays of log exports. */
const replayRetentionMs = 30 * dayMs
const maxMonthMs = 31 * dayMs

/**
 * The request log, whose months are dropped whole, and then its sums by hour and by day in detail: the ledger check compares those of
 * each month that the log still has. The task `partitions` removes them.
 */
export const requestLogRules: readonly Rule[] = [
  {
    table: 'generations',
    what: 'months of the request log',
    measure: ({ db, clock, config }) => measureOldMonths(db, clock.now(), config.generationRetentionMonths),
    prune: ({ db, clock, config }) => maintainPartitions(db, clock.now(), config.generationRetentionMonths),
  },
  rows('usage_hours', 'usage by hour', ({ nowMs, periods }) =>
    olderThan('hour', monthStart(nowMs, -periods.generationRetentionMonths)),
  ),
  rows('duration_sketches', 'durations by hour and day', ({ nowMs, periods }) =>
    olderThan('starts_at', monthStart(nowMs, -periods.generationRetentionMonths)),
  ),
  rows('usage_peaks', 'largest requests by hour', ({ nowMs, periods }) =>
    olderThan('hour', monthStart(nowMs, -periods.generationRetentionMonths)),
  ),
  rows('usage_day_details', 'usage by day in detail', ({ nowMs, periods }) =>
    olderThan('day', monthStart(nowMs, -periods.generationRetentionMonths)),
  ),
]

/**
 * Everything else that has a maximum age, which the task `expire` removes (docs/retention.md). What refers to others goes
 * before them: deliveries and responses before jobs and batches.
 */
export const hourlyRules: readonly Rule[] = [
  rows('usage_days', 'usage by day', ({ nowMs, periods }) =>
    olderThan('day', monthStart(nowMs, -periods.usageRetentionMonths)),
  ),
  rows('feedback', 'feedback', ({ nowMs, periods }) =>
    olderThan('created_at', new Date(nowMs - periods.generationRetentionMonths * maxMonthMs)),
  ),
  rows('incidents', 'closed incidents', ({ nowMs, periods }) =>
    olderThan('closed_at', new Date(nowMs - periods.generationRetentionMonths * maxMonthMs)),
  ),
  rows('incident_groups', 'closed incidents as operators see them', ({ nowMs, periods }) =>
    olderThan('closed_at', new Date(nowMs - periods.generationRetentionMonths * maxMonthMs)),
  ),
  rows('incident_messages', 'messages to operators', ({ nowMs, periods }) =>
    olderThan('created_at', new Date(nowMs - periods.generationRetentionMonths * maxMonthMs)),
  ),
  rows('quality_counters', 'counters not updated recently', ({ nowMs }) =>
    olderThan('updated_at', new Date(nowMs - counterRetentionMs)),
  ),
  rows('idempotency_keys', 'stored answers of idempotency keys', ({ nowMs }) =>
    olderThan('created_at', new Date(nowMs - idempotencyRetentionMs)),
  ),
  {
    table: 'stored_responses',
    what: 'stored responses',
    measure: ({ db, clock }) => measureExpired(db, 'stored_responses', expiredResponses(clock.now())),
    prune: ({ storedResponses, clock }) => storedResponses.expire(clock.now()),
  },
  {
    table: 'conversations',
    what: 'conversations with their items',
    measure: ({ db, clock }) => measureExpired(db, 'conversations', expiredConversations(clock.now())),
    prune: ({ conversations, clock }) => conversations.expire(clock.now()),
  },
  // Their files expire by themselves.
  rows('request_contents', 'logged inputs and outputs', ({ nowMs }) => olderThan('expires_at', new Date(nowMs))),
  {
    table: 'files',
    what: 'files with their bytes in storage',
    measure: ({ files, clock }) => files.measureExpired(clock.now()),
    prune: ({ files, clock }) => files.expire(clock.now()),
  },
  // `next_attempt_at` of an ended delivery is the time of its end.
  rows('webhook_deliveries', 'webhook deliveries with their attempts', ({ nowMs, periods }) => {
    const before = new Date(nowMs - periods.webhookRetentionDays * dayMs)
    return Prisma.sql`status IN ('delivered', 'failed') AND next_attempt_at < ${before}`
  }),
  rows('log_export_cursors', 'ended replays of log exports', ({ nowMs }) =>
    olderThan('ended_at', new Date(nowMs - replayRetentionMs)),
  ),
  {
    table: 'jobs',
    what: 'inputs and results of jobs',
    measure: ({ db, ...services }) => measureExpired(db, 'jobs', unforgottenJobs(resultsBefore(services))),
    prune: ({ db, ...services }) => forgetJobs(db, resultsBefore(services), services.clock.now()),
  },
  rows('jobs', 'jobs', ({ nowMs, periods }) => endedJobs(new Date(nowMs - periods.jobRetentionDays * dayMs))),
  rows('batches', 'batches', ({ nowMs, periods }) => endedBatches(new Date(nowMs - periods.jobRetentionDays * dayMs))),
  rows('audit_events', 'audit log', ({ nowMs, periods }) =>
    olderThan('created_at', monthStart(nowMs, -periods.auditRetentionMonths)),
  ),
  // Old also by the clock that wrote it, which the ledger check reads as well.
  rows('excesses', 'handled costs above reservations', ({ nowMs }) => {
    const isOld = olderThan('booked_at', new Date(nowMs - 7 * dayMs))
    return Prisma.sql`booked_at < now() - interval '7 days' AND ${isOld} AND handled_at IS NOT NULL`
  }),
  rows('reservation_factors', 'forgotten factors of reservations', ({ nowMs }) =>
    olderThan('last_at', new Date(nowMs - factorMemoryMs)),
  ),
  rows('alerts', 'alerts', ({ nowMs, periods }) =>
    olderThan('created_at', monthStart(nowMs, -periods.auditRetentionMonths)),
  ),
  // The accounts library leaves most of these.
  rows('sessions', 'expired sessions', ({ nowMs }) => olderThan('expires_at', new Date(nowMs))),
  rows('verifications', 'expired links', ({ nowMs }) => olderThan('expires_at', new Date(nowMs))),
  rows('invitations', 'expired invitations', ({ nowMs }) =>
    olderThan('expires_at', new Date(nowMs - invitationRetentionMs)),
  ),
]

type Now = { nowMs: number; periods: RetentionPeriods }

/** The rule of a table whose old rows are deleted without further effects. */
function rows(table: string, what: string, expired: (now: Now) => Prisma.Sql): Rule {
  const expiredNow = ({ clock, config }: JobServices & ResponseServices) =>
    expired({ nowMs: clock.now(), periods: config })
  return {
    table,
    what,
    measure: services => measureExpired(services.db, table, expiredNow(services)),
    prune: services => deleteExpired(services.db, table, expiredNow(services)),
  }
}

function olderThan(column: string, before: Date): Prisma.Sql {
  return Prisma.sql`${Prisma.raw(column)} < ${before}`
}

function resultsBefore({ clock, config }: Pick<JobServices & ResponseServices, 'clock' | 'config'>): Date {
  return new Date(clock.now() - config.resultRetentionDays * dayMs)
}

/**
 * Removes what every rule says, one after another. A rule that fails, because storage is away for example, does not keep
 * the others from running; the first error is thrown at the end.
 */
export async function pruneAll(services: JobServices & ResponseServices, rules: readonly Rule[]): Promise<void> {
  const errors: unknown[] = []
  for (const rule of rules) {
    const { isBounded, skewMs } = services.clockSkew
    if (!isBounded) throw new Error(`The clock of this machine is ${skewMs} ms off: nothing is deleted by it.`)
    await rule.prune(services).catch(error => errors.push(error))
  }
  if (errors.length > 0) throw errors[0]
}
