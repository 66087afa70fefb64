import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../base/time.ts'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { shardsOf } from '../io/redis-shards.ts'
import { scanShards } from '../io/scan-shards.ts'
import { holdMember, listHolds } from './holds.ts'
import * as invariants from './invariants.ts'
import { countEvents, deadStream, parseEvent, usageStream } from './ledger.ts'
import { spendAccounts } from './reservation.ts'
import { jobHolds } from './scripts.ts'
import { hasLateHolds, heldNano, isBudget, spendFigures, walletFigures } from './wallets.ts'

export type Invariant = { name: string; checked: number; breaches: string[] }

/** Checks every money invariant (docs/money.md) and returns each with its breaches, at most 50. Read-only. */
export async function checkLedger(db: Database, redis: Redis, nowMs = systemClock.now()): Promise<Invariant[]> {
  return [
    await checkRows(db, 'the sum of ledger entries is the balance', invariants.BALANCES, nano),
    await checkRows(db, 'a key’s spend equals its charges', invariants.KEY_SPENDS, nano),
    await checkRows(db, 'spend stays within the monthly cap', invariants.CAPS, nano),
    await checkRows(db, 'no request uses tokens for nothing without a stated reason', invariants.WAIVERS),
    await checkRows(db, 'a cancelled job pays for the call it had begun', invariants.CANCELLED_CALLS),
    await recheck(() => checkRows(db, 'whatever exceeded its reservation was handled', invariants.EXCESSES)),
    await checkRows(
      db,
      'a balance is below zero only by what exceeded its reservation or was taken back',
      invariants.OVERDRAFTS,
    ),
    await checkRows(db, 'every charge has its request, and every charged request its charge', invariants.CHARGES, nano),
    await checkRows(db, 'every charge counts in the month of its request, or is marked as late', invariants.MONTHS),
    await checkRows(db, 'every job costs what was charged for it, and nothing when it failed', invariants.JOBS, nano),
    await checkRows(db, 'a top-up’s entries are what was paid and did not go back', invariants.TOP_UPS, nano),
    await checkRows(db, 'every request is logged once', invariants.ONCE),
    await checkRows(db, 'the days of the ledger add up to its entries', invariants.LEDGER_DAYS),
    await checkRows(db, 'the days of usage add up to the request log', invariants.DAYS),
    await checkRows(db, 'the hours of usage add up to the request log', invariants.HOURS),
    await checkRows(db, 'the days of usage in detail add up to the request log', invariants.DAY_DETAILS),
    await checkRows(db, 'no request exceeds the peaks of its hour', invariants.PEAKS),
    await recheck(() => checkRows(db, 'a batch counts each of its lines once', invariants.BATCH_LINES)),
    await checkRows(db, 'a batch costs what its lines were charged', invariants.BATCH_COSTS, nano),
    await checkRows(db, 'what organisations store is counted', invariants.STORAGE),
    await recheck(() => checkTotals(db, redis, nowMs)),
    await recheck(() => checkReservations(redis)),
    await recheck(() => checkHolds(db, redis)),
    await checkDeadEvents(redis),
  ]
}

/** The two stores are eventually consistent: a change reaches the second one within this time. */
const propagationMs = 1_000

/** Checks an invariant across the two stores; checks a second time on breaches, and reports those that persist. */
async function recheck(check: () => Promise<Invariant>): Promise<Invariant> {
  const first = await check()
  if (first.breaches.length === 0) return first
  await sleep(propagationMs)
  const subject = (breach: string) => breach.slice(0, breach.indexOf(': '))
  const suspects = new Set(first.breaches.map(subject))
  const second = await check()
  return { ...second, breaches: second.breaches.filter(breach => suspects.has(subject(breach))) }
}

type Breach = { subject: string; found: string; expected: string; checked: bigint }

const nano = ' nano-dollars'

async function checkRows(db: Database, name: string, sql: string, unit = ''): Promise<Invariant> {
  const found = await db.$queryRawUnsafe<Breach[]>(sql)
  const checked = found.length > 0 ? Number(found[0]!.checked) : 0
  const breaches = found
    .filter(row => row.subject !== null)
    .map(row => `${row.subject}: is ${row.found}, should be ${row.expected}${unit}`)
  return { name, checked, breaches }
}

