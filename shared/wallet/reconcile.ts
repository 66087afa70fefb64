import { monthOf, systemClock } from '../base/time.ts'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import type { Shard } from '../io/redis-shards.ts'
import { scanShards } from '../io/scan-shards.ts'
import { deadAfterMs } from './admission.ts'
import { addHolds, findInFlight, holdMember, listHolds } from './holds.ts'
import { jobHolds, type Scripts } from './scripts.ts'
import { spendFigures, walletFigures } from './wallets.ts'

const releasedPerCall = 1_000
const maxCalls = 1_000

/** Releases the reservations of dead processes and of requests past their deadline. Returns how many. */
export async function sweepReservations(scripts: Scripts, nowMs = systemClock.now()): Promise<number> {
  const released = await forEachShard(scripts, shard => sweepShard(scripts, shard, nowMs))
  return released.reduce((sum, count) => sum + count, 0)
}

/** Works on every shard, even if that fails on another one: one node may be away. Throws the first error afterwards. */
async function forEachShard<T>({ shards }: Scripts, work: (shard: Shard) => Promise<T>): Promise<T[]> {
  const outcomes = await Promise.allSettled(shards.all.map(work))
  return outcomes.map(outcome => {
    if (outcome.status === 'rejected') throw outcome.reason
    return outcome.value
  })
}

async function sweepShard(scripts: Scripts, shard: Shard, nowMs: number): Promise<number> {
  let released = 0
  for (let call = 0; call < maxCalls; call++) {
    const count = Number(await scripts.sweep({ nowMs, deadAfterMs, maxReleased: releasedPerCall }, shard))
    released += count
    if (count < releasedPerCall) break
  }
  return released
}

/**
 * Reconciles the wallets and this month's spends in Redis with Postgres, after a process died between the two writes or Redis
 * lost its last writes. Removes spends of earlier months. Returns how many were outdated.
 */
export async function reconcile(db: Database, redis: Redis, scripts: Scripts, nowMs: number): Promise<number> {
  const month = monthOf(nowMs)
  let behind = 0
  for await (const [shard, keys] of scanShards(redis, 'wallet:*')) {
    const organisations = keys.map(key => key.slice('wallet:'.length))
    const wallets = await walletFigures(db, organisations, nowMs)
    behind += Number(await scripts.post({ events: [], wallets, spends: [] }, shard))
  }
  for await (const [shard, keys] of scanShards(redis, 'spend:*')) {
    const all = keys.map(key => {
      const [, account, month] = key.split(':') as [prefix: string, account: string, month: string]
      return { account, month }
    })
    const current = all.filter(spend => spend.month === month)
    const spends = await spendFigures(db, current)
    const found = new Set(spends.map(({ account }) => account))
    behind += Number(await scripts.post({ events: [], wallets: [], spends }, shard))
    // A budget that was removed has no figures.
    const over = all.filter(spend => spend.month < month || (spend.month === month && !found.has(spend.account)))
    if (over.length > 0) await scripts.forget({ spends: over }, shard)
  }
  return behind
}

const holdsPerPage = 1_000

/**
 * Reconciles the holds in Redis with the jobs in flight, after Redis was wiped or a process died between the two writes.
 * Returns how many changed.
 */
export async function reconcileHolds(db: Database, redis: Redis, scripts: Scripts, nowMs: number): Promise<number> {
  // Reads Redis first, so that the hold of a job that ends meanwhile is not added again.
  const existingMembers = new Set<string>()
  let changed = 0
  for (const shard of scripts.shards.all) {
    const existing = await redis.zrange(shard.tag + jobHolds, '0', '-1')
    for (let from = 0; from < existing.length; from += holdsPerPage)
      changed += await releaseEnded({ db, scripts, shard }, existing.slice(from, from + holdsPerPage), nowMs)
    for (const member of existing) existingMembers.add(member)
  }
  for await (const page of listHolds(db)) {
    const missing = page.filter(job => !existingMembers.has(holdMember(job)))
    changed += await addHolds(scripts, missing)
  }
  return changed
}

/** Releases the holds of jobs that are not in flight. Posts their charges to Redis first, so the money is never counted as free. */
async function releaseEnded(
  { db, scripts, shard }: { db: Database; scripts: Scripts; shard: Shard },
  members: string[],
  nowMs: number,
): Promise<number> {
  const parts = members.map(
    member => member.split('|') as [id: string, organisation: string, accounts: string, month: string],
  )
  const inFlight = await findInFlight(
    db,
    parts.map(([id]) => id),
  )
  const ended = parts.filter(([id]) => !inFlight.has(id))
  if (ended.length === 0) return 0
  const organisations = [...new Set(ended.map(([, organisation]) => organisation))]
  const accountsOf = ([, , accounts, month]: (typeof parts)[number]) =>
    accounts.split(',').map(account => [`${account} ${month}`, { account, month }] as const)
  const months = new Map(ended.flatMap(accountsOf))
  const wallets = await walletFigures(db, organisations, nowMs)
  const spends = await spendFigures(db, [...months.values()])
  await scripts.post({ events: [], wallets, spends }, shard)
  const releases = members.filter((_, i) => !inFlight.has(parts[i]![0])).map(member => ({ member }))
  return Number(await scripts.hold({ instance: '', additions: [], releases }, shard))
}
