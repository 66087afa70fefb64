import { type Clocks, dayMs, elapsedMs } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import { slowKinds } from './durations.ts'

/** The sketches of hours and days: summed up from the request log once they are over, and again after a late booking. */

const hourMs = 3_600_000
/** So long after its end an hour or day is summed up: few bookings are later. */
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

/** Sums up the durations of hours and days that are over, the latest first; the rest is for the next run. */
export async function sumDurations({ db, clock, monotonic }: Clocks & { db: Database }): Promise<void> {
  const startedMs = monotonic.now()
  for (const sums of [hours, days]) {
    const before = new Date(clock.now() - graceMs - sums.lengthMs)
    for (let open = await listOpen(db, sums, before); open.length > 0; open = await listOpen(db, sums, before))
      for (const one of open) {
        if (elapsedMs(startedMs, monotonic.now()) > maxRunMs) return
        await sumUp(db, sums, one)
      }
  }
}

function listOpen(db: Database, { table, start, startOf }: Sums, before: Date): Promise<Open[]> {
  return db.$queryRaw<Open[]>`
    SELECT DISTINCT organisation_id AS "organisationId", ${start} AS start FROM ${table}
    WHERE latency_sketch IS NULL AND outcome = 'ok' AND ${start} <= ${startOf(before)} ORDER BY 2 DESC LIMIT ${maxPerRead}`
}

/**
 * The rows are locked before the log is read: a booking that is not in it yet waits for them, and then clears the sketches again. Without
 * rows in the log a sketch is empty.
 */
async function sumUp(db: Database, { table, start, startOf, lengthMs }: Sums, open: Open): Promise<void> {
  const [from, to] = [open.start, new Date(open.start.getTime() + lengthMs)]
  const isOpen = Prisma.sql`
    u.organisation_id = ${open.organisationId} AND u.${start} = ${startOf(from)} AND u.outcome = 'ok' AND u.latency_sketch IS NULL`
  const isOfTime = Prisma.sql`
    organisation_id = ${open.organisationId} AND created_at >= ${from} AND created_at < ${to} AND status < 400`
  const group = Prisma.sql`key_id, model, provider, kind, environment`
  await db.$transaction(async tx => {
    await tx.$queryRaw`SELECT 1 FROM ${table} u WHERE ${isOpen} ORDER BY ${group} FOR UPDATE`
    await tx.$executeRaw`
      UPDATE ${table} u SET latency_sketch = g.latency, first_token_sketch = g.first_token
      FROM (
        SELECT key_id, model, coalesce(provider, '') AS provider, kind, environment, sketch_of(array_agg(duration_ms)) AS latency,
          sketch_of(array_agg(first_byte_ms) FILTER (WHERE streamed)) AS first_token
        FROM generations
        WHERE ${isOfTime} GROUP BY 1, 2, 3, 4, 5
      ) g
      WHERE ${isOpen} AND (u.key_id, u.model, u.provider, u.kind, u.environment) = (g.key_id, g.model, g.provider, g.kind, g.environment)`
    await tx.$executeRaw`UPDATE ${table} u SET latency_sketch = '{}', first_token_sketch = '{}' WHERE ${isOpen}`
    await tx.$executeRaw`
      INSERT INTO duration_sketches (organisation_id, hours, starts_at, environment, latency_sketch, first_token_sketch)
      SELECT organisation_id, ${lengthMs / hourMs}::int, ${from}, environment, sketch_of(array_agg(duration_ms)),
        sketch_of(array_agg(first_byte_ms) FILTER (WHERE streamed))
      FROM generations WHERE ${isOfTime} AND kind <> ALL(${slowKinds}) GROUP BY organisation_id, environment
      ON CONFLICT (organisation_id, hours, starts_at, environment) DO UPDATE SET
        latency_sketch = excluded.latency_sketch, first_token_sketch = excluded.first_token_sketch`
  })
}
