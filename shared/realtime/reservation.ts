import type { GatewayError } from '../base/errors.ts'
import { nanoFromPico, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Price } from '../catalog/schema.ts'
import { lengthPico, paidByTime, stretchNano, usePico } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'
import type { RealtimeMeter, RealtimeUse, Work } from '../providers/realtime-contract.ts'
import type { Admission, Ticket } from '../wallet/admission.ts'
import type { SessionPart } from '../wallet/usage-event.ts'
import { endsAtOnce, refusalOf } from './closing.ts'
import { Stake } from './stake.ts'
import { addUsage, noUsage } from './usage.ts'

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
/** Where a whole stretch cannot be reserved for what is under way, this part of it may be. */
const leastStretchPart = 8

/**
 * The money of one session. A stretch is reserved ahead; what was used is charged in parts, each on a reservation of its own,
 * so that a process that dies loses no more than the last seconds. What is under way and not reported is reserved for as well,
 * before it begins and while it goes on. When nothing more can be reserved, the session may use up what it has.
 */
export class RollingReservation {
  readonly #options: ReservationOptions
  readonly #price: Price
  readonly #stake: Stake
  /** What stands, oldest first; never empty. */
  #tickets: Ticket[]
  #takenMs: number
  /** When the provider began; null = not yet. */
  #beganMs: number | null = null
  #part = 0
  /** A name that is given twice would be one reservation counted twice. */
  #reservations = 0
  #usedPico = 0n
  #largestNano = 0
  readonly #usage = noUsage()
  /** Of the whole session: what earlier tickets were settled for. */
  #settledNano = 0
  #settledTokens = 0
  #refusal: GatewayError | null = null
  #refusedMs = Number.NEGATIVE_INFINITY
  /** Reservations change one at a time. */
  #changing: Promise<unknown> | null = null
  #closed = false

  constructor(options: ReservationOptions) {
    this.#options = options
    this.#price = options.target.deployment.price
    this.#stake = new Stake(options)
    this.#tickets = [options.ticket]
    this.#takenMs = options.nowMs
  }

  /** The provider opened the session: where time is paid, it runs from now on. */
  begin(nowMs: number): void {
    this.#beganMs = nowMs
  }

