import { Prisma } from '../generated/prisma/client.ts'

/**
 * Percentiles of durations: of successful requests, without queued work and sessions, and of the time to the first token of those
 * that were streamed. They are read from buckets of at most 2 % (migration `duration_sketches`), each with its count and sum: a
 * percentile is the mean of its bucket, so it lies between the shortest and the longest duration.
 */
export const durationMeasures = ['latency', 'first_token'] as const
export type DurationMeasure = (typeof durationMeasures)[number]

/** The kinds whose duration is that of queued work or of a session. */
const slowKinds = ['video', 'lipsync', 'face_swap', 'avatar', 'mesh', 'async', 'realtime', 'batch']

/** SQL: the columns of the request log that `bucketsIn` reads. */
export const timesOfLog = Prisma.sql`
  CASE WHEN status < 400 THEN duration_ms END AS latency_ms, CASE WHEN status < 400 AND streamed THEN first_byte_ms END AS first_token_ms`

/** SQL: the sketches of one row of the request log. */
export const sketchesOfLog = Prisma.sql`
  CASE WHEN status < 400 THEN ARRAY[bucket_ms(duration_ms), 1, duration_ms]::bigint[] ELSE '{}' END AS latency_sketch,
  CASE WHEN status < 400 AND streamed AND first_byte_ms IS NOT NULL THEN ARRAY[bucket_ms(first_byte_ms), 1, first_byte_ms]::bigint[]
    ELSE '{}' END AS first_token_sketch`

/** The time to the first token of a logged request; null if it was not streamed. */
export function firstTokenMs({
  streamed,
  firstByteMs,
}: {
  streamed: boolean
  firstByteMs: number | null
}): number | null {
  return streamed ? firstByteMs : null
}

/**
 * SQL: the buckets of the durations in `table`, which has `columns`, `kind` and, as the sums by hour and day, the sketches; as
 * the log, `timesOfLog`.
 */
export function bucketsIn(table: Prisma.Sql, columns: Prisma.Sql, source: 'hours' | 'log'): Prisma.Sql {
  const isQuick = Prisma.sql`u.kind <> ALL(${slowKinds})`
  return source === 'log'
    ? Prisma.sql`
      SELECT ${columns}, m.measure, bucket_ms(m.ms)::bigint AS bucket_ms, 1::bigint AS calls, m.ms::bigint AS total_ms
      FROM ${table} u, LATERAL (VALUES ('latency', u.latency_ms), ('first_token', u.first_token_ms)) m(measure, ms)
      WHERE m.ms IS NOT NULL AND ${isQuick}`
    : Prisma.sql`
      SELECT ${columns}, m.measure, b.bucket_ms, b.calls, b.total_ms
      FROM ${table} u, LATERAL (VALUES ('latency', u.latency_sketch), ('first_token', u.first_token_sketch)) m(measure, sketch),
        buckets_of(m.sketch) b
      WHERE ${isQuick}`
}

/**
 * SQL: the number of durations (`counted`) and their percentiles (`p50`, `p95`) by `columns` and measure. `sets`: how `select`
 * sums up the buckets, if not by `columns` alone.
 */
export function percentilesOf(
  buckets: Prisma.Sql,
  columns: Prisma.Sql,
  { select = columns, sets = columns }: { select?: Prisma.Sql; sets?: Prisma.Sql } = {},
): Prisma.Sql {
  const percentile = (percent: number) =>
    Prisma.sql`round(min(mean_ms) FILTER (WHERE 100 * upto >= ${percent}::int * counted))`
  return Prisma.sql`
    SELECT ${columns}, measure, max(counted) AS counted, ${percentile(50)} AS p50, ${percentile(95)} AS p95
    FROM (
      SELECT *, total_ms / calls AS mean_ms, sum(calls) OVER (PARTITION BY ${columns}, measure ORDER BY bucket_ms) AS upto,
        sum(calls) OVER (PARTITION BY ${columns}, measure) AS counted
      FROM (
        SELECT ${select}, measure, bucket_ms, sum(calls)::float8 AS calls, sum(total_ms)::float8 AS total_ms
        FROM (${buckets}) buckets GROUP BY measure, bucket_ms, ${sets} HAVING sum(calls) > 0
      ) summed
    ) ranked
    GROUP BY ${columns}, measure`
}
