import type { IncomingHttpHeaders } from 'node:http'
import { type Dispatcher, errors } from 'undici'
import type { Answer } from './answer.ts'

/** One request and its answer: gives the answer to undici's handler piece by piece, no faster than it is read. */
export class Exchange implements Dispatcher.DispatchController {
  readonly #handler: Dispatcher.DispatchHandler
  readonly #closed: (exchange: Exchange) => void
  #timers: NodeJS.Timeout[] = []
  #turn: NodeJS.Immediate | undefined
  #pieces: Iterator<string> | undefined
  #paused = false
  #over = false
  #reason: Error | null = null

  /** `closed` is called once, when the answer is whole or the exchange was aborted. */
  constructor(handler: Dispatcher.DispatchHandler, closed: (exchange: Exchange) => void) {
    this.#handler = handler
    this.#closed = closed
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

  get over(): boolean {
    return this.#over
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    if (this.#pieces) this.#sendSoon()
  }

  /** Ends the exchange at once; its timers are gone when this returns. */
  abort(reason: Error): void {
    if (this.#over) return
    this.#reason = reason ?? new errors.RequestAbortedError()
    this.#end()
    this.#handler.onResponseError?.(this, this.#reason)
  }

  /** Calls `action` after a while, unless the exchange is over by then. */
  later(delayMs: number, action: () => void): void {
    if (this.#over) return
    this.#timers.push(setTimeout(action, delayMs))
  }

  answer({ status, headers, body }: Answer): void {
    if (this.#over) return
    for (const timer of this.#timers) clearTimeout(timer)
    this.#pieces = body[Symbol.iterator]()
    this.#handler.onResponseStart?.(this, status, headers as IncomingHttpHeaders, '')
    this.#sendSoon()
  }

  #sendSoon(): void {
    if (this.#over || this.#turn) return
    this.#turn = setImmediate(() => {
      this.#turn = undefined
      this.#send()
    })
  }

  /** One piece per turn of the event loop, so that a long answer starves nobody. */
  #send(): void {
    if (this.#paused || this.#over) return
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
    this.#over = true
    for (const timer of this.#timers) clearTimeout(timer)
    clearImmediate(this.#turn)
    this.#closed(this)
  }
}
