import { formatTypedEvent } from '../chat/event-relay.ts'
import type { ResponseWriter } from '../engine/response-writer.ts'
import type { ResponsesEvent, ResponsesObject } from '../kinds/responses-answer.ts'
import type { ResponseRow } from '../responses/stored-responses.ts'
import { hasEnded } from './delayed-row.ts'
import type { DelayedServices } from './delayed-services.ts'
import { presentBackground } from './present-background.ts'

/** Longer than any response may take. */
const maxStreamMs = 70 * 60_000
/** The number of `response.queued`. */
const queuedNumber = 1

/**
 * Writes the events of a streamed response in the background after a number (-1 = all): those that are kept, those to
 * come, and the last one with the whole response. When `signal` aborts first, the stream is cut off. `headers` are those
 * of the answer. The whole response counts towards the memory of buffered answers. Throws what the stores throw, 429, 503.
 */
export async function resumeStream(
  services: DelayedServices,
  row: ResponseRow,
  client: ResponseWriter,
  { after, headers, signal }: { after: number; headers: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  const isStored = row.status !== 'queued'
  if (isStored) client.collect(row.itemsBytes)
  const response = await presentBackground(services, row)
  client.open(headers)
  const stream = new ResumedStream(services, row, client, { signal, isCollected: isStored })
  await stream.begin(response, after)
  const unwatch = services.keepAlive.monitor(stream)
  try {
    await services.responseEvents.wait(row.id, maxStreamMs, () => stream.advance(), signal)
  } finally {
    unwatch()
  }
  if (!stream.isOver) client.abandon()
}

/** One reader of the events of a response. */
class ResumedStream {
  ticks = 0
  isOver = false
  readonly #services: DelayedServices
  readonly #row: ResponseRow
  readonly #client: ResponseWriter
  readonly #signal: AbortSignal
  /** The number of the last event that the client has. */
  #last = -1
  /** False once an event is missing: only the last one follows. */
  #isWhole = true
  /** Whether the whole response is accounted for. */
  #isCollected: boolean

  constructor(
    services: DelayedServices,
    row: ResponseRow,
    client: ResponseWriter,
    { signal, isCollected }: { signal: AbortSignal; isCollected: boolean },
  ) {
    this.#services = services
    this.#row = row
    this.#client = client
    this.#signal = signal
    this.#isCollected = isCollected
  }

  keepAlive(): void {
    this.#client.write(': keep-alive\n\n', 'latin1')
  }

  /** Writes the first events, unless the client has them. */
  async begin(response: ResponsesObject, after: number): Promise<void> {
    this.#last = after
    const cleared = { output: [], usage: null, error: null, incomplete_details: null, completed_at: null }
    const queued = { ...response, ...cleared, status: 'queued' } as const
    if (after < 0) await this.#writeEvent({ type: 'response.created', response: queued, sequence_number: 0 })
    if (after < queuedNumber)
      await this.#writeEvent({ type: 'response.queued', response: queued, sequence_number: queuedNumber })
  }

  /** Writes the events that there are; returns whether the last one was written. */
  async advance(): Promise<boolean> {
    const isQuiet = await this.#writeKept()
    if (!isQuiet || this.#signal.aborted) return false
    const job = await this.#services.delayedJobs.read(this.#row.id)
    if (job && !hasEnded(job)) return false
    // Not before, as many may wait for long.
    if (!this.#isCollected) this.#client.collect(this.#row.itemsBytes)
    this.#isCollected = true
    const response = await presentBackground(this.#services, this.#row)
    const type = lastEvents[response.status]
    if (!type) return false
    // Events may have been appended between the two reads.
    await this.#writeKept()
    await this.#writeEvent({ type, response, sequence_number: this.#last + 1 })
    this.#client.write('data: [DONE]\n\n', 'latin1')
    this.#client.end()
    this.isOver = true
    return true
  }

  /** Writes the kept events. Returns true if there was none, or none will follow. */
  async #writeKept(): Promise<boolean> {
    for (let isQuiet = true; this.#isWhole && !this.#signal.aborted; isQuiet = false) {
      const { events, isClosed } = await this.#services.responseEvents.read(this.#row.id, this.#last)
      for (const { number, text } of events) {
        this.#isWhole &&= number === this.#last + 1
        if (!this.#isWhole) return true
        await this.#write(text)
        this.#last = number
      }
      if (isClosed || events.length === 0) return isClosed || isQuiet
    }
    return true
  }

  async #writeEvent(event: ResponsesEvent): Promise<void> {
    await this.#write(formatTypedEvent(event))
    this.#last = event.sequence_number
  }

  /** Writes text, and waits until the client reads on. */
  async #write(text: string): Promise<void> {
    if (this.#signal.aborted) return
    this.ticks = 0
    if (this.#client.write(text, 'utf8')) return
    await new Promise<void>(resolve => {
      const go = () => {
        this.#signal.removeEventListener('abort', go)
        resolve()
      }
      this.#signal.addEventListener('abort', go, { once: true })
      this.#client.onDrain(go)
    })
  }
}

/** The last event by the status that the response ended with. */
const lastEvents: { [status: string]: 'response.completed' | 'response.incomplete' | 'response.failed' } = {
  completed: 'response.completed',
  incomplete: 'response.incomplete',
  cancelled: 'response.incomplete',
  failed: 'response.failed',
}
