import type { FileOwner } from '../files/files.ts'
import type { Redis } from '../io/redis.ts'
import type { CompletionSignals } from '../queues/completion-signals.ts'

/** An event of a response: its sequence number, and its text as it is sent. */
export type NumberedEvent = { number: number; text: string }

/** From the last event on: longer than any response may take. */
const openTtlMs = 70 * 60_000
/** From the end of the response on. */
const closedTtlMs = 10 * 60_000
/** Maximum bytes that the responses of one owner append in ten minutes: Redis keeps them, and a short request can have megabytes of events. */
const maxOwnerBytes = { live: 512 * 1024 * 1024, test: 64 * 1024 * 1024 }
const ownerWindowMs = closedTtlMs
const maxRead = 200
/** Their ids in the Redis stream begin with this; the end has an id of the server, which is greater. */
const epoch = '1-'

/**
 * The events of streamed responses in the background, in a Redis stream per response, until some time after its end. Events
 * are appended in the order of their numbers.
 */
export class ResponseEvents {
  readonly #redis: Redis
  readonly #signals: CompletionSignals

  constructor(redis: Redis, signals: CompletionSignals) {
    this.#redis = redis
    this.#signals = signals
  }

  /**
   * Appends events and wakes their readers; false, and nothing is appended, while the owner's responses have appended too much. Throws
   * once the response is closed, and what Redis throws.
   */
  async append(id: string, owner: FileOwner, events: readonly NumberedEvent[]): Promise<boolean> {
    const bytes = events.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
    if ((await this.#count(owner, bytes)) > maxOwnerBytes[owner.environment]) return false
    const pipeline = this.#redis.pipeline()
    for (const { number, text } of events) pipeline.xadd(keyOf(id), epoch + number, 'event', text)
    pipeline.pexpire(keyOf(id), openTtlMs)
    const replies = (await pipeline.exec()) ?? []
    for (const [error] of replies) if (error) throw error
    await this.#signals.announce(signalOf(id))
    return true
  }

  /** Counts bytes that an owner appends; gives those of the window. */
  async #count({ organisationId, environment }: FileOwner, bytes: number): Promise<number> {
    const key = `response-events-bytes:${environment}:${organisationId}`
    const replies = await this.#redis.pipeline().set(key, 0, 'PX', ownerWindowMs, 'NX').incrby(key, bytes).exec()
    for (const [error] of replies ?? []) if (error) throw error
    return Number(replies?.[1]?.[1])
  }

  /** Ends the events of a response: nothing can be appended, and its readers look for its end. Throws what Redis throws. */
  async close(id: string): Promise<void> {
    const pipeline = this.#redis.pipeline()
    pipeline.xadd(keyOf(id), 'NOMKSTREAM', '*', 'end', '')
    pipeline.pexpire(keyOf(id), closedTtlMs)
    await pipeline.exec()
    await this.#signals.announce(signalOf(id))
  }

  /** Whether any event was appended. Throws what Redis throws. */
  async isBegun(id: string): Promise<boolean> {
    return (await this.#redis.exists(keyOf(id))) === 1
  }

  /** The next events after a number, and whether none follow them. Throws what Redis throws. */
  async read(id: string, after: number): Promise<{ events: NumberedEvent[]; isClosed: boolean }> {
    const entries = await this.#redis.xrange(keyOf(id), `(${epoch}${after}`, '+', 'COUNT', maxRead)
    const events = entries
      .filter(([, [field]]) => field === 'event')
      .map(([entryId, [, text]]) => ({ number: Number(entryId.slice(epoch.length)), text: text! }))
    return { events, isClosed: events.length < entries.length }
  }

  /** The text that the kept events delivered: output, reasoning and arguments of calls. Throws what Redis throws. */
  async readText(id: string): Promise<string> {
    const texts: string[] = []
    for (let after = 0; ; ) {
      const { events } = await this.read(id, after)
      for (const { text } of events) texts.push(deltaOf(text))
      const last = events.at(-1)
      if (!last) return texts.join('')
      after = last.number
    }
  }

  /** Calls `isOver` as `CompletionSignals.wait` does, whenever there may be more events. */
  wait(id: string, withinMs: number, isOver: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
    return this.#signals.wait(signalOf(id), withinMs, isOver, signal)
  }

  /** Deletes the events of a response. Throws what Redis throws. */
  async remove(id: string): Promise<void> {
    await this.#redis.del(keyOf(id))
  }
}

/** The text that an event adds to the answer; '' = none. */
function deltaOf(event: string): string {
  const { delta } = JSON.parse(event.slice(event.indexOf('{'))) as { delta?: unknown }
  return typeof delta === 'string' ? delta : ''
}

function keyOf(id: string): string {
  return `response-events:${id}`
}

function signalOf(id: string): string {
  return `${id}:events`
}