type Sums = { unposted: number; reserved: number }
type Posted = { posted: bigint; version: bigint; held: bigint }

/** Compares Redis' totals with their sources: unposted = the stream, reserved = the open reservations, posted = Postgres. */
async function checkTotals(db: Database, redis: Redis, nowMs: number): Promise<Invariant> {
  const sums = new Map<string, Sums>()
  const shards = shardsOf(redis)
  const add = (key: string, field: keyof Sums, amount: number) => {
    const sum = sums.get(key) ?? { unposted: 0, reserved: 0 }
    sum[field] += amount
    sums.set(key, sum)
  }
  for await (const { org, key, budgets, month, cost } of readStreams(redis)) {
    const { tag } = shards.of(org)
    add(`${tag}wallet:${org}`, 'unposted', cost)
    for (const account of spendAccounts(key, budgets).split(','))
      add(`${tag}spend:${account}:${month}`, 'unposted', cost)
  }
  for (const { organisation, accounts, month, amount } of await openReservations(redis)) {
    const { tag } = shards.of(organisation)
    add(`${tag}wallet:${organisation}`, 'reserved', amount)
    for (const account of accounts) add(`${tag}spend:${account}:${month}`, 'reserved', amount)
  }
  const breaches: string[] = []
  const seen = new Set<string>() // SCAN may return a key twice.
  for (const pattern of ['wallet:*', 'spend:*']) {
    for await (const [{ tag }, page] of scanShards(redis, pattern)) {
      const keys = page.filter(key => !seen.has(tag + key) && seen.add(tag + key))
      const posted = await readPosted(db, keys, nowMs)
      const found = await readHashes(redis, tag, keys)
      for (const [i, key] of keys.entries())
        breaches.push(...compareTotals(tag + key, found[i]!, sums.get(tag + key), posted.get(key), nowMs))
    }
  }
  for (const [key, { unposted, reserved }] of sums)
    if (!seen.has(key) && unposted + reserved > 0)
      breaches.push(`${key}: is missing, should have ${unposted} unposted, ${reserved} reserved, in nano-dollars`)
  const name = 'Redis’ wallets and spends agree with the stream, the open reservations and Postgres'
  return { name, checked: seen.size, breaches: breaches.slice(0, invariants.maxBreaches) }
}

/** Reads hashes of one shard, in their order. */
async function readHashes(redis: Redis, tag: string, keys: string[]): Promise<Record<string, string>[]> {
  const pipeline = redis.pipeline()
  for (const key of keys) pipeline.hgetall(tag + key)
  const replies = (await pipeline.exec()) ?? []
  return replies.map(([error, fields]) => {
    if (error) throw error
    return fields as Record<string, string>
  })
}

