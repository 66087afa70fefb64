import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { hasLateHolds, heldNano, walletFigures } from './accounts.ts'
import { holdMember, jobHolds, openHolds } from './holds.ts'
import * as invariants from './invariants.ts'
import { deadStream, parseEvent, usageStream } from './ledger.ts'
import { pages } from './upkeep.ts'

export type Invariant = { name: string; checked: number; breaches: string[] }

/** Every money invariant (DESIGN §4), each with what breaks it (at most 50 breaches each). Reads only. */
export async function checkLedger(db: Database, redis: Redis, nowMs = Date.now()): Promise<Invariant[]> {
  return [
    await rows(db, 'the sum of ledger entries is the balance', invariants.BALANCES),
    await rows(db, 'a key’s spend equals its charges', invariants.KEY_SPENDS),
    await rows(db, 'spend stays within the monthly cap', invariants.CAPS),
    await rows(db, 'no request uses tokens for nothing without a stated reason', invariants.WAIVERS),
    await rows(db, 'a cancelled job pays for the call it had begun', invariants.CANCELLED_CALLS),
    await lasting(() => rows(db, 'whatever exceeded its reservation was alerted', invariants.EXCESSES)),
    await rows(
      db,
      'a balance is below zero only by what exceeded its reservation or was taken back',
      invariants.OVERDRAFTS,
    ),
    await rows(db, 'every charge has its request, and every charged request its charge', invariants.CHARGES),
    await rows(db, 'every job costs what was charged for it, and nothing when it failed', invariants.JOBS),
    await rows(db, 'a top-up’s entries are what was paid and did not go back', invariants.TOP_UPS),
    await rows(db, 'every request is logged once', invariants.ONCE),
    await rows(db, 'the days of usage add up to the request log', invariants.DAYS),
    await lasting(() => rows(db, 'a batch counts each of its lines once', invariants.BATCH_LINES)),
    await rows(db, 'a batch costs what its lines were charged', invariants.BATCH_COSTS),
    await rows(db, 'what organisations store is counted', invariants.STORAGE),
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

type Breach = { subject: string; found: string; expected: string; checked: bigint }

async function rows(db: Database, name: string, sql: string): Promise<Invariant> {
  const found = await db.$queryRawUnsafe<Breach[]>(sql)
  const checked = found.length > 0 ? Number(found[0]!.checked) : 0
  const breaches = found
    .filter(row => row.subject !== null)
    .map(row => `${row.subject}: is ${row.found}, should be ${row.expected}`)
  return { name, checked, breaches }
}

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
  return { name, checked: seen.size, breaches: breaches.slice(0, invariants.maxBreaches) }
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
    breaches: lost.slice(0, invariants.maxBreaches).map(({ instance, organisation, amount }) => {
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
  return { name: 'what jobs in flight hold is reserved', checked, breaches: breaches.slice(0, invariants.maxBreaches) }
}

async function deadEvents(redis: Redis): Promise<Invariant> {
  const count = await redis.xlen(deadStream)
  return {
    name: 'no usage event was refused by Postgres',
    checked: count,
    breaches: count > 0 ? [`${count} events wait in ${deadStream}`] : [],
  }
}
