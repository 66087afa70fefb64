import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { hasLateHolds, heldNano, walletFigures } from './accounts.ts'
import { holdMember, jobHolds, openHolds } from './holds.ts'
import { deadStream, parseEvent, usageStream } from './ledger.ts'
import { pages } from './upkeep.ts'

export type Invariant = { name: string; checked: number; breaches: string[] }

const most = 50

/** Every money invariant (DESIGN §4), each with what breaks it (at most 50 breaches each). Reads only. */
export async function checkLedger(db: Database, redis: Redis, nowMs = Date.now()): Promise<Invariant[]> {
  return [
    await rows(db, 'the sum of ledger entries is the balance', BALANCES),
    await rows(db, 'a key’s spend equals its charges', KEY_SPENDS),
    await rows(db, 'spend stays within the monthly cap', CAPS),
    await rows(db, 'every charge has its request, and every charged request its charge', CHARGES),
    await rows(db, 'every job costs what was charged for it, and nothing when it failed', JOBS),
    await rows(db, 'a top-up’s entries are what was paid and did not go back', TOP_UPS),
    await rows(db, 'every request is logged once', ONCE),
    await rows(db, 'the days of usage add up to the request log', DAYS),
    await lasting(() => rows(db, 'a batch counts each of its lines once', BATCH_LINES)),
    await rows(db, 'a batch costs what its lines were charged', BATCH_COSTS),
    await rows(db, 'what organisations store is counted', STORAGE),
    await lasting(() => inFlight(db, redis, nowMs)),
    await lasting(() => reservations(redis)),
    await lasting(() => holds(db, redis)),
    await deadEvents(redis),
  ]
}

/** Between the two stores money is on its way for a moment. */
const onItsWayMs = 1_000

/** An invariant across the two stores: what breaks it is looked at a second time. */
async function lasting(look: () => Promise<Invariant>): Promise<Invariant> {
  const first = await look()
  if (first.breaches.length === 0) return first
  await sleep(onItsWayMs)
  const subject = (breach: string) => breach.slice(0, breach.indexOf(': '))
  const known = new Set(first.breaches.map(subject))
  const second = await look()
  return { ...second, breaches: second.breaches.filter(breach => known.has(subject(breach))) }
}

/** A custom id of 512 characters, each written as an escape, comes before it. */
const mostBeforeRequest = 4_000

type Breach = { subject: string; found: string; expected: string; checked: bigint }

async function rows(db: Database, name: string, sql: string): Promise<Invariant> {
  const found = await db.$queryRawUnsafe<Breach[]>(sql)
  const checked = found.length > 0 ? Number(found[0]!.checked) : 0
  const breaches = found
    .filter(row => row.subject !== null)
    .map(row => `${row.subject}: is ${row.found}, should be ${row.expected}`)
  return { name, checked, breaches }
}

// Each query gives at least one row (the count), and one more per breach.
const report = (body: string) => `
  WITH facts AS (${body}), n AS (SELECT count(*) AS checked FROM facts)
  SELECT n.checked, f.subject, f.found::text, f.expected::text FROM n
  LEFT JOIN (SELECT * FROM facts WHERE found IS DISTINCT FROM expected LIMIT ${most}) f ON true`

const BALANCES = report(`
  SELECT o.id AS subject, coalesce(w.balance_nano, 0)::numeric AS found, coalesce(sum(l.amount_nano), 0) AS expected
  FROM organisations o LEFT JOIN wallets w ON w.organisation_id = o.id LEFT JOIN ledger_entries l ON l.organisation_id = o.id
  GROUP BY o.id, w.balance_nano`)
const KEY_SPENDS = report(`
  SELECT coalesce(s.key_id, c.key_id) AS subject, coalesce(s.spent, 0) AS found, coalesce(c.spent, 0) AS expected
  FROM (SELECT key_id, sum(spent_nano) AS spent FROM key_spend GROUP BY key_id) s
  FULL JOIN (SELECT key_id, -sum(amount_nano) AS spent FROM ledger_entries WHERE key_id IS NOT NULL GROUP BY key_id) c USING (key_id)`)
