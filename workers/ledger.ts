import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { handleExcesses } from '../shared/alerts/excesses.ts'
import { elapsedMs, longAgo, steadyClock } from '../shared/base/time.ts'
import { learnFromUsage } from '../shared/feedback/learn-from-usage.ts'
import { readRedisMs } from '../shared/io/clock-skew.ts'
import type { Redis } from '../shared/io/redis.ts'
import { type Shard, shardsOf } from '../shared/io/redis-shards.ts'
import {
  buryUsage,
  ensureLedgerGroup,
  isDataFault,
  ledgerGroup,
  parseEvent,
  postUsage,
  removeFromStream,
  type StreamedEvent,
  usageStream,
} from '../shared/wallet/ledger.ts'
import type { WebhookServices } from '../shared/webhooks/webhook-services.ts'

const batchSize = 500
const blockMs = 1_000
/** From an empty read to the next one, where reads cannot block. */
const pollMs = 200
/** A read that blocks longer than `blockMs` by this time began before Redis' clock, by which it ends, was set back. */
const maxLateMs = 5_000
/** An entry pending for this long at another consumer is claimed from it. */
const claimIdleMs = 15_000
/** How far Redis' clock may fall behind between two rounds of claims before it counts as set back. */
const maxBehindMs = 2_000
const retryDelayMs = 500

type Entry = [streamId: string, fields: string[] | null]
type Reply = [stream: string, entries: Entry[]][] | null

/** Moves usage events from the Redis streams of all shards to Postgres until `stop`. */
export class LedgerWorker {
  readonly #shards: readonly ShardLedger[]

  /** `redis` must be a dedicated connection: reading blocks it. */
  constructor(services: WebhookServices, redis: Redis) {
    this.#shards = shardsOf(redis).all.map(shard => new ShardLedger(services, redis, shard))
  }

