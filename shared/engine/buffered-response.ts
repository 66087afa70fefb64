import type { Encoding, ResponseWriter } from './response-writer.ts'

/** Response writer of a delayed request: buffers the complete answer in memory, and ignores a stream. */
export class BufferedResponse implements ResponseWriter {
  gone = false
  trace: ResponseWriter['trace'] = null
  leaving: 'unbilled' | 'at_once' = 'unbilled'
  readonly keeps = false
  /** The answer's JSON text; null until it is complete. */
  body: string | null = null
  readonly #listeners: (() => void)[] = []

  /** Aborts the call. */
  leave(how: 'unbilled' | 'at_once' = 'unbilled'): void {
    if (this.gone) return
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