  /** Counts what the provider reports. */
  add(uses: readonly RealtimeUse[]): void {
    for (const use of uses) {
      const pico = this.#stake.isFree(use) ? 0n : usePico(this.#stake.price(use.upstreamModel), use)
      if ('usage' in use) addUsage(this.#usage, use.usage)
      this.#usedPico += pico
      this.#largestNano = Math.max(this.#largestNano, this.#nano(pico))
    }
  }

  /** What the session has used until now, in nano-dollars with margin, as far as is known. */
  usedNano(nowMs: number): number {
    return this.#totalNano(nowMs, true)
  }

  /** Whether what was used and what is under way, with what may begin `next`, is within what is reserved. */
  covers(nowMs: number, next?: Work): boolean {
    return this.#missingNano(nowMs, next) <= 0
  }

  /** Reserves until `covers` is true. Resolves to why it cannot, or null. Never rejects. */
  async cover(nowMs: number, next?: Work): Promise<GatewayError | null> {
    while (!this.#closed) {
      if (this.#changing) {
        await this.#changing
        continue
      }
      const missingNano = this.#missingNano(nowMs, next)
      if (missingNano <= 0) return null
      const refusal = await this.#alone(() => this.#extend(missingNano))
      if (refusal) return refusal
    }
    return null
  }

  /** Charges and renews what is due. Resolves to why the session must end, or null. Never rejects. */
  async renew(nowMs: number): Promise<GatewayError | null> {
    const { meter } = this.#options
    const short = meter.underWay.length > 0 ? await this.cover(nowMs) : null
    if (this.#closed || short) return short
    const atStake = this.#usedAtStake(nowMs) + this.#stake.nano(meter.underWay, nowMs)
    const ageMs = passedMs(this.#takenMs, nowMs)
    const isSpent = this.#spendsMoney && (atStake >= this.#reservedNano || ageMs >= keptMs)
    if (isSpent && this.#refusal) return this.#refusal
    const waits = this.#refusal !== null && passedMs(this.#refusedMs, nowMs) < tryAgainMs
    if (this.#changing || waits || !this.#isDue(atStake, ageMs)) return null
    this.#refusal = await this.#alone(() => this.#replace(nowMs))
    if (!this.#refusal) return null
    this.#refusedMs = nowMs
    return isSpent || endsAtOnce(this.#refusal) ? this.#refusal : null
  }

  /**
   * Settles what is left, once; what is under way is charged as it is likely to be, since nobody will report it. Never rejects.
   */
  async close(nowMs: number): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#changing
    const unreported = this.#options.meter.underWay.filter(({ begun }) => begun)
    if (unreported.length > 0) {
      this.add(unreported.map(work => this.#stake.estimate(work)))
      this.#usage.estimated = true
    }
    await this.#fill(this.#dueNano(nowMs, true))
    this.#settle(nowMs, this.#tickets, true)
  }

  get #spendsMoney(): boolean {
    return this.#options.ticket.spender.spendsMoney
  }

  get #reservedNano(): number {
    return this.#tickets.reduce((sum, { reservedNano }) => sum + reservedNano, 0)
  }

  #usedAtStake(nowMs: number): number {
    return this.usedNano(nowMs) - this.#settledNano
  }

  #missingNano(nowMs: number, next?: Work): number {
    if (!this.#spendsMoney) return 0
    const { underWay } = this.#options.meter
    const workNano = this.#stake.nano(next ? [...underWay, next] : underWay, nowMs)
    return workNano === 0 ? 0 : this.#usedAtStake(nowMs) + workNano - this.#reservedNano
  }

  /** Runs a change of the reservations, which gives why it cannot be made, or null. */
  async #alone(change: () => Promise<void>): Promise<GatewayError | null> {
    const changed = change().then(
      () => null,
      (error: unknown) => refusalOf(error),
    )
    this.#changing = changed
    const refusal = await changed
    this.#changing = null
    return refusal
  }

  async #extend(missingNano: number): Promise<void> {
    try {
      await this.#add(missingNano + this.#nextNano())
    } catch (error) {
      if (refusalOf(error).status !== 402) throw error
      await this.#add(missingNano + Math.ceil(this.#stretchNano() / leastStretchPart))
    }
  }

  async #add(nano: number): Promise<void> {
    this.#tickets.push(await this.#options.reserve(++this.#reservations, nano))
  }

  /** Puts a new reservation in the place of those that stand, which are settled for what was used. */
  async #replace(nowMs: number): Promise<void> {
    const { meter, reserve, release } = this.#options
    await this.#fill(this.#dueNano(nowMs, false))
    const nextNano = this.#nextNano() + this.#untoldNano(nowMs) + this.#stake.nano(meter.underWay, nowMs)
    const ticket = await reserve(++this.#reservations, nextNano)
    if (this.#closed) {
      release(ticket)
      return
    }
    const before = this.#tickets
    // Tokens count when they are charged: what was counted long ago is forgotten.
    for (const old of before) old.countedAtUs = ticket.countedAtUs
    this.#tickets = [ticket]
    this.#takenMs = nowMs
    this.#settle(nowMs, before, false)
  }

  /** Reserves what more was used than is reserved, where it can be: nothing is charged beyond a reservation that funds allow. */
  async #fill(dueNano: number): Promise<void> {
    const excessNano = dueNano - this.#reservedNano
    if (!this.#spendsMoney || excessNano <= 0) return
    await this.#add(excessNano).catch(() => {}) // It is charged all the same.
  }

  #isDue(atStake: number, ageMs: number): boolean {
    const used = atStake > 0 || this.#tokens() > this.#settledTokens
    const leftNano = this.#reservedNano - atStake
    return ageMs >= renewEveryMs || (used && (ageMs >= chargeEveryMs || leftNano * 2 <= this.#nextNano()))
  }

  /** As much as a stretch costs, and twice the dearest single thing so far: the next one may be as dear. */
  #nextNano(): number {
    return Math.max(this.#stretchNano(), 2 * this.#largestNano)
  }

  #stretchNano(): number {
    return stretchNano(this.#price, this.#options.marginPpm)
  }

  /** What was used by our clock that the provider's own has not told yet: it is reserved for, and not charged. */
  #untoldNano(nowMs: number): number {
    return Math.max(0, this.usedNano(nowMs) - this.#totalNano(nowMs, false))
  }

  #dueNano(nowMs: number, last: boolean): number {
    return Math.max(0, this.#totalNano(nowMs, last) - this.#settledNano)
  }

  /** Charges what is due, each ticket with what is reserved on it, the last one with all that is left. */
  #settle(nowMs: number, tickets: readonly Ticket[], last: boolean): void {
    let dueNano = this.#dueNano(nowMs, last)
    const tokens = this.#tokens() - this.#settledTokens
    this.#settledNano += dueNano
    this.#settledTokens += tokens
    for (const ticket of tickets.slice(0, -1)) {
      const costNano = Math.min(dueNano, ticket.reservedNano)
      dueNano -= costNano
      this.#charge(nowMs, { ticket, costNano, tokens: 0 }, false)
    }
    this.#charge(nowMs, { ticket: tickets.at(-1)!, costNano: dueNano, tokens }, last)
  }

  #charge(
    nowMs: number,
    { ticket, costNano, tokens }: Pick<Part, 'ticket' | 'costNano' | 'tokens'>,
    last: boolean,
  ): void {
    if (costNano === 0 && tokens === 0 && !last) {
      this.#options.release(ticket)
      return
    }
    const paid = { ticket, costNano: this.#spendsMoney ? costNano : 0, tokens }
    const usage = structuredClone(this.#usage)
    this.#options.settle({ part: this.#part++, chargedAt: nowMs, ...paid, usage }, last)
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
