import { GatewayError } from '../base/errors.ts'
import { nanoFromPico, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Price } from '../catalog/schema.ts'
import { isOutage, unavailable } from '../io/outage.ts'
import { lengthPico, paidByTime, stretchNano, usePico } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'
import type { RealtimeMeter, RealtimeUse } from '../providers/realtime-contract.ts'
import type { Admission, Ticket } from '../wallet/admission.ts'
import type { SessionPart } from '../wallet/usage-event.ts'
import { priceOf } from './prices.ts'

/** What is charged at a time, and the moment's figures of the whole session. */
export type Part = SessionPart & { ticket: Ticket; costNano: number; tokens: number; usage: Usage }

export type ReservationOptions = {
  target: Target
  catalog: Catalog
  marginPpm: bigint
  meter: RealtimeMeter
  /** The first one. */
  ticket: Ticket
  nowMs: number
  /** Reserves the next stretch; `number` is given once only. Throws as the admission does. */
  reserve(number: number, nano: number): Promise<Ticket>
  /** Settles a ticket with what was used on it. */
  settle(part: Part, last: boolean): void
  release: Admission['release']
}

/** What was used is charged so often, and what is reserved is renewed so often where nothing was. */
const chargeEveryMs = 15_000
const renewEveryMs = 3 * 60_000
/** Nothing is spent on an older reservation: after five minutes at the earliest the sweeper takes it for forgotten. */
const keptMs = 4.5 * 60_000
/** After a refusal the next try. */
const tryAgainMs = 5_000

/**
 * The money of one session. A stretch is reserved ahead; what was used is charged in parts, each on a reservation of its own,
 * so that a process that dies loses no more than the last seconds. When nothing more can be reserved, the session may use
 * up what it has.
 */
export class RollingReservation {
  readonly #options: ReservationOptions
  readonly #price: Price
  #ticket: Ticket
  #takenMs: number
  /** When the provider began; null = not yet. */
  #beganMs: number | null = null
  #part = 0
  /** A name that is given twice would be one reservation counted twice. */
  #reservations = 0
  #usedPico = 0n
  #largestNano = 0
  readonly #usage = noUsage()
  /** Of the whole session: what earlier tickets were settled for, before the key's cap. */
  #settledNano = 0
  #settledTokens = 0
  #refusal: GatewayError | null = null
  #refusedMs = Number.NEGATIVE_INFINITY
  #renewing = false
  #closed = false

  constructor(options: ReservationOptions) {
    this.#options = options
    this.#price = options.target.deployment.price
    this.#ticket = options.ticket
    this.#takenMs = options.nowMs
  }

  /** The provider opened the session: where time is paid, it runs from now on. */
  begin(nowMs: number): void {
    this.#beganMs = nowMs
  }

