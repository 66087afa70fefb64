import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from '../shared/io/redis.ts'
import type { Services } from '../shared/services.ts'
import {
  deadStream,
  ensureLedgerGroup,
  isDataFault,
  ledgerGroup,
  parseEntries,
  postUsage,
  type StreamedEvent,
  usageStream,
} from '../shared/wallet/ledger.ts'

const batchSize = 500
const blockMs = 1_000
/** An entry whose worker went silent for so long is taken over by another. */
const takeOverMs = 30_000
const mostDead = 100_000

/**
 * Moves usage events from the Redis stream to Postgres until `stopped`. Any number of workers may run: each entry goes to
 * one of them, and one that dies with entries in hand loses them to the others after 30 s.
 */
export class LedgerWorker {
  readonly #services: Services
  readonly #redis: Redis
  readonly #consumer = `${hostname()}-${process.pid}`
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

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#running
  }

  async #loop(): Promise<void> {
    let lastTakeOver = 0
    while (!this.#stopped) {
      try {
        const now = Date.now()
        if (now - lastTakeOver > takeOverMs / 3) {
          lastTakeOver = now
          await ensureLedgerGroup(this.#redis)
          await this.#book(await this.#abandoned())
        }
        await this.#book(await this.#fresh())
      } catch (error) {
        if (this.#stopped) return
        // Redis was wiped: the group is made anew on the next round.
        if ((error as Error).message?.includes('NOGROUP')) lastTakeOver = 0
        else this.#services.log.error({ err: error }, 'ledger batch failed; it will be taken up again')
        await sleep(500)
      }
    }
  }

  async #fresh(): Promise<[string, string[]][]> {
    const reply = (await this.#redis.xreadgroup(
      'GROUP',
      ledgerGroup,
      this.#consumer,
      'COUNT',
      batchSize,
      'BLOCK',
      blockMs,
      'STREAMS',
      usageStream,
      '>',
    )) as [string, [string, string[]][]][] | null
    return reply?.[0]?.[1] ?? []
  }

  async #abandoned(): Promise<[string, string[]][]> {
    // Our own entries of a failed round count as abandoned at once: nobody else is working on them.
    const own = (await this.#redis.xreadgroup(
      'GROUP',
      ledgerGroup,
      this.#consumer,
      'COUNT',
      batchSize,
      'STREAMS',
      usageStream,
      '0',
    )) as [string, [string, string[]][]][] | null
    const [, others] = (await this.#redis.xautoclaim(
      usageStream,
      ledgerGroup,
      this.#consumer,
      takeOverMs,
      '0',
      'COUNT',
      batchSize,
    )) as [string, [string, string[]][]]
    return [...(own?.[0]?.[1] ?? []), ...others]
  }

  async #book(entries: [string, string[] | null][]): Promise<void> {
    const parsed = parseEntries(entries.filter((entry): entry is [string, string[]] => entry[1] !== null))
    const batch = parsed.filter((entry): entry is StreamedEvent => entry.event !== null)
    for (const { streamId, event } of parsed) if (!event) await this.#bury(streamId, 'not a usage event')
    if (batch.length === 0) return
    const { db, scripts } = this.#services
    try {
      await postUsage(db, scripts, batch)
    } catch (error) {
      if (!isDataFault(error)) throw error
      if (batch.length > 1)
        for (const entry of batch) await this.#book([[entry.streamId, ['e', JSON.stringify(entry.event)]]])
      else await this.#bury(batch[0]!.streamId, (error as Error).message)
    }
  }

  /** Puts an entry aside that Postgres will never take, so that it holds up nobody. `operator ledger check` reports it. */
  async #bury(streamId: string, reason: string): Promise<void> {
    const [[, fields] = [streamId, []]] = await this.#redis.xrange(usageStream, streamId, streamId)
    this.#services.log.error({ streamId, event: fields[1], reason }, 'usage event refused by Postgres')
    await this.#redis.xadd(
      deadStream,
      'MAXLEN',
      '~',
      mostDead,
      '*',
      'e',
      fields[1] ?? '',
      'reason',
      reason.slice(0, 500),
    )
    await this.#redis.xack(usageStream, ledgerGroup, streamId)
    await this.#redis.xdel(usageStream, streamId)
  }
}
