import { setTimeout as sleep } from 'node:timers/promises'
import { formatTypedEvent } from '../chat/event-relay.ts'
import { BufferedResponse } from '../engine/buffered-response.ts'
import type { Encoding, Leaving } from '../engine/response-writer.ts'
import { SseParser } from '../io/sse.ts'
import type { ResponsesEvent, ResponsesObject } from '../kinds/responses-answer.ts'
import type { NumberedEvent } from '../responses/response-events.ts'

/** Events are appended together at this interval. */
const appendEveryMs = 50
/** Maximum size of the kept events of one response. */
const maxBytes = 4 * 1024 * 1024
/** `response.created` and `response.queued` come before those of the run. */
const firstRunEvent = 2

/** The events that a reader makes himself: the first two, and the last. An `error` tells what the last one does. */
const ownEvents: ReadonlySet<string> = new Set([
  'response.created',
  'response.queued',
  'response.completed',
  'response.incomplete',
  'response.failed',
  'error',
])

/**
 * Response writer of a streamed response in the background: numbers its events and passes them to `append` in groups. It
 * drops the first and the last events, which its readers make from the stored response. When the events are too long, or are
 * not appended, it keeps no more of them.
 */
export class EventRecorder extends BufferedResponse {
  /** The response of a stream that failed; null if there is none. */
  failed: ResponsesObject | null = null
  readonly #append: (events: readonly NumberedEvent[]) => Promise<boolean>
  readonly #onError: (error: unknown) => void
  readonly #parser = new SseParser()
  readonly #ending = new AbortController()
  #number = firstRunEvent
  #bytes = 0
  #isKeeping = true
  #pending: NumberedEvent[] = []
  #appending: Promise<void> | null = null

  constructor(append: (events: readonly NumberedEvent[]) => Promise<boolean>, onError: (error: unknown) => void) {
    super()
    this.#append = append
    this.#onError = onError
  }

  /** Whether there was an event to keep. */
  get isShown(): boolean {
    return this.#number > firstRunEvent
  }

  /** A cancelled response has ended for its readers: what is read for its usage is not shown. */
  override leave(how?: Leaving): void {
    if (how === null) this.#drop()
    super.leave(how)
  }

  override write(text: string, encoding: Encoding): boolean {
    for (const { data } of this.#parser.push(Buffer.from(text, encoding)))
      if (data.trim() !== '[DONE]') this.#record(JSON.parse(data) as ResponsesEvent)
    return true
  }

  /** Waits until all events are appended. Never throws. */
  async flush(): Promise<void> {
    this.#ending.abort()
    await this.#appending
  }

  #record(event: ResponsesEvent): void {
    if (event.type === 'response.failed') this.failed = event.response
    if (ownEvents.has(event.type)) return
    const number = this.#number++
    const text = formatTypedEvent({ ...event, sequence_number: number })
    this.#bytes += Buffer.byteLength(text)
    this.#isKeeping &&= this.#bytes <= maxBytes
    if (!this.#isKeeping) return
    this.#pending.push({ number, text })
    this.#appending ??= this.#appendPending()
  }

  async #appendPending(): Promise<void> {
    try {
      while (this.#pending.length > 0) {
        if (!(await this.#append(this.#pending.splice(0)))) this.#drop()
        await sleep(appendEveryMs, undefined, { signal: this.#ending.signal }).catch(() => {})
      }
    } catch (error) {
      const wasKeeping = this.#isKeeping
      this.#drop()
      if (wasKeeping) this.#onError(error)
    } finally {
      this.#appending = null
    }
  }

  #drop(): void {
    this.#isKeeping = false
    this.#pending = []
  }
}