  /** Counts what the provider reports. */
  add(uses: readonly RealtimeUse[]): void {
    const { catalog, target } = this.#options
    for (const use of uses) {
      // Where the session is paid by time, that is all that its own model costs.
      const isFree = use.upstreamModel === null && paidByTime(this.#price)
      const price = use.upstreamModel === null ? this.#price : priceOf(catalog, target, use.upstreamModel)
      const pico = isFree ? 0n : usePico(price, use)
      if ('usage' in use) addUsage(this.#usage, use.usage)
      this.#usedPico += pico
      this.#largestNano = Math.max(this.#largestNano, this.#nano(pico))
    }
  }

  /** What the session has used until now, in nano-dollars with margin, as far as is known. */
  usedNano(nowMs: number): number {
    return this.#totalNano(nowMs, true)
  }

  /** Charges and renews what is due. Resolves to why the session must end, or null. Never throws. */
  async renew(nowMs: number): Promise<GatewayError | null> {
    if (this.#closed) return null
    const atStake = this.usedNano(nowMs) - this.#settledNano
    const ageMs = passedMs(this.#takenMs, nowMs)
    const { spender, reservedNano } = this.#ticket
    const isSpent = spender.spendsMoney && (atStake >= reservedNano || ageMs >= keptMs)
    if (isSpent && this.#refusal) return this.#refusal
    const waits = this.#refusal !== null && passedMs(this.#refusedMs, nowMs) < tryAgainMs
    if (this.#renewing || waits || !this.#isDue(atStake, ageMs)) return null
    this.#renewing = true
    try {
      const ticket = await this.#options.reserve(++this.#reservations, this.#nextNano() + this.#untoldNano(nowMs))
      if (this.#closed) {
        this.#options.release(ticket)
        return null
      }
      // Tokens count in the minute in which they are charged: one long past is forgotten.
      this.#ticket.minute = ticket.minute
      this.#settle(nowMs, false)
      this.#ticket = ticket
      this.#takenMs = nowMs
      this.#refusal = null
      return null
    } catch (error) {
      this.#refusal = refusalOf(error)
      this.#refusedMs = nowMs
      return isSpent || endsAtOnce(this.#refusal) ? this.#refusal : null
    } finally {
      this.#renewing = false
    }
  }

  /** Settles what is left, once. */
  close(nowMs: number): void {
    if (this.#closed) return
    this.#closed = true
    this.#settle(nowMs, true)
  }

  #isDue(atStake: number, ageMs: number): boolean {
    const used = atStake > 0 || this.#tokens() > this.#settledTokens
    const leftNano = this.#ticket.reservedNano - atStake
    return ageMs >= renewEveryMs || (used && (ageMs >= chargeEveryMs || leftNano * 2 <= this.#nextNano()))
  }

  /** As much as a stretch costs, and twice the dearest single thing so far: the next one may be as dear. */
  #nextNano(): number {
    return Math.max(stretchNano(this.#price, this.#options.marginPpm), 2 * this.#largestNano)
  }

  /** What was used by our clock that the provider's own has not told yet: it is reserved for, and not charged. */
  #untoldNano(nowMs: number): number {
    return Math.max(0, this.usedNano(nowMs) - this.#totalNano(nowMs, false))
  }

  #settle(nowMs: number, last: boolean): void {
    const ticket = this.#ticket
    const dueNano = Math.max(0, this.#totalNano(nowMs, last) - this.#settledNano)
    const tokens = this.#tokens() - this.#settledTokens
    if (dueNano === 0 && tokens === 0 && !last) {
      this.#options.release(ticket)
      return
    }
    const costNano = ticket.spender.spendsMoney ? dueNano : 0
    this.#settledNano += dueNano
    this.#settledTokens += tokens
    const usage = structuredClone(this.#usage)
    const part = this.#part++
    this.#options.settle({ part, chargedAt: nowMs, ticket, costNano, tokens, usage }, last)
  }

  #totalNano(nowMs: number, ours: boolean): number {
    return this.#nano(this.#usedPico + this.#timePico(nowMs, ours))
  }

  /** Where the provider's own clock counts, ours does only for what may come, and at the end for what it never told. */
  #timePico(nowMs: number, ours: boolean): bigint {
    if (!paidByTime(this.#price)) return 0n
    const { ownClock, sessionSeconds } = this.#options.meter
    const sinceMs = this.#beganMs === null ? 0 : Math.max(0, nowMs - this.#beganMs)
    const theirsMs = sessionSeconds === null || !Number.isFinite(sessionSeconds) ? null : sessionSeconds * 1_000
    const ms = ownClock ? (theirsMs ?? (ours ? sinceMs : 0)) : sinceMs
    return lengthPico(this.#price, ms)
  }

  #tokens(): number {
    return this.#usage.total_tokens
  }

  #nano(pico: bigint): number {
    return Number(nanoFromPico(withMargin(pico, this.#options.marginPpm)))
  }
}

/** How long ago something was; a clock that was set back holds nothing up. */
function passedMs(fromMs: number, nowMs: number): number {
  return Math.abs(nowMs - fromMs)
}

function noUsage() {
  return {
    prompt_tokens: 0,
    completion_tokens: 0,
    total_tokens: 0,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  }
}

function addUsage(sum: ReturnType<typeof noUsage>, usage: Usage): void {
  sum.prompt_tokens += usage.prompt_tokens
  sum.completion_tokens += usage.completion_tokens
  sum.total_tokens += usage.total_tokens
  sum.prompt_tokens_details.cached_tokens += usage.prompt_tokens_details?.cached_tokens ?? 0
  sum.completion_tokens_details.reasoning_tokens += usage.completion_tokens_details?.reasoning_tokens ?? 0
}

function refusalOf(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  if (isOutage(error)) return unavailable(error)
  return new GatewayError('internal_error', 'Something went wrong on our side.', { cause: error })
}

/** What was reserved may be used up when money ends or a store is away; a key that may no longer go on ends now. */
function endsAtOnce({ status }: GatewayError): boolean {
  return status === 401 || status === 403 || status === 429
}
