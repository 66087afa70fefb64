import type { Client } from './client.ts'

/** Whoever waits for the answer of a delayed request: it comes whole or not at all. */
export class WholeClient implements Client {
  gone = false
  leaving: 'unbilled' | 'at_once' = 'unbilled'
  readonly keeps = false
  /** The answer's JSON text, once it is there. */
  body: string | null = null
  readonly #listeners: (() => void)[] = []

  /** Cuts the call off. */
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

  /** Delayed requests are few at a time. */
  collect(): void {}

  answer(_headers: Record<string, string>, body: string): void {
    this.body = body
  }

  // The parts of a streamed answer, which nobody asks for.
  open(): void {}
  write(): boolean {
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
