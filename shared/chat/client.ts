import type { Encoding } from './relay.ts'

/** Who waits for the answer: an HTTP response, or whatever a job or a batch line makes of it. */
export type Client = {
  /** True once nobody waits any more. */
  readonly gone: boolean
  onGone(listener: () => void): void
  /** The whole answer at once. */
  answer(headers: Record<string, string>, body: string): void
  /** The head of a streamed answer. */
  open(headers: Record<string, string>): void
  /** A part of it; false = wait for `onDrain` before the next. */
  write(text: string, encoding: Encoding): boolean
  onDrain(listener: () => void): void
  end(): void
}
