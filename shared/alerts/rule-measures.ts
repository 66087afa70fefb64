import { dayMs } from '../base/time.ts'
import { type AlertRule, Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { bucketCount } from '../wallet/usage-hours.ts'
import { slowKinds } from '../wallet/usage-query.ts'
import { type Group, type Kind, kindOf, type RuleKind, type Window } from './rule-kinds.ts'

/** What a rule is about: a key or an endpoint, or '' for requests. `reference` is how links and events name it. */
export type Subject = { subject: string; reference: string | null; name: string | null }
export type Breach = Subject & { value: number }
/** What was measured, if the rule has one figure, since when, and where the condition holds. */
export type Measure = { value: number | null; from: Date | null; breaches: Breach[] }

/** A short window is measured on at most so many of its latest requests. */
const maxRequests = 200_000
const maxGroups = 20_000
/** A rule fires about at most so many keys or endpoints. */
const maxSubjects = 100
const maxDeliveries = 50_000
const hourMs = 3_600_000
const minuteMs = 60_000
const shortMs: Partial<Record<Window, number>> = { '5m': 5 * minuteMs, '15m': 15 * minuteMs, '1h': hourMs }

/** Measures rules of one organisation: one bounded query for each window, for keys, and for endpoints. */
export async function measureRules(
  db: Connection,
  organisationId: string,
  rules: readonly AlertRule[],
  nowMs: number,
): Promise<Map<string, Measure>> {
  const measures = new Map<string, Measure>()
  const { requests = [], keys = [], endpoints = [] } = groupBySubject(rules)
  for (const [window, same] of Map.groupBy(requests, ({ rule }) => rule.window as Window)) {
    const from = startOf(window, nowMs)
    const groups = await readGroups(db, organisationId, window, from, nowMs)
    for (const { rule, kind } of same) measures.set(rule.id, measureRequests(rule, kind, groups, from))
  }
  if (keys.length > 0) {
    const rows = await readKeys(db, organisationId)
    for (const { rule, kind } of keys) measures.set(rule.id, measureKeys(rule, kind, rows, nowMs))
  }
  if (endpoints.length > 0) {
    const rows = await readEndpoints(db, organisationId, nowMs)
    for (const { rule, kind } of endpoints) measures.set(rule.id, measureEndpoints(rule, kind, rows, nowMs))
  }
  return measures
}

type KindOf<Subject extends Kind['of']> = Extract<Kind, { of: Subject }>
type RulesBySubject = { [Subject in Kind['of']]?: { rule: AlertRule; kind: KindOf<Subject> }[] }

function groupBySubject(rules: readonly AlertRule[]): RulesBySubject {
  const pairs = rules.map(rule => ({ rule, kind: kindOf(rule.kind as RuleKind) }))
  return Object.groupBy(pairs, ({ kind }) => kind.of) as RulesBySubject
}

/** The start of what a window measures. Days, weeks (from Monday) and months are UTC; 24 hours begin with a whole hour. */
function startOf(window: Window, nowMs: number): Date {
  const short = shortMs[window]
  if (short !== undefined) return new Date(nowMs - short)
  if (window === '24h') return new Date(Math.floor((nowMs - dayMs) / hourMs) * hourMs)
  const now = new Date(nowMs)
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()]
  if (window === 'month') return new Date(Date.UTC(year, month, 1))
  const sinceMonday = (now.getUTCDay() + 6) % 7
  return new Date(Date.UTC(year, month, window === 'week' ? day - sinceMonday : day))
}

/** Reads figures from the request log for a short window, from the sums by hour for 24 hours, from those by day for spend. */
function readGroups(
  db: Connection,
  organisationId: string,
  window: Window,
  from: Date,
  nowMs: number,
): Promise<Group[]> {
  const scope = Prisma.sql`organisation_id = ${organisationId}`
  if (window in shortMs) return readLog(db, scope, from, new Date(nowMs))
  if (window === '24h') return readHours(db, scope, from)
  return db.$queryRaw<Group[]>`
    SELECT key_id AS "keyId", model, environment::text, 0::bigint AS requests, 0::bigint AS errors,
      sum(cost_nano)::bigint AS cost, '{}'::bigint[] AS latency, '{}'::bigint[] AS "firstByte"
    FROM usage_days WHERE ${scope} AND day >= ${from} GROUP BY 1, 2, 3 ORDER BY cost DESC LIMIT ${maxGroups}`
}

function readLog(db: Connection, scope: Prisma.Sql, from: Date, to: Date): Promise<Group[]> {
  const counts = (column: string) => {
    const sums = buckets(i => `sum(calls) FILTER (WHERE ${column} = ${i})`)
    return Prisma.sql`ARRAY[${sums}]::bigint[]`
  }
  const isTimed = Prisma.sql`status < 400 AND kind <> ALL(${slowKinds})`
  return db.$queryRaw<Group[]>`
    SELECT key_id AS "keyId", model, environment::text, sum(calls)::bigint AS requests,
      coalesce(sum(calls) FILTER (WHERE outcome_of(status) NOT IN ('ok', 'cancelled')), 0)::bigint AS errors,
      sum(cost_nano)::bigint AS cost, ${counts('latency')} AS latency, ${counts('first_byte')} AS "firstByte"
    FROM (
      SELECT key_id, model, environment, calls, status, cost_nano,
        CASE WHEN ${isTimed} THEN duration_bucket(duration_ms) END AS latency,
        CASE WHEN ${isTimed} THEN duration_bucket(first_byte_ms) END AS first_byte
      FROM generations WHERE ${scope} AND created_at >= ${from} AND created_at < ${to}
      ORDER BY created_at DESC LIMIT ${maxRequests}
    ) latest
    GROUP BY 1, 2, 3 ORDER BY requests DESC LIMIT ${maxGroups}`
}