const CAPS = report(`
  SELECT key_id || ' ' || month AS subject, spent_nano AS found, least(spent_nano, cap_nano) AS expected
  FROM key_spend WHERE cap_nano IS NOT NULL`)
const oldestMonth = `(SELECT min((replace(right(tablename, 7), '_', '-') || '-01T00:00:00Z')::timestamptz) FROM pg_tables
    WHERE schemaname = 'partitions' AND tablename ~ '^generations_[0-9]{4}_[0-9]{2}$')`
// Charges stay for ever, requests as long as the oldest month of their log.
const CHARGES = report(`
  SELECT coalesce(g.id, l.id) AS subject, coalesce(-l.amount_nano, 0) AS found, coalesce(g.cost_nano, 0) AS expected
  FROM (SELECT id, cost_nano FROM generations WHERE cost_nano > 0) g
  FULL JOIN (
    SELECT split_part(cause, ':', 2) AS id, sum(amount_nano) AS amount_nano, min(created_at) AS created_at FROM ledger_entries
    WHERE kind IN ('charge', 'refund') AND (cause LIKE 'generation:%' OR cause LIKE 'refund:%')
    GROUP BY 1) l
  ON l.id = g.id
  WHERE g.id IS NOT NULL OR l.created_at >= ${oldestMonth}`)
// What a job says it cost is what was charged for it; one that failed or expired costs nothing.
const JOBS = report(`
  SELECT j.id AS subject, coalesce(-sum(l.amount_nano), 0) AS found,
    CASE WHEN j.status IN ('failed', 'expired') THEN 0 ELSE coalesce(j.cost_nano, 0) END::numeric AS expected
  FROM jobs j LEFT JOIN ledger_entries l ON l.cause IN ('generation:' || j.id, 'refund:' || j.id)
  GROUP BY j.id`)
const TOP_UPS = report(`
  SELECT coalesce(t.id, l.id) AS subject, coalesce(l.amount_nano, 0) AS found,
    (CASE WHEN t.status IN ('processing', 'paid', 'refunded') THEN t.amount_nano ELSE 0 END - t.returned_nano)::numeric AS expected
  FROM top_ups t
  FULL JOIN (
    SELECT split_part(cause, ':', 2) AS id, sum(amount_nano) AS amount_nano FROM ledger_entries
    WHERE kind = 'deposit' AND cause LIKE 'stripe:%' GROUP BY 1) l
  ON l.id = t.id`)
const ONCE = report(`SELECT id AS subject, count(*) AS found, 1::bigint AS expected FROM generations GROUP BY id`)

// The days stay when a month of the log is dropped.
const DAYS = report(`
  SELECT organisation_id || ' ' || day AS subject, d.sums AS found, g.sums AS expected
  FROM (
    SELECT organisation_id, day, ROW(sum(requests), sum(errors), sum(cost_nano), sum(prompt_tokens + completion_tokens))::text AS sums
    FROM usage_days GROUP BY 1, 2
  ) d FULL JOIN (
    SELECT organisation_id, (created_at AT TIME ZONE 'UTC')::date AS day, ROW(count(*), count(*) FILTER (WHERE status >= 400
      AND status <> 499), sum(cost_nano), sum(prompt_tokens::bigint + completion_tokens))::text AS sums
    FROM generations GROUP BY 1, 2
  ) g USING (organisation_id, day)
  WHERE g.sums IS NOT NULL OR day::timestamp AT TIME ZONE 'UTC' >= ${oldestMonth}`)

// While a provider's own batch runs, the counts are the provider's; once a batch is over, its lines are in its files.
const BATCH_LINES = report(`
  SELECT b.id AS subject, b.completed || ' + ' || b.failed AS found,
    CASE WHEN b.status = 'failed' THEN b.completed || ' + ' || b.failed
      WHEN b.status IN ('completed', 'expired', 'cancelled') THEN b.completed || ' + ' || (b.total - b.completed)
      ELSE count(l.line) FILTER (WHERE NOT l.failed) || ' + ' || count(l.line) FILTER (WHERE l.failed) END AS expected
  FROM batches b LEFT JOIN batch_lines l ON l.batch_id = b.id
  WHERE b.operation IS NULL OR b.operation ? 'here' OR b.status IN ('completed', 'expired', 'cancelled')
  GROUP BY b.id`)
