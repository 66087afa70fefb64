import { GatewayError } from '../base/errors.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import { canReason, reasonsBesideLimit } from '../catalog/traits.ts'
import type { RunServices } from '../engine/base-run.ts'
import { extendReservation } from '../engine/cut-calls.ts'
import type { Bill } from '../engine/report.ts'
import { storeUnavailable } from '../io/outage.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import { maxPicoPerOutputToken, mayExtendPrompt, reasoningExtensionTokens } from '../routing/pricing.ts'
import type { Reservation } from '../wallet/admission.ts'
import type { DeliveredOutput } from './delivered-output.ts'
import type { ChatRunInput } from './run-input.ts'

/** Output is reserved in increments of this many tokens while a stream runs. */
const outputExtensionTokens = 4_096
/** Faster than any model reasons: an upper bound of the hidden output so far, per choice. */
const maxTokensPerSecond = 500
/** No text has more tokens than half of its characters, apart from rare scripts. */
const minCharactersPerToken = 2
const tickMs = 1_000
/** Pause between a refusal and the next attempt to reserve. */
const retryMs = 1_000

/** Creates the incremental reservations of a call to `target` that can cost more than its own one; their ids begin with `id`. */
export function openReservationExtensions(
  services: RunServices,
  { key, features }: Pick<ChatRunInput<DirectKind>, 'key' | 'features'>,
  target: Target,
  marginPpm: bigint,
  { id, ...ends }: { id: string } & Pick<ExtensionOptions, 'reservation' | 'release' | 'end'>,
): ReservationExtensions {
  const { reservedTokens, outputTokens } = ends.reservation
  const unlimited = reasonsBesideLimit(target)
  return new ReservationExtensions({
    ...ends,
    reservedTokens: reservedTokens + (unlimited ? reasoningExtensionTokens : 0),
    maxTokens: unlimited ? Number.POSITIVE_INFINITY : outputTokens,
    extensionTokens: unlimited ? reasoningExtensionTokens : outputExtensionTokens,
    hidesOutput: unlimited || canReason(target.deployment),
    choices: features.choices,
    coversAll: mayExtendPrompt(target, features),
    picoPerToken: maxPicoPerOutputToken(target, features, marginPpm) * (ends.reservation.factor ?? 1),
    nowMs: () => services.monotonic.now(),
    reserve: (nano, number) => extendReservation(services, key, `${id}.${number}`, nano, ends.reservation.month),
  })
}

type ExtensionOptions = {
  /** The request's own reservation. */
  reservation: Reservation
  /** Output tokens per choice that it covers, and those that the call can produce. */
  reservedTokens: number
  maxTokens: number
  /** Output tokens per choice to reserve at a time. */
  extensionTokens: number
  /** Whether the model reasons unseen, so that its output is bounded by the time only. */
  hidesOutput: boolean
  choices: number
  /** Whether the limit does not bound the cost, because the prompt may grow while the call runs. */
  coversAll: boolean
  /** Maximum cost of one output token over all choices, in pico-dollars with margin. */
  picoPerToken: number
  nowMs(): MonotonicMs
  /** Reserves in addition to the request's own reservation. Throws what the admission throws. */
  reserve(nano: number, number: number): Promise<Reservation>
  release(reservation: Reservation): void
  /** Ends the call because the reserved amount may be exhausted. */
  end(error: GatewayError): void
}

/**
 * Reserves the output of a running call in increments, each before it can be needed. When one cannot be
 * reserved, the call is ended once the reserved amount may be exhausted.
 */
export class ReservationExtensions {
  readonly #options: ExtensionOptions
  readonly #startedMs: MonotonicMs
  /** The next increment is reserved when this much is left. */
  readonly #aheadTokens: number
  readonly #timer: NodeJS.Timeout | undefined
  readonly #reservations: Reservation[] = []
  /** Per choice: reserved, and received at the most. */
  #reservedTokens: number
  #receivedTokens = 0
  #attempts = 0
  #pending: Promise<void> | null = null
  #refusal: { error: GatewayError; atMs: MonotonicMs } | null = null
  #closed = false
  #released = false

  constructor(options: ExtensionOptions) {
    this.#options = options
    this.#reservedTokens = options.reservedTokens
    this.#aheadTokens = Math.min(options.extensionTokens, options.reservedTokens) / 2
    this.#startedMs = options.nowMs()
    this.#timer = options.hidesOutput ? setInterval(() => this.#reserveAhead(), tickMs).unref() : undefined
  }

