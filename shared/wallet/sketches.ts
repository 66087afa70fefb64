import { type Clocks, dayMs, elapsedMs, hourMs } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import { slowKinds } from './durations.ts'

/** The sketches of hours and days: summed up from the request log once they are over, and again after a late booking. */

/** The delay after the end of an hour or day before it is summed up: few bookings are later. */
const graceMs = 5 * 60_000
/** A run begins with no more work after this time: other housekeeping waits for it. */
const maxRunMs = 10_000
const maxPerRead = 100

type Sums = { table: Prisma.Sql; start: Prisma.Sql; startOf: (at: Date) => Prisma.Sql; lengthMs: number }
const hours: Sums = {
  table: Prisma.sql`usage_hours`,
  start: Prisma.sql`hour`,
  startOf: at => Prisma.sql`${at}::timestamptz`,
  lengthMs: hourMs,
}
const days: Sums = {
  table: Prisma.sql`usage_day_details`,
  start: Prisma.sql`day`,
  startOf: at => Prisma.sql`(${at}::timestamptz AT TIME ZONE 'UTC')::date`,
  lengthMs: dayMs,
}

type Open = { organisationId: string; start: Date }

/** Longer times are mostly read by day (`shared/wallet/usage-source.ts`), so that their hours can wait. */
const hourlyDays = 14

/** Sums up the durations of hours and days that are over, the latest first; the rest is for the next run. */
export async function sumDurations({ db, clock, monotonic }: Clocks & { db: Database }): Promise<void> {
  const startedMs = monotonic.now()
  const nowMs = clock.now()
  const passes = [
    { sums: hours, fromMs: nowMs - hourlyDays * dayMs },
    { sums: days, fromMs: 0 },
    { sums: hours, fromMs: 0 },
  ]
  for (const { sums, fromMs } of passes) {
    const time = { from: new Date(fromMs), before: new Date(nowMs - graceMs - sums.lengthMs) }
    for (let open = await listOpen(db, sums, time); open.length > 0; open = await listOpen(db, sums, time))
      for (const one of open) {
        if (elapsedMs(startedMs, monotonic.now()) > maxRunMs) return
        await sumUp(db, sums, one)
      }
  }
}

function listOpen(
  db: Database,
  { table, start, startOf }: Sums,
  { from, before }: { from: Date; before: Date },
): Promise<Open[]> {
  return db.$queryRaw<Open[]>`
    SELECT DISTINCT organisation_id AS "organisationId", ${start} AS start FROM ${table}
    WHERE latency_sketch IS NULL AND outcome = 'ok' AND ${start} >= ${startOf(from)} AND ${start} <= ${startOf(before)}
    ORDER BY 2 DESC LIMIT ${maxPerRead}`
}

type Locked = { keyId: string; model: string; provider: string; kind: string; environment: string }

/**
 * Rows are locked before the log is read: a booking that is not in it yet waits for them, and then clears the sketches again. Without
 * requests in the log a sketch is empty.
 */
async function sumUp(db: Database, { table, start, startOf, lengthMs }: Sums, open: Open): Promise<void> {
  const [from, to] = [open.start, new Date(open.start.getTime() + lengthMs)]
  const isOfHour = Prisma.sql`
    u.organisation_id = ${open.organisationId} AND u.${start} = ${startOf(from)} AND u.outcome = 'ok'`
  const isOfTime = Prisma.sql`
    organisation_id = ${open.organisationId} AND created_at >= ${from} AND created_at < ${to} AND status < 400`
  const sketches = Prisma.sql`
    sketch_of(array_agg(duration_ms)) AS latency, sketch_of(array_agg(first_byte_ms) FILTER (WHERE streamed)) AS first_token`
  await db.$transaction(async tx => {
    // Of two tasks the later one has the later sum.
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${`sketches ${open.organisationId}`}, 0))`
    const locked = await tx.$queryRaw<Locked[]>`
      SELECT key_id AS "keyId", model, provider, kind, environment::text FROM ${table} u
      WHERE ${isOfHour} AND u.latency_sketch IS NULL ORDER BY key_id, model, provider, kind, environment FOR UPDATE`
    if (locked.length === 0) return
    // PostgreSQL may expect few rows, for lack of statistics of the hour, and would then compare each with all others.
    await tx.$executeRaw`SET LOCAL enable_nestloop = off`
    const valuesOf = (name: keyof Locked) => Prisma.sql`${locked.map(row => row[name])}::text[]`
    const names = ['keyId', 'model', 'provider', 'kind', 'environment'] as const
    await tx.$executeRaw`
      UPDATE ${table} u SET latency_sketch = coalesce(g.latency, '{}'), first_token_sketch = coalesce(g.first_token, '{}')
      FROM unnest(${Prisma.join(names.map(valuesOf))}) l(key_id, model, provider, kind, environment) LEFT JOIN (
        SELECT key_id, model, coalesce(provider, '') AS provider, kind, environment::text, ${sketches}
        FROM generations WHERE ${isOfTime} GROUP BY 1, 2, 3, 4, 5
      ) g USING (key_id, model, provider, kind, environment)
      WHERE ${isOfHour}
        AND (u.key_id, u.model, u.provider, u.kind, u.environment::text) = (l.key_id, l.model, l.provider, l.kind, l.environment)`
    // An environment may have no requests left.
    await tx.durationSketch.deleteMany({
      where: { organisationId: open.organisationId, hours: lengthMs / hourMs, startsAt: from },
    })
    await tx.$executeRaw`
      INSERT INTO duration_sketches (organisation_id, hours, starts_at, environment, latency_sketch, first_token_sketch)
      SELECT organisation_id, ${lengthMs / hourMs}::int, ${from}, environment, ${sketches}
      FROM generations WHERE ${isOfTime} AND kind <> ALL(${slowKinds}) GROUP BY organisation_id, environment`
  })
}
