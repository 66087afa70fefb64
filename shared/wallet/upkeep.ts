import { monthOf } from '../base/time.ts'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { spendFigures, walletFigures } from './accounts.ts'
import { deadAfterMs } from './admission.ts'
import { holdMember, inFlight, jobHolds, openHolds, takeHolds } from './holds.ts'
import type { Scripts } from './scripts.ts'

const releasedPerCall = 1_000
const mostCalls = 1_000

/** Gives back the reservations of processes that died and of requests that outlived every time-out. Answers how many. */
export async function sweepReservations(scripts: Scripts): Promise<number> {
  let released = 0
  for (let call = 0; call < mostCalls; call++) {
    const count = Number(await scripts.sweep([deadAfterMs, releasedPerCall]))
    released += count
    if (count < releasedPerCall) break
  }
  return released
}

/**
 * Brings the wallets and this month's spends in Redis up to what Postgres has: a process died between the two writes, or
 * Redis came back without its last second. Answers how many were behind.
 */
export async function reconcile(db: Database, redis: Redis, scripts: Scripts, nowMs: number): Promise<number> {
  const month = monthOf(nowMs)
  let behind = 0
  for await (const keys of pages(redis, 'wallet:*')) {
    const organisations = keys.map(key => key.slice('wallet:'.length))
    const figures = await walletFigures(db, organisations, nowMs)
    behind += Number(await scripts.post([0, organisations.length, ...figures]))
  }
  for await (const keys of pages(redis, `spend:*:${month}`)) {
    const keyMonths = keys.map(key => ({ keyId: key.split(':')[1]!, month }))
    behind += Number(await scripts.post([0, 0, ...(await spendFigures(db, keyMonths))]))
  }
  return behind
}

const holdsPerPage = 1_000

/**
 * Makes the holds in Redis those of the jobs in flight: Redis was wiped, or a process died between the two writes.
 * Answers how many changed.
 */
export async function reconcileHolds(db: Database, redis: Redis, scripts: Scripts, nowMs: number): Promise<number> {
  // What stands in Redis first: of a job that is over by now nothing is added again.
  const standing = await redis.zrange(jobHolds, '0', '-1')
  let changed = 0
  for (let from = 0; from < standing.length; from += holdsPerPage)
    changed += await dropDead(db, scripts, standing.slice(from, from + holdsPerPage), nowMs)
  const known = new Set(standing)
  for await (const page of openHolds(db)) {
    const missing = page.filter(job => !known.has(holdMember(job)))
    changed += await takeHolds(scripts, missing)
  }
  return changed
}

/** Drops the holds of jobs that are not in flight. What they cost counts in Redis before their holds are gone. */
async function dropDead(db: Database, scripts: Scripts, members: string[], nowMs: number): Promise<number> {
  const parts = members.map(
    member => member.split('|') as [id: string, organisation: string, key: string, month: string],
  )
  const alive = await inFlight(
    db,
    parts.map(([id]) => id),
  )
  const dead = parts.filter(([id]) => !alive.has(id))
  if (dead.length === 0) return 0
  const organisations = [...new Set(dead.map(([, organisation]) => organisation))]
  const keyMonths = new Map(dead.map(([, , keyId, month]) => [`${keyId} ${month}`, { keyId, month }]))
  const wallets = await walletFigures(db, organisations, nowMs)
  const spends = await spendFigures(db, [...keyMonths.values()])
  await scripts.post([0, organisations.length, ...wallets, ...spends])
  return Number(await scripts.hold(['', 0, ...members.filter((_, i) => !alive.has(parts[i]![0]))]))
}

/** The keys of Redis matching a pattern, in pages of some hundred. */
export async function* pages(redis: Redis, pattern: string): AsyncGenerator<string[]> {
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'MATCH', pattern, 'COUNT', 500)
    cursor = next
    if (keys.length > 0) yield keys
  } while (cursor !== '0')
}

/** Removes first answers kept for idempotency once their 24 hours are over. */
export async function expireIdempotencyKeys(db: Database, nowMs: number): Promise<number> {
  const { count } = await db.idempotencyKey.deleteMany({
    where: { createdAt: { lt: new Date(nowMs - 24 * 3_600_000) } },
  })
  return count
}