function readHours(db: Connection, scope: Prisma.Sql, from: Date): Promise<Group[]> {
  const counts = (column: string) => {
    const sums = buckets(i => `sum(${column}[${i}]) FILTER (WHERE timed)`)
    return Prisma.sql`ARRAY[${sums}]::bigint[]`
  }
  return db.$queryRaw<Group[]>`
    SELECT key_id AS "keyId", model, environment::text, sum(requests)::bigint AS requests,
      coalesce(sum(requests) FILTER (WHERE outcome NOT IN ('ok', 'cancelled')), 0)::bigint AS errors,
      sum(cost_nano)::bigint AS cost, ${counts('latency')} AS latency, ${counts('first_byte')} AS "firstByte"
    FROM (SELECT *, kind <> ALL(${slowKinds}) AS timed FROM usage_hours WHERE ${scope} AND hour >= ${from}) hours
    GROUP BY 1, 2, 3 ORDER BY requests DESC LIMIT ${maxGroups}`
}

function buckets(sumOf: (bucket: number) => string): Prisma.Sql {
  return Prisma.raw(Array.from({ length: bucketCount }, (_, i) => sumOf(i + 1)).join(', '))
}

function measureRequests(
  rule: AlertRule,
  { figureOf, minimum }: KindOf<'requests'>,
  groups: readonly Group[],
  from: Date,
): Measure {
  const { keyId, model, environment, threshold } = rule
  const own = groups.filter(
    group =>
      group.environment === environment &&
      (keyId === null || group.keyId === keyId) &&
      (model === null || group.model === model),
  )
  const { value: figure, counted } = figureOf(own)
  const value = minimum !== null && counted < rule.minRequests ? null : figure
  const holds = value !== null && value >= threshold
  return { value, from, breaches: holds ? [{ subject: '', reference: null, name: null, value }] : [] }
}

type Key = Awaited<ReturnType<typeof readKeys>>[number]
const maxKeys = 5_000

/** The keys that can be used, those that expire or were not used first. */
function readKeys(db: Connection, organisationId: string) {
  return db.apiKey.findMany({
    where: { organisationId, revokedAt: null, disabled: false },
    select: { id: true, hash: true, name: true, environment: true, expiresAt: true, lastUsedAt: true, createdAt: true },
    orderBy: [{ expiresAt: { sort: 'asc', nulls: 'last' } }, { lastUsedAt: { sort: 'asc', nulls: 'first' } }],
    take: maxKeys,
  })
}

function measureKeys(rule: AlertRule, kind: KindOf<'keys'>, keys: readonly Key[], nowMs: number): Measure {
  const own = keys.filter(
    ({ id, environment, expiresAt }) =>
      environment === rule.environment &&
      (rule.keyId === null || rule.keyId === id) &&
      (expiresAt === null || expiresAt.getTime() > nowMs),
  )
  const breaches = own.flatMap((key): Breach[] => {
    const { id, hash, name } = key
    const days = kind.daysOf(key, nowMs)
    const holds = days !== null && kind.holds(days, rule.threshold)
    return holds ? [{ subject: id, reference: hash, name, value: days }] : []
  })
  return { value: null, from: null, breaches: breaches.slice(0, maxSubjects) }
}

type Endpoint = { id: string; url: string; delivered: bigint; failed: bigint }

/** The enabled endpoints, with the deliveries of the last 24 hours that were tried. */
function readEndpoints(db: Connection, organisationId: string, nowMs: number): Promise<Endpoint[]> {
  return db.$queryRaw<Endpoint[]>`
    SELECT e.id, e.url, count(*) FILTER (WHERE d.status = 'delivered') AS delivered,
      count(*) FILTER (WHERE d.status <> 'delivered') AS failed
    FROM webhook_endpoints e JOIN (
      SELECT endpoint_id, status FROM webhook_deliveries
      WHERE organisation_id = ${organisationId} AND created_at >= ${new Date(nowMs - dayMs)} AND attempts > 0
      ORDER BY created_at DESC LIMIT ${maxDeliveries}
    ) d ON d.endpoint_id = e.id
    WHERE e.organisation_id = ${organisationId} AND e.enabled GROUP BY e.id`
}

function measureEndpoints(
  { threshold, minRequests }: AlertRule,
  { holds }: KindOf<'endpoints'>,
  endpoints: readonly Endpoint[],
  nowMs: number,
): Measure {
  const breaches = endpoints.flatMap(({ id, url, ...counts }): Breach[] => {
    const [delivered, failed] = [Number(counts.delivered), Number(counts.failed)]
    const value = (100 * delivered) / (delivered + failed)
    return delivered + failed >= minRequests && holds(value, threshold)
      ? [{ subject: id, reference: id, name: url, value }]
      : []
  })
  return { value: null, from: new Date(nowMs - dayMs), breaches: breaches.slice(0, maxSubjects) }
}
