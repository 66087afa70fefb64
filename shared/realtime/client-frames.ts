import type { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import type { Target } from '../providers/contract.ts'
import type { Ask, RealtimeAdapter, RealtimeMeter } from '../providers/realtime-contract.ts'
import { tooEarly, tooMany, tooMuch } from './closing.ts'
import type { RollingReservation } from './reservation.ts'

/**
 * How much of a client's frames is parsed, which holds up all others: at once, and again every second. A small one counts as
 * `leastParsedBytes`: it may be answered with an error, which waits for its client.
 */
const mostParsedBytes = 4 * 1024 * 1024
const parsedBytesPerSecond = 64 * 1024
const leastParsedBytes = 1024
/** How many answers, and works of other models beside them, may be under way in a session when its client asks for one more. */
const maxUnderWay = 32

export type ClientFramesOptions = {
  adapter: RealtimeAdapter
  meter: RealtimeMeter
  target: Target
  reservation: RollingReservation
  clock: Clock
  /** Whether the session has ended: nothing is passed on any more. */
  isOver(): boolean
  /** Tells the client of an error; the session goes on. */
  warn(error: GatewayError): void
  /** Ends the session, with an error of ours or another one. */
  fail(error: unknown): void
  /** Reads from the client no further, and again. */
  pause(): void
  resume(): void
}

type Held = { frame: Buffer; pass: (frame: Buffer) => void }

/**
 * The frames of one session's client on their way to the provider, in their order: those that the provider must not see are kept back,
 * and one that may begin an answer waits until the answer is reserved for, or is refused.
 */
export class ClientFrames {
  readonly #options: ClientFramesOptions
  #parsedBytes = 0
  /** Whether a frame waits for its reservation, and what came after it. */
  #isWaiting = false
  #held: Held[] = []

  constructor(options: ClientFramesOptions) {
    this.#options = options
  }

  /** To be called every second. */
  tick(): void {
    this.#parsedBytes = Math.max(0, this.#parsedBytes - parsedBytesPerSecond)
  }

  /** A frame of the client: `pass` is called with what is to be sent in its place, if anything is, now or later. */
  take(frame: Buffer, pass: (frame: Buffer) => void): void {
    if (this.#isWaiting) this.#held.push({ frame, pass })
    else this.#try({ frame, pass })
  }

  #try({ frame, pass }: Held): void {
    const { meter, reservation, clock, isOver, fail } = this.#options
    if (isOver()) return
    try {
      const sent = this.#checked(frame)
      if (!sent) return
      const ask = meter.asks(sent)
      if (ask?.certain && meter.underWay.length >= maxUnderWay) this.#refuse(ask, tooMany(maxUnderWay))
      else if (ask && !reservation.covers(clock.now(), ask.work)) void this.#wait(sent, ask, pass)
      else this.#pass(sent, ask, pass)
    } catch (error) {
      fail(error)
    }
  }

  #pass(frame: Buffer, ask: Ask | null, pass: Held['pass']): void {
    this.#options.meter.sent(frame, ask, this.#options.clock.now())
    pass(frame)
  }

  /** Never rejects. */
  async #wait(frame: Buffer, ask: Ask, pass: Held['pass']): Promise<void> {
    const { reservation, clock, isOver, fail, pause, resume } = this.#options
    this.#isWaiting = true
    pause()
    const refusal = await reservation.cover(clock.now(), ask.work)
    this.#isWaiting = false
    try {
      if (isOver()) return
      if (refusal) this.#refuse(ask, refusal)
      else this.#pass(frame, ask, pass)
      while (this.#held.length > 0 && !this.#isWaiting) this.#try(this.#held.shift()!)
    } catch (error) {
      fail(error)
    } finally {
      if (!this.#isWaiting) resume()
    }
  }

  /** Refuses an answer that was asked for: the session goes on. Throws where what is refused is not the answer alone, but the session's sound or its key. */
  #refuse(ask: Ask, refusal: GatewayError): void {
    const isLasting = refusal.status === 401 || refusal.status === 403
    if (!ask.certain || isLasting) throw refusal
    this.#count(0)
    this.#options.warn(refusal)
  }

  /** What is sent to the provider in place of a frame; null for nothing. Throws for what ends the session. */
  #checked(frame: Buffer): Buffer | null {
    const { adapter, meter, target, warn } = this.#options
    const { opening, guard } = adapter
    const isOpening = opening !== undefined && !meter.begun
    const suspicious = guard?.suspects(frame) ? guard : null
    if (!isOpening && !suspicious) return frame
    this.#count(frame.length, isOpening)
    const refusal = suspicious?.refusal(frame)
    if (!refusal) return isOpening ? opening(frame, target) : frame
    warn(refusal)
    return null
  }

  #count(bytes: number, isOpening = false): void {
    this.#parsedBytes += Math.max(bytes, leastParsedBytes)
    if (this.#parsedBytes > mostParsedBytes) throw isOpening ? tooEarly(mostParsedBytes) : tooMuch(mostParsedBytes)
  }
}
