import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { deadStream, parseEntries, usageStream } from './ledger.ts'

export type Invariant = { name: string; checked: number; breaches: string[] }

const most = 50

/** Every money invariant (DESIGN §4), each with what breaks it (at most 50 breaches each). Reads only. */
export async function checkLedger(db: Database, redis: Redis): Promise<Invariant[]> {
  return [
    await rows(db, 'the sum of ledger entries is the balance', BALANCES),
    await rows(db, 'a key’s month equals its charges', KEY_MONTHS),
    await rows(db, 'spend stays within the monthly cap', CAPS),
    await rows(db, 'every charge has its request, and every charged request its charge', CHARGES),
    await rows(db, 'every request is logged once', ONCE),
    await inFlight(db, redis),
    await deadEvents(redis),
  ]
}

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
const KEY_MONTHS = report(`
  SELECT coalesce(s.key_id, c.key_id) AS subject, coalesce(s.spent, 0) AS found, coalesce(c.spent, 0) AS expected
  FROM (SELECT key_id, sum(spent_nano) AS spent FROM key_spend GROUP BY key_id) s
  FULL JOIN (SELECT key_id, -sum(amount_nano) AS spent FROM ledger_entries WHERE key_id IS NOT NULL GROUP BY key_id) c USING (key_id)`)
const CAPS = report(`
  SELECT key_id || ' ' || month AS subject, greatest(spent_nano - cap_nano, 0) AS found, 0::bigint AS expected
  FROM key_spend WHERE cap_nano IS NOT NULL`)
const CHARGES = report(`
  SELECT coalesce('generation:' || g.id, l.cause) AS subject, coalesce(-l.amount_nano, 0) AS found, coalesce(g.cost_nano, 0) AS expected
  FROM (SELECT id, cost_nano FROM generations WHERE cost_nano > 0) g
  FULL JOIN (SELECT cause, amount_nano FROM ledger_entries
             WHERE kind = 'charge' AND cause LIKE 'generation:%'
               AND created_at >= coalesce((SELECT min(created_at) FROM generations), 'infinity')) l
  ON l.cause = 'generation:' || g.id`)
const ONCE = report(`SELECT id AS subject, count(*) AS found, 1::bigint AS expected FROM generations GROUP BY id`)

/** Redis' figures against their own parts: unposted = the stream, reserved = the open reservations, posted = Postgres. */
async function inFlight(db: Database, redis: Redis): Promise<Invariant> {
  const breaches: string[] = []
  const [entries, wallets, reserved] = await Promise.all([
    streamed(redis),
    scan(redis, 'wallet:*'),
    openReservations(redis),
  ])
  const unposted = new Map<string, number>()
  for (const { event } of parseEntries(entries)) {
    if (event) unposted.set(event.org, (unposted.get(event.org) ?? 0) + event.cost)
  }
  for (const key of wallets) {
    const organisation = key.slice('wallet:'.length)
    const figures = await redis.hgetall(key)
    const compare = (what: string, found: string | undefined, expected: number | string) => {
      if (Number(found ?? 0) !== Number(expected))
        breaches.push(`${key} ${what}: is ${found ?? 0}, should be ${expected}`)
    }
    compare('unposted', figures.unposted, unposted.get(organisation) ?? 0)
    compare('reserved', figures.reserved, reserved.get(organisation) ?? 0)
    const wallet = await db.wallet.findUnique({ where: { organisationId: organisation } })
    if (figures.version === String(wallet?.version ?? 0n))
      compare('posted', figures.posted, String(wallet?.balanceNano ?? 0n))
  }
  return {
    name: 'Redis’ wallets agree with the stream, the open reservations and Postgres',
    checked: wallets.length,
    breaches: breaches.slice(0, most),
  }
}

async function streamed(redis: Redis): Promise<[string, string[]][]> {
  const all: [string, string[]][] = []
  for (let from = '-'; all.length < 1_000_000; ) {
    const page = await redis.xrange(usageStream, from, '+', 'COUNT', 5000)
    all.push(...page)
    if (page.length < 5000) break
    from = `(${page.at(-1)![0]}`
  }
  return all
}

/** Open reservations by organisation, in nano-dollars. */
export async function openReservations(redis: Redis): Promise<Map<string, number>> {
  const sums = new Map<string, number>()
  for (const set of await scan(redis, 'reservations:*')) {
    for (const member of await redis.zrange(set, '0', '-1')) {
      const [, organisation, , , amount] = member.split('|')
      sums.set(organisation!, (sums.get(organisation!) ?? 0) + Number(amount))
    }
  }
  return sums
}

async function scan(redis: Redis, pattern: string): Promise<string[]> {
  const keys = new Set<string>()
  let cursor = '0'
  do {
    const [next, page] = await redis.scan(cursor, 'MATCH', pattern, 'COUNT', 1000)
    for (const key of page) keys.add(key)
    cursor = next
  } while (cursor !== '0')
  return [...keys]
}

async function deadEvents(redis: Redis): Promise<Invariant> {
  const count = await redis.xlen(deadStream)
  return {
    name: 'no usage event was refused by Postgres',
    checked: count,
    breaches: count > 0 ? [`${count} events wait in ${deadStream}`] : [],
  }
}
