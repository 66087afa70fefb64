import type { IncomingHttpHeaders } from 'node:http'
import { type Dispatcher, errors } from 'undici'
import type { SandboxResponse } from './chat/response.ts'

/** One request and its response: passes the response to undici's handler chunk by chunk, with backpressure. */
export class Exchange implements Dispatcher.DispatchController {
  readonly #handler: Dispatcher.DispatchHandler
  readonly #closed: (exchange: Exchange) => void
  #timers: NodeJS.Timeout[] = []
  #turn: NodeJS.Immediate | undefined
  #pieces: Iterator<string> | undefined
  #paused = false
  #isOver = false
  #reason: Error | null = null

  /** `onClose` is called once, when the response is complete or the exchange was aborted. */
  constructor(handler: Dispatcher.DispatchHandler, onClose: (exchange: Exchange) => void) {
    this.#handler = handler
    this.#closed = onClose
  }

  get aborted(): boolean {
    return this.#reason !== null
  }

  get paused(): boolean {
    return this.#paused
  }

  get reason(): Error | null {
    return this.#reason
  }

  get isOver(): boolean {
    return this.#isOver
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    if (this.#pieces) this.#sendSoon()
  }

  /** Ends the exchange at once; its timers are cleared when this returns. */
  abort(reason: Error): void {
    if (this.#isOver) return
    this.#reason = reason ?? new errors.RequestAbortedError()
    this.#end()
    this.#handler.onResponseError?.(this, this.#reason)
  }

  /** Calls `action` after a delay, unless the exchange has ended by then. */
  later(delayMs: number, action: () => void): void {
    if (this.#isOver) return
    this.#timers.push(setTimeout(action, delayMs))
  }

  answer({ status, headers, body }: SandboxResponse): void {
    if (this.#isOver) return
    for (const timer of this.#timers) clearTimeout(timer)
    this.#pieces = body[Symbol.iterator]()
    this.#handler.onResponseStart?.(this, status, headers as IncomingHttpHeaders, '')
    this.#sendSoon()
  }

  #sendSoon(): void {
    if (this.#isOver || this.#turn) return
    this.#turn = setImmediate(() => {
      this.#turn = undefined
      this.#send()
    })
  }

  /** One chunk per turn of the event loop, so that a long response does not block others. */
  #send(): void {
    if (this.#paused || this.#isOver) return
    try {
      const { value, done } = this.#pieces!.next()
      if (done) {
        this.#end()
        this.#handler.onResponseEnd?.(this, {})
        return
      }
      this.#handler.onResponseData?.(this, Buffer.from(value))
      this.#sendSoon()
    } catch (error) {
      this.abort(error as Error)
    }
  }

  #end(): void {
    this.#isOver = true
    for (const timer of this.#timers) clearTimeout(timer)
    clearImmediate(this.#turn)
    this.#closed(this)
  }
}