function compareTotals(
  key: string,
  found: Record<string, string>,
  sums: Sums | undefined,
  posted: Posted | undefined,
  nowMs: number,
) {
  const breaches: string[] = []
  const compare = (what: string, is: string | undefined, should: number | bigint) => {
    if (BigInt(is ?? 0) !== BigInt(should))
      breaches.push(`${key} ${what}: is ${is ?? 0}, should be ${should}${what === 'version' ? '' : ' nano-dollars'}`)
  }
  compare('unposted', found.unposted, sums?.unposted ?? 0)
  compare('reserved', found.reserved, sums?.reserved ?? 0)
  // A budget that was removed has no figures.
  if (posted === undefined && isBudget(key.slice(key.indexOf('spend:') + 'spend:'.length))) return breaches
  // A newer version in Postgres has not been copied yet.
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

async function readPosted(db: Database, keys: string[], nowMs: number): Promise<Map<string, Posted>> {
  const ids = keys.map(key => key.split(':')[1]!)
  const wallets = await walletFigures(db, ids, nowMs)
  const months = keys.filter(key => key.startsWith('spend:')).map(key => key.split(':') as [string, string, string])
  const spends = await spendFigures(
    db,
    months.map(([, account, month]) => ({ account, month })),
  )
  const posted = new Map<string, Posted>()
  for (const { organisationId, balanceNano, version, holds } of wallets)
    posted.set(`wallet:${organisationId}`, { posted: balanceNano, version, held: heldNano(holds, nowMs) })
  for (const { account, month, spentNano, version } of spends)
    posted.set(`spend:${account}:${month}`, { posted: spentNano, version, held: 0n })
  return posted
}

const pageSize = 5_000
const maxPages = 400

async function* readStreams(redis: Redis) {
  for (const { tag } of shardsOf(redis).all) yield* readStream(redis, tag + usageStream)
}

async function* readStream(redis: Redis, stream: string) {
  let from = '-'
  for (let page = 0; page < maxPages; page++) {
    const entries = await redis.xrange(stream, from, '+', 'COUNT', pageSize)
    for (const [, fields] of entries) {
      const event = parseEvent(fields)
      if (event) yield event
    }
    if (entries.length < pageSize) return
    from = `(${entries.at(-1)![0]}`
  }
}

type OpenReservation = {
  instance: string
  member: string
  organisation: string
  /** The accounts of its key and its budgets. */
  accounts: string[]
  month: string
  amount: number
}

/** All unsettled reservations; amounts in nano-dollars. */
export async function openReservations(redis: Redis): Promise<OpenReservation[]> {
  const open: OpenReservation[] = []
  const sets = new Set<string>()
  for await (const [{ tag }, page] of scanShards(redis, 'reservations:*')) for (const set of page) sets.add(tag + set)
  for (const set of sets) {
    const instance = set.slice(set.indexOf('reservations:') + 'reservations:'.length)
    for (const member of await redis.zrange(set, '0', '-1')) {
      const [, organisation, accounts, month, amount] = member.split('|') as [string, string, string, string, string]
      open.push({ instance, member, organisation, accounts: accounts.split(','), month, amount: Number(amount) })
    }
  }
  return open
}

async function checkReservations(redis: Redis): Promise<Invariant> {
  const open = await openReservations(redis)
  const known = await Promise.all(shardsOf(redis).all.map(({ tag }) => redis.zrange(`${tag}instances`, '0', '-1')))
  const instances = new Set(known.flat())
  const orphans = open.filter(({ instance }) => `reservations:${instance}` !== jobHolds && !instances.has(instance))
  return {
    name: 'every reservation belongs to a process the sweeper checks',
    checked: open.length,
    breaches: orphans.slice(0, invariants.maxBreaches).map(({ instance, organisation, amount }) => {
      return `${organisation}: ${amount} nano-dollars reserved by ${instance}, which is unknown`
    }),
  }
}

/**
 * Compares the holds in Redis with the jobs in flight. A job is inserted before the reservation of the process that admitted it
 * becomes its hold; until then, also after that process died, the reservation holds the money.
 */
async function checkHolds(db: Database, redis: Redis): Promise<Invariant> {
  const open = await openReservations(redis)
  const ofHolds = ({ instance }: OpenReservation) => `reservations:${instance}` === jobHolds
  const members = new Set(open.filter(ofHolds).map(({ member }) => member))
  const reserved = new Set(open.filter(one => !ofHolds(one)).map(({ member }) => member))
  const breaches: string[] = []
  let checked = 0
  for await (const page of listHolds(db)) {
    for (const job of page) {
      checked++
      const member = holdMember(job)
      if (!members.delete(member) && !reserved.has(member))
        breaches.push(`${job.id}: ${job.holdNano} nano-dollars should be held`)
    }
  }
  for (const member of members) breaches.push(`${member}: is held for a job that is not in flight`)
  return { name: 'what jobs in flight hold is reserved', checked, breaches: breaches.slice(0, invariants.maxBreaches) }
}

async function checkDeadEvents(redis: Redis): Promise<Invariant> {
  const { refused } = await countEvents(redis)
  return {
    name: 'no usage event was refused by Postgres',
    checked: refused,
    breaches: refused > 0 ? [`${refused} events wait in ${deadStream}`] : [],
  }
}