// A line of the journal names the request that it was, before anything that a client or a provider wrote.
const BATCH_COSTS = report(`
  SELECT b.id AS subject, b.cost_nano::numeric AS found, coalesce(sum(g.cost_nano), 0) AS expected
  FROM batches b
  LEFT JOIN batch_lines l ON l.batch_id = b.id
  LEFT JOIN generations g ON g.organisation_id = b.organisation_id
    AND g.request_id = substring(left(l.text, ${mostBeforeRequest}) FROM '"request_id":"(req_[0-9a-z]+)"')
  WHERE b.status IN ('validating', 'in_progress', 'finalizing', 'cancelling')
    AND NOT EXISTS (SELECT 1 FROM batch_parts p WHERE p.batch_id = b.id)
  GROUP BY b.id`)

const STORAGE = report(`
  SELECT organisation_id || ' ' || environment AS subject, coalesce(u.files, 0) || ' files, ' || coalesce(u.bytes, 0) AS found,
    coalesce(s.files, 0) || ' files, ' || coalesce(s.bytes, 0) AS expected
  FROM storage_usage u FULL JOIN (
    SELECT organisation_id, environment, sum(files) AS files, sum(bytes) AS bytes FROM (
      SELECT organisation_id, environment, 1 AS files, bytes FROM files
      UNION ALL
      SELECT organisation_id, (CASE WHEN key LIKE 'test:%' THEN 'test' ELSE 'live' END)::environment, 0, octet_length(body)
      FROM idempotency_keys WHERE body IS NOT NULL) stored
    GROUP BY 1, 2) s USING (organisation_id, environment)`)

type Sums = { unposted: number; reserved: number }
type Posted = { posted: bigint; version: bigint; held: bigint }

/** Redis' figures against their own parts: unposted = the stream, reserved = the open reservations, posted = Postgres. */
async function inFlight(db: Database, redis: Redis, nowMs: number): Promise<Invariant> {
  const sums = new Map<string, Sums>()
  const add = (key: string, field: keyof Sums, amount: number) => {
    const sum = sums.get(key) ?? { unposted: 0, reserved: 0 }
    sum[field] += amount
    sums.set(key, sum)
  }
  for await (const { org, key, month, cost } of streamed(redis)) {
    add(`wallet:${org}`, 'unposted', cost)
    add(`spend:${key}:${month}`, 'unposted', cost)
  }
  for (const { organisation, key, month, amount } of await openReservations(redis)) {
    add(`wallet:${organisation}`, 'reserved', amount)
    add(`spend:${key}:${month}`, 'reserved', amount)
  }
  const breaches: string[] = []
  const seen = new Set<string>() // A scan may give a key twice.
  for (const pattern of ['wallet:*', 'spend:*']) {
    for await (const page of pages(redis, pattern)) {
      const keys = page.filter(key => !seen.has(key) && seen.add(key))
      const posted = await postedOf(db, keys, nowMs)
      for (const key of keys) {
        const found = await redis.hgetall(key)
        breaches.push(...compared(key, found, sums.get(key), posted.get(key), nowMs))
      }
    }
  }
  for (const [key, { unposted, reserved }] of sums)
    if (!seen.has(key) && unposted + reserved > 0)
      breaches.push(`${key}: is missing, should have ${unposted} unposted, ${reserved} reserved`)
  const name = 'Redis’ wallets and spends agree with the stream, the open reservations and Postgres'
  return { name, checked: seen.size, breaches: breaches.slice(0, most) }
}

