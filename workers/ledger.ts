import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { blockExceeded } from '../shared/alerts/excesses.ts'
import type { Redis } from '../shared/io/redis.ts'
import type { Services } from '../shared/services.ts'
import {
  deadStream,
  ensureLedgerGroup,
  isDataFault,
  ledgerGroup,
  parseEvent,
  postUsage,
  type StreamedEvent,
  takeOff,
  usageStream,
} from '../shared/wallet/ledger.ts'

const batchSize = 500
const blockMs = 1_000
/** An entry whose worker went silent for so long is taken over by another. */
const takeOverMs = 15_000
const mostDead = 100_000
const retryDelayMs = 500

type Entry = [streamId: string, fields: string[] | null]
type Reply = [stream: string, entries: Entry[]][] | null

/**
 * Moves usage events from the Redis stream to Postgres until `stop`. Any number of workers may run: each entry goes to
 * one of them, and one that dies with entries in hand loses them to the others after 15 s.
 */
export class LedgerWorker {
  readonly #services: Services
  readonly #redis: Redis
  readonly #consumer = `${hostname()}-${process.pid}`
  /** True while entries may be ours that we have not booked: of a failed round, or of an earlier process of our name. */
  #owing = true
  #stopped = false
  #running: Promise<void> | null = null

  /** `redis` is a connection of its own: reading blocks it. */
  constructor(services: Services, redis: Redis) {
    this.#services = services
    this.#redis = redis
  }

  start(): void {
    this.#running = this.#loop()
  }

  /** Finishes the batch in hand. Without Redis it does not settle before Redis is back. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #loop(): Promise<void> {
    let lastTakeOver = 0
    while (!this.#stopped) {
      try {
        if (Date.now() - lastTakeOver > takeOverMs / 5) {
          await ensureLedgerGroup(this.#redis)
          await this.#book(await this.#abandoned())
          lastTakeOver = Date.now()
        }
        const entries = await this.#read(this.#owing ? '0' : '>')
        await this.#book(entries)
        this.#owing &&= entries.length > 0
      } catch (error) {
        if (this.#stopped) return
        this.#owing = true
        // Redis was wiped: the group is made anew on the next round.
        if ((error as Error).message?.includes('NOGROUP')) lastTakeOver = 0
        else this.#services.log.error({ err: error }, 'ledger batch failed; it will be taken up again')
        await sleep(retryDelayMs)
      }
    }
  }

  /** The next entries: `>` those nobody has, `0` those that are ours already. */
  async #read(from: '>' | '0'): Promise<Entry[]> {
    const group = ['GROUP', ledgerGroup, this.#consumer, 'COUNT', batchSize, 'BLOCK', blockMs] as const
    const reply = (await this.#redis.xreadgroup(...group, 'STREAMS', usageStream, from)) as Reply
    return reply?.[0]?.[1] ?? []
  }

  async #abandoned(): Promise<Entry[]> {
    const group = [usageStream, ledgerGroup, this.#consumer, takeOverMs] as const
    const [, entries] = (await this.#redis.xautoclaim(...group, '0', 'COUNT', batchSize)) as [string, Entry[]]
    return entries
  }

  async #book(entries: Entry[]): Promise<void> {
    const batch: StreamedEvent[] = []
    for (const [streamId, fields] of entries) {
      // Someone else took it off the stream: only our claim to it is left.
      if (fields === null) await this.#redis.xack(usageStream, ledgerGroup, streamId)
      else {
        const event = parseEvent(fields)
        if (event) batch.push({ streamId, event })
        else {
          await this.#bury(streamId, 'not a usage event')
          await this.#redis.multi().xack(usageStream, ledgerGroup, streamId).xdel(usageStream, streamId).exec()
        }
      }
    }
    if (batch.length > 0) await this.#post(batch)
  }

  async #post(batch: StreamedEvent[]): Promise<void> {
    const { scripts, clock, log } = this.#services
    try {
      await postUsage(this.#services, batch, clock.now())
      // Housekeeping repeats what fails here.
      if (batch.some(({ event }) => event.excess))
        await blockExceeded(this.#services).catch(error => log.warn({ err: error }, 'a key is blocked later'))
    } catch (error) {
      if (!isDataFault(error)) throw error
      const [only, ...others] = batch
      if (others.length > 0) for (const entry of batch) await this.#post([entry])
      else {
        await this.#bury(only!.streamId, `${error.code} ${error.message}`)
        await takeOff(scripts, batch)
      }
    }
  }

  /** Puts an entry aside that Postgres will never take, so that it holds up nobody. `operator ledger check` reports it. */
  async #bury(streamId: string, reason: string): Promise<void> {
    const [entry] = await this.#redis.xrange(usageStream, streamId, streamId)
    const event = entry?.[1][1] ?? ''
    this.#services.log.error({ streamId, event, reason }, 'usage event refused by Postgres')
    const fields = ['e', event, 'reason', reason.slice(0, 500)]
    await this.#redis.xadd(deadStream, 'MAXLEN', '~', mostDead, '*', ...fields)
  }
}
