import type { UsageEvent } from '../wallet/usage-event.ts'
import type { Encoding } from './relay.ts'

/** Somebody who waits, and may leave. */
export type Waiting = {
  /** True once nobody waits any more. */
  readonly gone: boolean
  onGone(listener: () => void): void
  /**
   * How a client of work that nobody waits for leaves: `unbilled` where the work is done again or settled elsewhere, `at_once` where
   * what was used is billed and not read on. Absent for everybody else.
   */
  readonly leaving?: 'unbilled' | 'at_once'
}

/**
 * How a run ends for its money: what it used is charged, or nothing is. `event` is its line in the request log; null for what
 * was only reserved beside it.
 */
export type HeldSettlement = { event: UsageEvent | null; settle(): void; release(): void }

/** Who waits for the answer: an HTTP response, or whatever a job or a batch line makes of it. */
export type Client = Waiting & {
  /** Takes settlements instead of them being carried out: whoever keeps the answer first carries them out after it. */
  readonly hold?: ((settlement: HeldSettlement) => void) | null
  /**
   * Bytes of a whole answer are held for this client until it has taken the answer; 0 asks whether there is room. Throws the
   * 503 or 429 of a full budget.
   */
  collect(bytes: number): void
  /** The whole answer at once; JSON unless its headers say otherwise. */
  answer(headers: Record<string, string>, body: string): void
  /** The head of a streamed answer; server-sent events unless its headers say otherwise. */
  open(headers: Record<string, string>): void
  /** A part of it; false = wait for `onDrain` before the next. */
  write(text: string, encoding: Encoding): boolean
  /** A part of a file. */
  send(bytes: Uint8Array): boolean
  onDrain(listener: () => void): void
  end(): void
  /** True while a file is kept for later instead of being sent: it is wanted although its client left. */
  readonly keeps: boolean
  /** Breaks off a streamed answer so that nobody takes it for a whole one; true = nobody has seen any of it. */
  abandon(): boolean
}