function compared(
  key: string,
  found: Record<string, string>,
  sums: Sums | undefined,
  posted: Posted | undefined,
  nowMs: number,
) {
  const breaches: string[] = []
  const compare = (what: string, is: string | undefined, should: number | bigint) => {
    if (BigInt(is ?? 0) !== BigInt(should)) breaches.push(`${key} ${what}: is ${is ?? 0}, should be ${should}`)
  }
  compare('unposted', found.unposted, sums?.unposted ?? 0)
  compare('reserved', found.reserved, sums?.reserved ?? 0)
  // What Postgres has newer is on its way.
  const version = BigInt(found.version ?? -1)
  const current = posted ?? { posted: 0n, version: 0n, held: 0n }
  if (version === current.version) {
    compare('posted', found.posted, current.posted)
    const held = heldNano(found.holds ?? '', nowMs)
    if (held < current.held || !hasLateHolds(found.holds ?? '')) compare('held', String(held), current.held)
  }
  if (version > current.version) compare('version', found.version, current.version)
  return breaches
}

async function postedOf(db: Database, keys: string[], nowMs: number): Promise<Map<string, Posted>> {
  const ids = keys.map(key => key.split(':')[1]!)
  const wallets = await walletFigures(db, ids, nowMs)
  const spends = await db.keySpend.findMany({ where: { keyId: { in: ids } } })
  const posted = new Map<string, Posted>()
  for (let i = 0; i < wallets.length; i += 4) {
    const [id, balance, version, holds] = wallets.slice(i, i + 4) as [string, string, string, string]
    const held = heldNano(holds, nowMs)
    posted.set(`wallet:${id}`, { posted: BigInt(balance), version: BigInt(version), held })
  }
  for (const { keyId, month, spentNano, version } of spends)
    posted.set(`spend:${keyId}:${month}`, { posted: spentNano, version, held: 0n })
  return posted
}

const pageSize = 5_000
const mostPages = 400

async function* streamed(redis: Redis) {
  let from = '-'
  for (let page = 0; page < mostPages; page++) {
    const entries = await redis.xrange(usageStream, from, '+', 'COUNT', pageSize)
    for (const [, fields] of entries) {
      const event = parseEvent(fields)
      if (event) yield event
    }
    if (entries.length < pageSize) return
    from = `(${entries.at(-1)![0]}`
  }
}

type Reservation = { instance: string; organisation: string; key: string; month: string; amount: number }

/** Everything reserved and not resolved yet; amounts in nano-dollars. */
export async function openReservations(redis: Redis): Promise<Reservation[]> {
  const open: Reservation[] = []
  const sets = new Set<string>()
  for await (const page of pages(redis, 'reservations:*')) for (const set of page) sets.add(set)
  for (const set of sets) {
    const instance = set.slice('reservations:'.length)
    for (const member of await redis.zrange(set, '0', '-1')) {
      const [, organisation, key, month, amount] = member.split('|') as [string, string, string, string, string]
      open.push({ instance, organisation, key, month, amount: Number(amount) })
    }
  }
  return open
}

async function reservations(redis: Redis): Promise<Invariant> {
  const open = await openReservations(redis)
  const instances = new Set(await redis.zrange('instances', '0', '-1'))
  const lost = open.filter(({ instance }) => `reservations:${instance}` !== jobHolds && !instances.has(instance))
  return {
    name: 'every reservation belongs to a process the sweeper watches',
    checked: open.length,
    breaches: lost.slice(0, most).map(({ instance, organisation, amount }) => {
      return `${organisation}: ${amount} reserved by ${instance}, which is unknown`
    }),
  }
}

/** Holds of jobs against the jobs in flight. */
async function holds(db: Database, redis: Redis): Promise<Invariant> {
  const standing = new Set(await redis.zrange(jobHolds, '0', '-1'))
  const breaches: string[] = []
  let checked = 0
  for await (const page of openHolds(db)) {
    for (const job of page) {
      checked++
      if (!standing.delete(holdMember(job))) breaches.push(`${job.id}: ${job.holdNano} should be held`)
    }
  }
  for (const member of standing) breaches.push(`${member}: is held for a job that is not in flight`)
  return { name: 'what jobs in flight hold is reserved', checked, breaches: breaches.slice(0, most) }
}

async function deadEvents(redis: Redis): Promise<Invariant> {
  const count = await redis.xlen(deadStream)
  return {
    name: 'no usage event was refused by Postgres',
    checked: count,
    breaches: count > 0 ? [`${count} events wait in ${deadStream}`] : [],
  }
}
