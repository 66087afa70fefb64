import { Prisma } from '../generated/prisma/client.ts'

/**
 * Percentiles of durations: of successful requests, without queued work and sessions, and of the time to the first token of those
 * that were streamed. They are read from buckets of at most 2 % (migration `duration_sketches`), each with its count and sum: a
 * percentile is the mean of its bucket, so it lies between the shortest and the longest duration.
 */
export const durationMeasures = ['latency', 'first_token'] as const
export type DurationMeasure = (typeof durationMeasures)[number]

/** The kinds whose duration is that of queued work or of a session. */
export const slowKinds = ['video', 'lipsync', 'face_swap', 'avatar', 'mesh', 'async', 'realtime', 'batch']

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

/** `all`: hours and days in which nothing but the environment is filtered or grouped by, which have sketches of their own. */
export type BucketSource = 'log' | 'hours' | 'all'

/** The columns that buckets are summed by, and SQL: a table with them added. */
export type Grouped = { columns: Prisma.Sql; withColumns(table: Prisma.Sql): Prisma.Sql }

/**
 * SQL: the buckets of the durations in `table`, which has the columns. As the log it has `timesOfLog`; as the sums of hours and days their
 * sketches, and where these are not summed up the log is read.
 */
export function bucketsIn(table: Prisma.Sql, by: Grouped, source: BucketSource): Prisma.Sql {
  switch (source) {
    case 'log':
      return Prisma.sql`
        SELECT ${by.columns}, ${bucketOfTime} FROM ${table} u, ${timesOf('u')} WHERE m.ms IS NOT NULL AND ${isQuick}`
    case 'hours':
      return bucketsInHours(table, by)
    case 'all':
      return bucketsOfAll(table, by.columns)
  }
}

const isQuick = Prisma.sql`u.kind <> ALL(${slowKinds})`
const bucketOfTime = Prisma.sql`m.measure, bucket_ms(m.ms)::bigint AS bucket_ms, 1::bigint AS calls, m.ms::bigint AS total_ms`
const timesOf = (of: string) =>
  Prisma.raw(`LATERAL (VALUES ('latency', ${of}.latency_ms), ('first_token', ${of}.first_token_ms)) m(measure, ms)`)
const bucketOfSketch = Prisma.sql`m.measure, b.bucket_ms, b.calls, b.total_ms`
const bucketsOf = (of: string) =>
  Prisma.raw(
    `LATERAL (VALUES ('latency', ${of}.latency_sketch), ('first_token', ${of}.first_token_sketch)) m(measure, sketch), buckets_of(m.sketch) b`,
  )
/** SQL: successful requests of the log in an hour or day `open`. */
const logOfOpen = Prisma.sql`
  LATERAL (
    SELECT key_id, model, coalesce(provider, '') AS provider, kind, environment, ${timesOfLog} FROM generations
    WHERE organisation_id = open.organisation_id AND created_at >= open.hour AND created_at < open.hour + open.hours * interval '1 hour'
      AND status < 400 OFFSET 0
  ) u`
/** SQL: which sum of successful requests one is part of. */
const sumOfRequest = Prisma.sql`u.organisation_id, u.hour, u.hours, u.key_id, u.model, u.provider, u.kind, u.environment`

/**
 * Whether a request's sum is open is a column, which PostgreSQL looks up in a hash table. For a join it could decide to compare every
 * request with every sum: it often expects far too few, as it has no statistics of an organisation in a certain time.
 */
function bucketsInHours(table: Prisma.Sql, { columns, withColumns }: Grouped): Prisma.Sql {
  const isOpen = Prisma.sql`u.latency_sketch IS NULL AND u.outcome = 'ok' AND ${isQuick}`
  const logged = Prisma.sql`(
    SELECT open.*, 'ok' AS outcome, u.* FROM (SELECT DISTINCT u.organisation_id, u.hour, u.hours FROM ${table} u WHERE ${isOpen}) open, ${logOfOpen})`
  return Prisma.sql`
    SELECT ${columns}, ${bucketOfSketch} FROM ${table} u, ${bucketsOf('u')} WHERE ${isQuick}
    UNION ALL
    SELECT ${columns}, ${bucketOfTime}
    FROM (
      SELECT u.*, (${sumOfRequest}) IN (SELECT ${sumOfRequest} FROM ${table} u WHERE ${isOpen}) AS is_open
      FROM (${withColumns(logged)}) u OFFSET 0
    ) logged, ${timesOf('logged')}
    WHERE is_open AND m.ms IS NOT NULL`
}

function bucketsOfAll(table: Prisma.Sql, columns: Prisma.Sql): Prisma.Sql {
  const hours = Prisma.sql`
    SELECT ${columns}, organisation_id, hour, hours, environment, bool_or(latency_sketch IS NULL) AS is_open
    FROM ${table} u WHERE u.outcome = 'ok' AND u.hours > 0 AND ${isQuick} GROUP BY ${columns}, organisation_id, hour, hours, environment`
  return Prisma.sql`
    SELECT ${columns}, ${bucketOfSketch} FROM ${table} u, ${bucketsOf('u')} WHERE u.hours = 0 AND ${isQuick}
    UNION ALL
    SELECT ${columns}, ${bucketOfSketch}
    FROM (${hours}) used JOIN duration_sketches s
      ON (s.organisation_id, s.hours, s.starts_at, s.environment) = (used.organisation_id, used.hours, used.hour, used.environment), ${bucketsOf('s')}
    WHERE NOT is_open
    UNION ALL
    SELECT ${columns}, ${bucketOfTime} FROM (SELECT * FROM (${hours}) used WHERE is_open) open, ${logOfOpen}, ${timesOf('u')}
    WHERE m.ms IS NOT NULL AND u.environment = open.environment AND ${isQuick}`
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
