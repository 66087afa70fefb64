import { DatabaseError } from 'pg'
import type { Database } from '../io/db.ts'
import { defineScript } from '../io/lua-script.ts'
import type { RawPool } from '../io/raw-pool.ts'
import type { Redis } from '../io/redis.ts'
import { type Shard, shardsOf } from '../io/redis-shards.ts'
import { bookUsage } from './booking.ts'
import { spendAccounts } from './reservation.ts'
import type { Scripts } from './scripts.ts'
import type { UsageEvent } from './usage-event.ts'
import { type SpendFigures, spendFigures, type WalletFigures, walletFigures } from './wallets.ts'

/** The stream of a shard's usage events, without the shard's tag, as the one below. */
export const usageStream = 'usage'
export const ledgerGroup = 'ledger'
/** Dead-letter stream for events that Postgres rejects individually; `operator ledger check` reports them. */
export const deadStream = 'usage:dead'
const maxDead = 100_000

export type StreamedEvent = { streamId: string; event: UsageEvent }

/** The numbers of usage events that wait to be booked, and of those that Postgres rejected, in all shards. */
export async function countEvents(redis: Redis): Promise<{ waiting: number; refused: number }> {
  const counts = await Promise.all(
    shardsOf(redis).all.map(({ tag }) => Promise.all([redis.xlen(tag + usageStream), redis.xlen(tag + deadStream)])),
  )
  const sum = (index: 0 | 1) => counts.reduce((total, count) => total + count[index], 0)
  return { waiting: sum(0), refused: sum(1) }
}

const createGroup = defineScript({
  name: 'ledger-group',
  lua: `local reply = redis.pcall('XGROUP', 'CREATE', usage_key, '${ledgerGroup}', '0', 'MKSTREAM')
    if reply.err and not string.find(reply.err, 'BUSYGROUP', 1, true) then return reply end
    return 1`,
  fixedKeys: { usageKey: usageStream },
  runsWhenFull: true,
})

/** Creates the consumer group of a shard's usage stream if it does not exist. */
export async function ensureLedgerGroup(redis: Redis, { tag }: Shard = shardsOf(redis).only): Promise<void> {
  await createGroup(redis, {}, tag)
}

const buryEvent = defineScript({
  name: 'bury-event',
  lua: `local entry = redis.call('XRANGE', usage_key, stream_id, stream_id)[1]
    redis.call('XADD', dead_key, 'MAXLEN', '~', max_dead, '*', 'e', entry and entry[2][2] or '', 'reason', reason)
    return entry and entry[2][2] or ''`,
  fixedKeys: { usageKey: usageStream, deadKey: deadStream },
  runsWhenFull: true,
  args: { streamId: 'text', reason: 'text', maxDead: 'number' },
})

/** Copies an entry that PostgreSQL refuses to the dead-letter stream of its shard, and gives its text. */
export async function buryUsage(redis: Redis, { tag }: Shard, streamId: string, reason: string): Promise<string> {
  return (await buryEvent(redis, { streamId, reason: reason.slice(0, 500), maxDead }, tag)) as string
}

/** Parses the usage event in a stream entry's fields; null when it is invalid. */
export function parseEvent(fields: string[]): UsageEvent | null {
  try {
    const event = JSON.parse(fields[1] ?? '') as UsageEvent
    return isUsageEvent(event) ? event : null
  } catch {
    return null
  }
}

function isUsageEvent(event: UsageEvent | null): boolean {
  const hasIds = [event?.id, event?.org, event?.key, event?.month].every(text => typeof text === 'string')
  const { cost, excess = 0 } = event ?? { cost: Number.NaN }
  const hasAmounts = Number.isSafeInteger(cost) && Number.isSafeInteger(excess) && excess >= 0 && excess <= cost
  const hasBudgets = event?.budgets === undefined || typeof event.budgets === 'string'
  return hasIds && hasAmounts && hasBudgets
}

/**
 * Books a batch of a shard in Postgres (request log, ledger, balances, key months: one transaction), then removes it from the stream.
 * Replaying a batch is idempotent: each charge is unique by its request. Throws what Postgres or Redis throw.
 */
export async function postUsage(
  { db, rawPool, scripts }: { db: Database; rawPool: RawPool; scripts: Scripts },
  batch: StreamedEvent[],
  nowMs: number,
  shard: Shard = scripts.shards.only,
): Promise<void> {
  const events = batch.map(({ event }) => event)
  await rawPool.transaction(run => bookUsage(run, events, nowMs))
  const organisations = [...new Set(events.map(event => event.org))]
  // Read after the commit, for replayed events too: the process that booked them may have died before it updated Redis.
  const keyMonths = new Map(events.map(({ key, month }) => [`${key} ${month}`, { account: key, month }]))
  const [wallets, spends] = await Promise.all([
    walletFigures(db, organisations, nowMs),
    spendFigures(db, [...keyMonths.values()]),
  ])
  await removeFromStream(scripts, shard, batch, { wallets, spends })
}

/** Removes events from the stream and from Redis' unposted totals, and installs the `figures` of Postgres in the same step. */
export async function removeFromStream(
  scripts: Scripts,
  shard: Shard,
  batch: StreamedEvent[],
  figures: { wallets: WalletFigures[]; spends: SpendFigures[] } = { wallets: [], spends: [] },
): Promise<void> {
  const events = batch.map(({ streamId, event: { org: organisationId, key, budgets, month, cost: costNano } }) => {
    return { streamId, organisationId, accounts: spendAccounts(key, budgets), month, costNano }
  })
  await scripts.post({ events, ...figures }, shard)
}

/** Classes of PostgreSQL error codes: data exception, constraint violation, limit exceeded. */
const dataFaultClasses = new Set(['22', '23', '54'])

/** True when Postgres rejects the data itself, so that a retry cannot succeed. */
export function isDataFault(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && dataFaultClasses.has(error.code?.slice(0, 2) ?? '')
}
