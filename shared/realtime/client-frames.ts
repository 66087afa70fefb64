import type { GatewayError } from '../base/errors.ts'
import type { MonotonicClock } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { allowedModels, type Policy } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'
import type { JudgeModel, RealtimeAdapter, RealtimeMeter, WorkRequest } from '../providers/realtime-contract.ts'
import { answerLimitError, earlyDataError, settingsLimitError } from './closing.ts'
import { findOffer } from './prices.ts'
import type { RollingReservation } from './reservation.ts'

/**
 * Limits on parsing client frames, which blocks all sessions: burst, and refill per second. A small frame counts as
 * `minParsedBytes`: it may be answered with an error, which is buffered for its client.
 */
const maxParsedBytes = 4 * 1024 * 1024
const parsedBytesPerSecond = 64 * 1024
const minParsedBytes = 1024
/** Maximum responses in progress, including work of other models, when the client requests one more. */
const maxUnderWay = 32

type ClientFramesOptions = {
  adapter: RealtimeAdapter
  meter: RealtimeMeter
  target: Target
  reservation: RollingReservation
  monotonic: MonotonicClock
  /** The prices of the models that the session may use. */
  catalog: Catalog
  /** The policy of the session's key. */
  policy(): Policy
  /** Whether the session has ended: no further frames are forwarded. */
  isOver(): boolean
  /** Sends an error to the client; the session continues. */
  warn(error: GatewayError): void
  /** Ends the session with any error. */
  fail(error: unknown): void
  /** Pauses and resumes reading from the client. */
  pause(): void
  resume(): void
}

type QueuedFrame = { frame: Buffer; pass: (frame: Buffer) => void }

/**
 * Forwards the frames of one session's client to the provider, in order: drops those the provider must not see, and
 * delays one that may start a response until the response is reserved for or refused.
 */
export class ClientFrames {
  readonly #options: ClientFramesOptions
  #parsedBytes = 0
  /** Whether a frame waits for its reservation, and the frames received after it. */
  #isWaiting = false
  #queued: QueuedFrame[] = []

  constructor(options: ClientFramesOptions) {
    this.#options = options
  }

  /** Must be called every second. */
  tick(): void {
    this.#parsedBytes = Math.max(0, this.#parsedBytes - parsedBytesPerSecond)
  }

  /** Processes a client frame: `pass` is called with its replacement, if any, now or later. */
  take(frame: Buffer, pass: (frame: Buffer) => void): void {
    if (this.#isWaiting) this.#queued.push({ frame, pass })
    else this.#process({ frame, pass })
  }

  #process({ frame, pass }: QueuedFrame): void {
    const { meter, reservation, monotonic, isOver, fail } = this.#options
    if (isOver()) return
    try {
      const screened = this.#screen(frame)
      if (!screened) return
      const ask = meter.detectRequest(screened)
      if (ask?.isCertain && meter.pendingWork.length >= maxUnderWay) this.#refuse(ask, answerLimitError(maxUnderWay))
      else if (ask && !reservation.covers(monotonic.now(), ask.work)) void this.#reserveThenPass(screened, ask, pass)
      else this.#pass(screened, ask, pass)
    } catch (error) {
      fail(error)
    }
  }

  #pass(frame: Buffer, ask: WorkRequest | null, pass: QueuedFrame['pass']): void {
    this.#options.meter.countSent(frame, ask, this.#options.monotonic.now())
    pass(frame)
  }

  /** Never rejects. */
  async #reserveThenPass(frame: Buffer, ask: WorkRequest, pass: QueuedFrame['pass']): Promise<void> {
    const { reservation, monotonic, isOver, fail, pause, resume } = this.#options
    this.#isWaiting = true
    pause()
    const refusal = await reservation.cover(monotonic.now(), ask.work)
    this.#isWaiting = false
    try {
      if (isOver()) return
      if (refusal) this.#refuse(ask, refusal)
      else this.#pass(frame, ask, pass)
      while (this.#queued.length > 0 && !this.#isWaiting) this.#process(this.#queued.shift()!)
    } catch (error) {
      fail(error)
    } finally {
      if (!this.#isWaiting) resume()
    }
  }

  /**
   * Refuses a requested response; the session continues. Throws if the refusal concerns the session's audio or its key.
   */
  #refuse(ask: WorkRequest, refusal: GatewayError): void {
    const isLasting = refusal.status === 401 || refusal.status === 403
    if (!ask.isCertain || isLasting) throw refusal
    this.#count(0)
    this.#options.warn(refusal)
  }

  /** Returns the frame to forward; null for none. Throws errors that end the session. */
  #screen(frame: Buffer): Buffer | null {
    const { adapter, meter, target, warn } = this.#options
    const { opening, guard } = adapter
    const isOpening = opening !== undefined && !meter.hasBegun
    const suspicious = guard?.suspects(frame) ? guard : null
    if (!isOpening && !suspicious) return frame
    this.#count(frame.length, isOpening)
    const refusal = suspicious?.refusal(frame, this.#judge)
    if (refusal) {
      warn(refusal)
      return null
    }
    const kept = suspicious?.strip?.(frame, this.#judge) ?? frame
    return isOpening ? opening(kept, target) : kept
  }

  /** A session may name further models besides its own: those that have a price and that its key may use. */
  readonly #judge: JudgeModel = name => {
    const { catalog, target, policy } = this.#options
    const offer = findOffer(catalog, target, name)
    if (!offer) return 'unpriced'
    return allowedModels(catalog, policy())?.has(offer.model) === false ? 'not_allowed' : null
  }

  #count(bytes: number, isOpening = false): void {
    this.#parsedBytes += Math.max(bytes, minParsedBytes)
    if (this.#parsedBytes > maxParsedBytes)
      throw isOpening ? earlyDataError(maxParsedBytes) : settingsLimitError(maxParsedBytes)
  }
}