  /** Reserved in addition to the request's own reservation, in nano-dollars. */
  get reservedNano(): number {
    return this.#reservations.reduce((sum, { reservedNano }) => sum + reservedNano, 0)
  }

  /** Takes what has come so far, also what is not delivered yet. */
  recordOutput({ additions, received }: DeliveredOutput): void {
    this.#receivedTokens = Math.max(additions, received / minCharactersPerToken) / this.#options.choices
    this.#reserveAhead()
  }

  /**
   * The bill of the finished call, whose cost is reserved: what its last output cost beyond the reservations is
   * reserved now, or else not charged. Cost above the request's maximum is charged as an excess;
   * so much of it as earlier requests have shown is reserved as well, if possible.
   */
  async cover(bill: Bill): Promise<Bill> {
    const { reservation } = this.#options
    await this.#pending
    this.stop()
    const reservedNano = reservation.reservedNano + this.reservedNano
    const beyond = (boundNano: number) => Math.max(0, Math.min(bill.costNano, boundNano) - reservedNano)
    const explainedNano = beyond(this.#maxNano)
    const expectedNano = beyond(this.#maxNano * (reservation.factor ?? 1))
    for (const missingNano of new Set([expectedNano, explainedNano])) {
      if (missingNano === 0) return bill
      const isReserved = await this.#reserve(missingNano).then(
        () => true,
        () => false,
      )
      if (isReserved) return bill
    }
    const costNano = bill.costNano - explainedNano
    const shownUsage = { ...bill.shownUsage, cost: costNano / 1e9 }
    return { ...bill, costNano, shownUsage, waiver: 'beyond_reservation' }
  }

  /** Stops reserving. */
  stop(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }

  /** Releases all increments, after the request was settled. */
  release(): void {
    this.stop()
    this.#released = true
    for (const reservation of this.#reservations.splice(0)) this.#options.release(reservation)
  }

  /** What the call can cost at the most, in nano-dollars; infinite where nothing bounds it. */
  get #maxNano(): number {
    const { reservation, maxTokens, coversAll } = this.#options
    if (coversAll) return Number.POSITIVE_INFINITY
    return reservation.maxNano + (Number.isFinite(maxTokens) ? 0 : this.reservedNano)
  }

  /** An upper bound of the output so far, in tokens per choice. */
  get #usedTokens(): number {
    const { hidesOutput, nowMs, maxTokens } = this.#options
    const hiddenTokens = hidesOutput ? (elapsedMs(this.#startedMs, nowMs()) / 1_000) * maxTokensPerSecond : 0
    return Math.min(Math.max(this.#receivedTokens, hiddenTokens), maxTokens)
  }

  /** Reserves the next increment when it is due; after a refusal, ends the call when the reserved tokens are used. */
  #reserveAhead(): void {
    const { nowMs, maxTokens, extensionTokens } = this.#options
    const neededTokens = Math.min(this.#usedTokens + this.#aheadTokens, maxTokens)
    if (this.#closed || this.#pending || neededTokens <= this.#reservedTokens) return
    if (this.#refusal && elapsedMs(this.#refusal.atMs, nowMs()) < retryMs) {
      this.#endIfExhausted(this.#refusal.error)
      return
    }
    const tokens = Math.max(extensionTokens, Math.ceil(neededTokens - this.#reservedTokens))
    this.#pending = this.#extend(Math.min(tokens, maxTokens - this.#reservedTokens))
  }

  async #extend(tokens: number): Promise<void> {
    try {
      await this.#reserve(Math.ceil((tokens * this.#options.picoPerToken) / 1_000))
      this.#reservedTokens += tokens
      this.#refusal = null
    } catch (cause) {
      const error = cause instanceof GatewayError ? cause : storeUnavailable(cause)
      this.#refusal = { error, atMs: this.#options.nowMs() }
      this.#endIfExhausted(error)
    } finally {
      this.#pending = null
    }
  }

  #endIfExhausted(error: GatewayError): void {
    if (!this.#closed && this.#usedTokens >= this.#reservedTokens) this.#options.end(error)
  }

  async #reserve(nano: number): Promise<void> {
    const reservation = await this.#options.reserve(nano, ++this.#attempts)
    if (this.#released) this.#options.release(reservation)
    else this.#reservations.push(reservation)
  }
}
