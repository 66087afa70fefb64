import type { Trace } from '../traces/trace.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'

/** Encoding of written text; `latin1` characters stand for raw bytes. */
export type Encoding = 'latin1' | 'utf8'

export type Leaving = 'unbilled' | 'at_once' | null

/** The connection state of a client. */
export type ClientPresence = {
  /** True once the client has disconnected. */
  readonly gone: boolean
  onGone(listener: () => void): void
  /**
   * How background work was ended: `unbilled` if the work is repeated or settled elsewhere, `at_once` if used
   * tokens are billed without waiting for the rest. Null or absent: as when an interactive client disconnects.
   */
  readonly leaving?: Leaving
  /**
   * True for background work, whose client is not waiting: when it is cancelled, the run waits for the usage of its stream
   * also where all output is delivered.
   */
  readonly awaitsUsage?: boolean
  /** The trace of the request; absent = none. */
  readonly trace?: Trace | null
  /** Called around the times in which the gateway waits for a provider, or before a retry. */
  beginWait?(): void
  endWait?(): void
}

/** Aborts once the client has disconnected. */
export function goneSignal(client: ClientPresence, reason?: Error): AbortSignal {
  const controller = new AbortController()
  client.onGone(() => controller.abort(reason))
  return controller.signal
}

/**
 * A deferred settlement: either charge the usage or release the reservation. `event` is its request-log entry; null for
 * an additional reservation.
 */
export type DeferredSettlement = { event: UsageEvent | null; settle(): void; release(): void }

/** What the log of input and output has of a request whose texts were masked: its input, and the placeholders of its values. */
type MaskedContent = { input: Buffer; placeholders: ReadonlyMap<string, string> }

/** Destination of an answer: an HTTP response, a delayed job or a batch line. */
export type ResponseWriter = ClientPresence & {
  /** The copy for the log of input and output; null or absent = not logged. */
  readonly copy?: { masked: MaskedContent | null } | null
  /** The gateway's own part of the request so far, in milliseconds; null or absent if it is not measured. */
  readonly ownMs?: number | null
  /** Receives settlements instead of executing them, so that the caller can persist the answer first. */
  readonly defer?: ((settlement: DeferredSettlement) => void) | null
  /**
   * Accounts for bytes of a buffered answer until the client has received it; 0 only checks for room. Throws 503 or 429
   * when the buffer budget is exhausted.
   */
  collect(bytes: number): void
  /** Sends a complete answer; JSON unless the headers say otherwise. */
  answer(headers: Record<string, string>, body: string): void
  /** Sends the head of a streamed answer; server-sent events unless the headers say otherwise. */
  open(headers: Record<string, string>): void
  /** Writes a chunk; false = wait for `onDrain` before the next. */
  write(text: string, encoding: Encoding): boolean
  /** Writes a chunk of a file. */
  send(bytes: Uint8Array): boolean
  onDrain(listener: () => void): void
  end(): void
  /** True while a file is stored instead of sent: it is completed even after the client disconnects. */
  readonly keeps: boolean
  /** Aborts the stream so it cannot be mistaken for complete. Returns true if no bytes were sent. */
  abandon(): boolean
}