  start(): void {
    for (const shard of this.#shards) shard.start()
  }

  /** Finishes the current batches. Does not settle before Redis is available. */
  async stop(): Promise<void> {
    await Promise.all(this.#shards.map(shard => shard.stop()))
  }
}

/**
 * Books the usage events of one shard. Any number of workers may run as one consumer group: each entry is delivered to one of
 * them, and the entries of a dead worker are claimed by the others after 15 s.
 */
class ShardLedger {
  readonly #services: WebhookServices
  readonly #redis: Redis
  readonly #shard: Shard
  readonly #stream: string
  /** A read that blocks would keep other shards at the same node waiting. */
  readonly #mayBlock: boolean
  readonly #consumer = `${hostname()}-${process.pid}`
  /** True while entries may be pending for this consumer name: from a failed round, or from an earlier process. */
  #hasPending = true
  readonly #steady = steadyClock()
  /** What Redis' clock was ahead of the steady one at the last round of claims; null = no round yet. */
  #redisAheadMs: number | null = null
  #stopped = false
  #running: Promise<void> | null = null

  constructor(services: WebhookServices, redis: Redis, shard: Shard) {
    this.#services = services
    this.#redis = redis
    this.#shard = shard
    this.#stream = shard.tag + usageStream
    this.#mayBlock = shardsOf(redis).all.length === 1
  }

  start(): void {
    this.#running = this.#loop()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #loop(): Promise<void> {
    const { monotonic } = this.#services
    let lastClaimMs = longAgo
    while (!this.#stopped) {
      try {
        if (elapsedMs(lastClaimMs, monotonic.now()) > claimIdleMs / 5) {
          await ensureLedgerGroup(this.#redis, this.#shard)
          await this.#book(await this.#claimAbandoned())
          lastClaimMs = monotonic.now()
        }
        const entries = await this.#read(this.#hasPending ? '0' : '>')
        await this.#book(entries)
        this.#hasPending &&= entries.length > 0
        if (!this.#mayBlock && entries.length === 0) await sleep(pollMs)
      } catch (error) {
        if (this.#stopped) return
        this.#hasPending = true
        // Redis was wiped: the group is recreated in the next round.
        if ((error as Error).message?.includes('NOGROUP')) lastClaimMs = longAgo
        else this.#services.log.error({ err: error }, 'ledger batch failed; it will be retried')
        await sleep(retryDelayMs)
      }
    }
  }

  /** Reads the next entries: `>` undelivered ones, `0` those pending for this consumer. */
  async #read(from: '>' | '0'): Promise<Entry[]> {
    const group = ['GROUP', ledgerGroup, this.#consumer, 'COUNT', batchSize] as const
    const streams = ['STREAMS', this.#stream, from] as const
    if (!this.#mayBlock) return entriesOf(await this.#redis.xreadgroup(...group, ...streams))
    const overdue = setTimeout(() => {
      this.#hasPending = true
      this.#redis.disconnect(true)
    }, blockMs + maxLateMs)
    try {
      return entriesOf(await this.#redis.xreadgroup(...group, 'BLOCK', blockMs, ...streams))
    } finally {
      clearTimeout(overdue)
    }
  }

  async #claimAbandoned(): Promise<Entry[]> {
    const idleMs = (await this.#wasRedisSetBack()) ? 0 : claimIdleMs
    const group = [this.#stream, ledgerGroup, this.#consumer, idleMs] as const
    const [, entries] = (await this.#redis.xautoclaim(...group, '0', 'COUNT', batchSize)) as [string, Entry[]]
    return entries
  }

  /**
   * Whether Redis' clock was set back since the last round, or may have been before the first. An entry that was delivered earlier then
   * counts as idle from that time on. Claiming it from a living consumer does no harm: each event is booked once.
   */
  async #wasRedisSetBack(): Promise<boolean> {
    const beforeMs = this.#redisAheadMs
    this.#redisAheadMs = (await readRedisMs(this.#redis)) - this.#steady.now()
    return beforeMs === null || this.#redisAheadMs < beforeMs - maxBehindMs
  }

  async #book(entries: Entry[]): Promise<void> {
    const batch: StreamedEvent[] = []
    for (const [streamId, fields] of entries) {
      // The entry was deleted from the stream: only its pending record is left.
      if (fields === null) await this.#redis.xack(this.#stream, ledgerGroup, streamId)
      else {
        const event = parseEvent(fields)
        if (event) batch.push({ streamId, event })
        else {
          await this.#deadLetter(streamId, 'not a usage event')
          await this.#redis.multi().xack(this.#stream, ledgerGroup, streamId).xdel(this.#stream, streamId).exec()
        }
      }
    }
    if (batch.length > 0) await this.#post(batch)
  }

  async #post(batch: StreamedEvent[]): Promise<void> {
    const { scripts, clock, log } = this.#services
    try {
      await postUsage(this.#services, batch, clock.now(), this.#shard)
      const events = batch.map(({ event }) => event)
      await learnFromUsage(this.#services, events).catch(error => log.warn({ err: error }, 'signals are not counted'))
      // The maintenance task retries what fails here.
      if (batch.some(({ event }) => event.excess))
        await handleExcesses(this.#services).catch(error =>
          log.warn({ err: error }, 'handling an excess failed; maintenance retries it'),
        )
    } catch (error) {
      if (!isDataFault(error)) throw error
      const [only, ...others] = batch
      if (others.length > 0) for (const entry of batch) await this.#post([entry])
      else {
        await this.#deadLetter(only!.streamId, `${error.code} ${error.message}`)
        await removeFromStream(scripts, this.#shard, batch)
      }
    }
  }

  /** Moves an entry that Postgres refuses to the dead-letter stream. `operator ledger check` reports it. */
  async #deadLetter(streamId: string, reason: string): Promise<void> {
    const event = await buryUsage(this.#redis, this.#shard, streamId, reason)
    this.#services.log.error({ streamId, event, reason }, 'usage event refused by Postgres')
  }
}

function entriesOf(reply: unknown): Entry[] {
  return (reply as Reply)?.[0]?.[1] ?? []
}
