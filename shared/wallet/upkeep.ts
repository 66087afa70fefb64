import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import type { Accounts } from './accounts.ts'
import { deadAfterMs } from './admission.ts'
import type { Scripts } from './scripts.ts'

const releasedPerCall = 1_000
const mostCalls = 1_000

/** Gives back the reservations of processes that died and of requests that outlived every time-out. Answers how many. */
export async function sweepReservations(scripts: Scripts, nowMs: number): Promise<number> {
  let released = 0
  for (let call = 0; call < mostCalls; call++) {
    const count = Number(await scripts.sweep([nowMs, nowMs - deadAfterMs, releasedPerCall]))
    released += count
    if (count < releasedPerCall) break
  }
  return released
}

/** Brings wallets in Redis up to a balance that Postgres has had for longer: a process died between the two writes. */
export async function reconcileWallets(db: Database, redis: Redis, accounts: Accounts): Promise<number> {
  let installed = 0
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'MATCH', 'wallet:*', 'COUNT', 500)
    cursor = next
    const organisations = keys.map(key => key.slice('wallet:'.length))
    const wallets = await db.wallet.findMany({
      where: { organisationId: { in: organisations } },
      select: { organisationId: true, version: true },
    })
    const versions = new Map(wallets.map(({ organisationId, version }) => [organisationId, version]))
    for (const organisation of organisations) {
      const known = await redis.hget(`wallet:${organisation}`, 'version')
      if (BigInt(known ?? -1) >= (versions.get(organisation) ?? 0n)) continue
      await accounts.install(organisation)
      installed++
    }
  } while (cursor !== '0')
  return installed
}

/** The months around `nowMs` whose partitions of the request log must exist. */
const monthsAhead = 3

/** Creates the partitions of the coming months and drops those older than the retention. */
export async function keepPartitions(db: Database, nowMs: number, retentionMonths: number): Promise<void> {
  const now = new Date(nowMs)
  const month = (offset: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, 1))
  const name = (start: Date) => `generations_${start.toISOString().slice(0, 7).replace('-', '_')}`
  for (let offset = 0; offset <= monthsAhead; offset++) {
    const [from, to] = [month(offset), month(offset + 1)]
    await db.$executeRawUnsafe(
      `CREATE TABLE IF NOT EXISTS partitions.${name(from)} PARTITION OF generations FOR VALUES FROM ('${from.toISOString()}') TO ('${to.toISOString()}')`,
    )
  }
  const oldest = name(month(-retentionMonths))
  const tables = await db.$queryRaw<
    { tablename: string }[]
  >`SELECT tablename::text FROM pg_tables WHERE schemaname = 'partitions' AND tablename LIKE 'generations\\_2%'`
  for (const { tablename } of tables) {
    if (/^generations_\d{4}_\d{2}$/.test(tablename) && tablename < oldest)
      await db.$executeRawUnsafe(`DROP TABLE partitions.${tablename}`)
  }
}

/** Removes first answers kept for idempotency once their 24 hours are over. */
export async function expireIdempotencyKeys(db: Database, nowMs: number): Promise<number> {
  const { count } = await db.idempotencyKey.deleteMany({
    where: { createdAt: { lt: new Date(nowMs - 24 * 3_600_000) } },
  })
  return count
}
