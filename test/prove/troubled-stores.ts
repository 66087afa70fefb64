import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { restoreSnapshot } from '../support/io/redis-snapshot.ts'
import { closedPostgres, readOnlyPostgres, redisFaults, type StoreFault, sql } from '../support/io/store-faults.ts'
import { withRedis } from '../support/stack.ts'

/** Stores that are reachable, and refuse, delay or end what they are asked; each state ends by itself. */

const troubledMs = 5_000
const lockedMs = 9_000
/** A script that is under way for longer is told of with BUSY. */
const busyAfterMs = '200'
const pauseMs = 300
const cancelPauseMs = 50

/** Does something again and again, with pauses. */
async function repeat(step: () => Promise<unknown>, everyMs = pauseMs): Promise<void> {
  for (const endMs = Date.now() + troubledMs; Date.now() < endMs; await sleep(everyMs)) await step()
}

async function during({ begin, end }: StoreFault, forMs = troubledMs): Promise<void> {
  await begin()
  await sleep(forMs)
  await end()
}

/** What a Redis that is reachable says, by the first word of its refusals. */
export function refusingRedis(url: string, word: string): Promise<void> {
  return during(redisFaults(url)[word]!)
}

/** A script that does not end, until the operator ends it. */
export async function busyRedis(url: string): Promise<void> {
  // Connected before: while the script runs, clients do not become ready.
  const [scripted, operator] = [new Redis(url, { retryStrategy: null }), new Redis(url, { retryStrategy: null })]
  try {
    await operator.config('SET', 'busy-reply-threshold', busyAfterMs)
    const running = scripted.eval('while true do end', 0).catch(() => {})
    await sleep(troubledMs)
    await operator.script('KILL')
    await running
  } finally {
    scripted.disconnect()
    operator.disconnect()
  }
}

/** Writes are delayed, as by an operator or during a planned failover. */
export async function pausedRedis(url: string): Promise<void> {
  await withRedis(url, redis => redis.call('CLIENT', 'PAUSE', String(troubledMs), 'WRITE'))
  await sleep(troubledMs)
}

/** Ends the connections of clients again and again, in the middle of what they have sent, and forgets their scripts. */
export function disconnectingRedis(url: string): Promise<void> {
  return withRedis(url, redis =>
    repeat(async () => {
      await redis.script('FLUSH')
      for (const type of ['normal', 'pubsub']) await redis.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes')
    }),
  )
}

const clients = 'pid <> pg_backend_pid() AND backend_type = $$client backend$$'

/** Ends the connections of clients again and again, in the middle of their transactions. */
export function disconnectingPostgres(url: string): Promise<void> {
  return repeat(() => sql(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${clients}`))
}

/** Cancels the statements of clients again and again. */
export function cancellingPostgres(url: string): Promise<void> {
  const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE ${clients} AND state <> $$idle$$`
  return repeat(() => sql(url, cancel), cancelPauseMs)
}

export function replicaPostgres(url: string): Promise<void> {
  return during(readOnlyPostgres(url))
}

export function inaccessiblePostgres(url: string): Promise<void> {
  return during(closedPostgres(url))
}

/** A lock of an operator on a table, for longer than a statement of a request may take. */
export async function lockedPostgres(url: string, table: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query('BEGIN')
    await client.query(`LOCK TABLE ${table}`)
    await sleep(lockedMs)
    await client.query('ROLLBACK')
  } finally {
    await client.end()
  }
}

const dumpAll = `local all = {}
  for _, key in ipairs(redis.call('KEYS', '*')) do
    for _, it in ipairs({ key, redis.call('PTTL', key), redis.call('DUMP', key) }) do all[#all + 1] = it end
  end
  return all`

/** Puts what Redis was some seconds ago in the place of what it is, as a restart from a snapshot does. */
export async function olderRedis(url: string, agoMs: number): Promise<void> {
  await withRedis(url, async redis => {
    const all = (await redis.callBuffer('EVAL', dumpAll, '0')) as (Buffer | number)[]
    const snapshot: { key: string; ttlMs: number; value: Buffer }[] = []
    for (let i = 0; i < all.length; i += 3)
      snapshot.push({ key: String(all[i]), ttlMs: Math.max(0, Number(all[i + 1])), value: all[i + 2] as Buffer })
    await sleep(agoMs)
    await restoreSnapshot(redis, snapshot)
  })
}
