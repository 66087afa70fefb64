import type { Encoding, Leaving, ResponseWriter } from './response-writer.ts'

/** Response writer of a delayed request: buffers the complete answer in memory, and ignores a stream. */
export class BufferedResponse implements ResponseWriter {
  gone = false
  trace: ResponseWriter['trace'] = null
  leaving: Leaving = null
  readonly awaitsUsage = true
  readonly keeps = false
  /** The answer's JSON text; null until it is complete. */
  body: string | null = null
  readonly #listeners: (() => void)[] = []

  /**
   * Ends the call: at once, or, with null, as if an interactive client had disconnected; then it may still be ended at
   * once.
   */
  leave(how: Leaving = 'unbilled'): void {
    if (this.gone && (this.leaving || !how)) return
    this.gone = true
    this.leaving = how
    for (const listener of this.#listeners) listener()
  }

  onGone(listener: () => void): void {
    this.#listeners.push(listener)
    if (this.gone) listener()
  }

  /** Not limited: few delayed requests run concurrently. */
  collect(): void {}

  answer(_headers: Record<string, string>, body: string): void {
    this.body = body
  }

  open(): void {}
  write(_text: string, _encoding: Encoding): boolean {
    return true
  }
  send(): boolean {
    return true
  }
  onDrain(): void {}
  end(): void {}
  abandon(): boolean {
    return true
  }
}
