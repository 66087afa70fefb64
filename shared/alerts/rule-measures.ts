import { dayMs, hourMs } from '../base/time.ts'
import { type AlertRule, Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { bucketsIn, type Grouped, percentilesOf, timesOfLog } from '../wallet/durations.ts'
import { type Figure, type Group, isPeriod, type Kind, kindOf, type RuleKind, type Window } from './rule-kinds.ts'

/** What a rule is about: a key or an endpoint, or '' for requests. `reference` is how links and events name it. */
export type Subject = { subject: string; reference: string | null; name: string | null }
export type Breach = Subject & { value: number }
/** What was measured, if the rule has one figure, since when, and where the condition holds. */
export type Measure = { value: number | null; from: Date | null; breaches: Breach[] }

/** Maximum requests, the latest ones, that a short window is measured on. */
const maxRequests = 200_000
const maxGroups = 20_000
/** Maximum keys or endpoints that a rule fires about. */
const maxSubjects = 100
const maxDeliveries = 50_000
const minuteMs = 60_000
const shortMs: Partial<Record<Window, number>> = { '5m': 5 * minuteMs, '15m': 15 * minuteMs, '1h': hourMs }

/** Measures rules of one organisation: two bounded queries for each window, one for keys, one for endpoints. */
export async function measureRules(
  db: Connection,
  organisationId: string,
  rules: readonly AlertRule[],
  nowMs: number,
): Promise<Map<string, Measure>> {
  const measures = new Map<string, Measure>()
  const { requests = [], keys = [], endpoints = [] } = groupBySubject(rules)
  for (const [window, same] of Map.groupBy(requests, ({ rule }) => rule.window as Window)) {
    const source = { organisationId, window, from: startOf(window, nowMs), to: new Date(nowMs) }
    const groups = await readGroups(db, source)
    const percentiles = await readPercentiles(db, source, same)
    for (const { rule, kind } of same) {
      const figure = 'figureOf' in kind ? kind.figureOf(groupsOf(rule, groups)) : percentiles.get(rule.id)
      measures.set(rule.id, compare(rule, kind, figure ?? { value: null, counted: 0 }, source.from))
    }
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

type Source = { organisationId: string; window: Window; from: Date; to: Date }

/** SQL: the requests of a window: from the log for a short one, from the sums by hour for 24 hours. */
function tableOf({ organisationId, window, from, to }: Source): Prisma.Sql {
  const scope = Prisma.sql`organisation_id = ${organisationId}`
  return window in shortMs
    ? Prisma.sql`(
      SELECT key_id, model, environment, kind, outcome_of(status) AS outcome, calls::bigint AS requests, cost_nano, ${timesOfLog}
      FROM generations WHERE ${scope} AND created_at >= ${from} AND created_at < ${to}
      ORDER BY created_at DESC LIMIT ${maxRequests})`
    : Prisma.sql`(SELECT *, 1 AS hours FROM usage_hours WHERE ${scope} AND hour >= ${from})`
}

/** Reads figures of requests; for spend, from the sums by day. */
function readGroups(db: Connection, source: Source): Promise<Group[]> {
  const { organisationId, from } = source
  if (isPeriod(source.window))
    return db.$queryRaw<Group[]>`
      SELECT key_id AS "keyId", model, environment::text, 0::bigint AS requests, 0::bigint AS errors, sum(cost_nano)::bigint AS cost
      FROM usage_days WHERE organisation_id = ${organisationId} AND day >= ${from}
      GROUP BY 1, 2, 3 ORDER BY cost DESC LIMIT ${maxGroups}`
  return db.$queryRaw<Group[]>`
    SELECT key_id AS "keyId", model, environment::text, sum(requests)::bigint AS requests,
      coalesce(sum(requests) FILTER (WHERE outcome NOT IN ('ok', 'cancelled')), 0)::bigint AS errors, sum(cost_nano)::bigint AS cost
    FROM ${tableOf(source)} used GROUP BY 1, 2, 3 ORDER BY requests DESC LIMIT ${maxGroups}`
}

/** Reads the percentiles of the rules about durations, by the rule's id. */
async function readPercentiles(
  db: Connection,
  source: Source,
  requests: readonly { rule: AlertRule; kind: KindOf<'requests'> }[],
): Promise<Map<string, Figure>> {
  const wanted = requests.flatMap(({ rule: { id, keyId, model, environment }, kind }) =>
    'percentileOf' in kind ? Prisma.sql`(${id}, ${keyId}, ${model}, ${environment}, ${kind.percentileOf})` : [],
  )
  if (wanted.length === 0) return new Map()
  const columns = Prisma.sql`key_id, model, environment`
  const grouped: Grouped = { columns, withColumns: table => Prisma.sql`SELECT * FROM ${table} u` }
  const buckets = bucketsIn(tableOf(source), grouped, source.window in shortMs ? 'log' : 'hours')
  const ofRules = Prisma.sql`
    SELECT r.id AS rule, r.measure, b.bucket_ms, b.calls, b.total_ms
    FROM (VALUES ${Prisma.join(wanted)}) r(id, key_id, model, environment, measure) JOIN (
      SELECT ${columns}, measure, bucket_ms, sum(calls) AS calls, sum(total_ms) AS total_ms
      FROM (${buckets}) one GROUP BY ${columns}, measure, bucket_ms
    ) b ON b.measure = r.measure AND b.environment::text = r.environment
      AND b.key_id = coalesce(r.key_id, b.key_id) AND b.model = coalesce(r.model, b.model)`
  const rows = await db.$queryRaw<{ rule: string; counted: number; p95: number }[]>`
    SELECT rule, counted, p95 FROM (${percentilesOf(ofRules, Prisma.sql`rule`)}) p`
  return new Map(rows.map(({ rule, counted, p95 }) => [rule, { value: p95, counted }]))
}

function groupsOf({ keyId, model, environment }: AlertRule, groups: readonly Group[]): Group[] {
  return groups.filter(
    group =>
      group.environment === environment &&
      (keyId === null || group.keyId === keyId) &&
      (model === null || group.model === model),
  )
}

function compare(
  { threshold, minRequests }: AlertRule,
  { minimum }: KindOf<'requests'>,
  { value: figure, counted }: Figure,
  from: Date,
): Measure {
  const value = minimum !== null && counted < minRequests ? null : figure
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
