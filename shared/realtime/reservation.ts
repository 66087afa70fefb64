import type { GatewayError } from '../base/errors.ts'
import { nanoFromPico, withMargin } from '../base/money.ts'
import { elapsedMs, longAgo, type MonotonicMs } from '../base/time.ts'
import type { Usage } from '../base/usage.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Price } from '../catalog/schema.ts'
import { publicError } from '../engine/failures.ts'
import { durationCostPico, intervalHoldNano, isPricedByTime, usageCostPico } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'
import type { PendingWork, RealtimeMeter, RealtimeUse } from '../providers/realtime-contract.ts'
import type { Admission, Reservation } from '../wallet/admission.ts'
import { endsImmediately } from './closing.ts'
import { UnreportedCost } from './unreported-cost.ts'

type Charge = { reservation: Reservation; costNano: number; tokens: number }
/**
 * One charge, made at `chargedMs`, and the current figures of the whole session. `upstreamCostNano`: what it has cost at the provider
 * by its price list.
 */
export type Part = Charge & { part: number; chargedMs: MonotonicMs; usage: Usage; upstreamCostNano: number }

type ReservationOptions = {
  target: Target
  catalog: Catalog
  marginPpm: bigint
  meter: RealtimeMeter
  /** The initial reservation. */
  reservation: Reservation
  nowMs: MonotonicMs
  /** Reserves the next increment; each `number` is used once only. Throws as the admission does. */
  reserve(number: number, nano: number): Promise<Reservation>
  /** Settles a reservation with its usage. */
  settle(part: Part, isLast: boolean): void
  release: Admission['release']
}

/** Interval of charges, and interval of renewals without usage. */
const chargeEveryMs = 15_000
const renewEveryMs = 3 * 60_000
/** Maximum age of a reservation in use: the sweeper releases it after five minutes at the earliest. */
const maxReservationAgeMs = 4.5 * 60_000
/** Backoff after a refusal. */
const retryMs = 5_000
/** When a full increment cannot be reserved for work in progress, this fraction of it may be. */
const minExtensionPart = 8

/**
 * The rolling reservation of one session. An increment is reserved in advance; usage is charged in parts, each on its
 * own reservation, so that a crash loses at most the last seconds. Unreported work in progress is reserved for as well,
 * before it starts and while it runs. When nothing more can be reserved, the session may use up what it has.
 */
export class RollingReservation {
  readonly #options: ReservationOptions
  readonly #price: Price
  readonly #unreported: UnreportedCost
  /** Open reservations, oldest first; never empty. */
  #reservations: Reservation[]
  #reservedAtMs: MonotonicMs
  /** When the provider opened the session; null = not yet. */
  #openedAtMs: MonotonicMs | null = null
  #part = 0
  /** Reusing an id would count one reservation twice. */
  #lastNumber = 0
  #usedPico = 0n
  #maxUseNano = 0
  readonly #usage = noUsage()
  /** Totals already settled on earlier reservations. */
  #settledNano = 0
  #settledTokens = 0
  #refusal: GatewayError | null = null
  #refusedMs = longAgo
  /** Reservation changes are serialized. */
  #changing: Promise<unknown> | null = null
  #closed = false

  constructor(options: ReservationOptions) {
    this.#options = options
    this.#price = options.target.deployment.price
    this.#unreported = new UnreportedCost(options)
    this.#reservations = [options.reservation]
    this.#reservedAtMs = options.nowMs
  }

  /** The provider opened the session: time-based charges start now. */
  begin(nowMs: MonotonicMs): void {
    this.#openedAtMs = nowMs
  }

  /** Adds usage reported by the provider, and estimates of what it did not report. */
  add(uses: readonly RealtimeUse[]): void {
    for (const reported of uses) {
      const isUnreported = 'unreported' in reported
      if (isUnreported && this.#unreported.isFree(reported)) continue
      if (isUnreported) this.#usage.estimated = true
      const use = isUnreported ? this.#unreported.estimate(reported.unreported) : reported
      const pico = this.#unreported.isFree(use) ? 0n : usageCostPico(this.#unreported.price(use.upstreamModel), use)
      if ('usage' in use) addUsage(this.#usage, use.usage)
      this.#usedPico += pico
      this.#maxUseNano = Math.max(this.#maxUseNano, this.#nano(pico))
    }
  }

  /** Known usage of the session so far, in nano-dollars with margin. */
  usedNano(nowMs: MonotonicMs): number {
    return this.#totalNano(nowMs, true)
  }

  /** Whether usage and work in progress, including `next`, are covered by the reservations. */
  covers(nowMs: MonotonicMs, next?: PendingWork): boolean {
    return this.#missingNano(nowMs, next) <= 0
  }

  /** Reserves until `covers` is true. Resolves to the refusal, or null. Never rejects. */
  async cover(nowMs: MonotonicMs, next?: PendingWork): Promise<GatewayError | null> {
    while (!this.#closed) {
      if (this.#changing) {
        await this.#changing
        continue
      }
      const missingNano = this.#missingNano(nowMs, next)
      if (missingNano <= 0) return null
      const refusal = await this.#runExclusively(() => this.#extend(missingNano))
      if (refusal) return refusal
    }
    return null
  }

  /** Charges and renews what is due. Resolves to the error that ends the session, or null. Never rejects. */
  async renew(nowMs: MonotonicMs): Promise<GatewayError | null> {
    const { meter } = this.#options
    const shortfall = meter.pendingWork.length > 0 ? await this.cover(nowMs) : null
    if (this.#closed || shortfall) return shortfall
    const unsettledNano = this.#unsettledNano(nowMs) + this.#unreported.nano(meter.pendingWork, nowMs)
    const ageMs = elapsedMs(this.#reservedAtMs, nowMs)
    const isExhausted = this.#spendsMoney && (unsettledNano >= this.#reservedNano || ageMs >= maxReservationAgeMs)
    if (isExhausted && this.#refusal) return this.#refusal
    const isBackingOff = this.#refusal !== null && elapsedMs(this.#refusedMs, nowMs) < retryMs
    if (this.#changing || isBackingOff || !this.#isDue(unsettledNano, ageMs)) return null
    this.#refusal = await this.#runExclusively(() => this.#replace(nowMs))
    if (!this.#refusal) return null
    this.#refusedMs = nowMs
    return isExhausted || endsImmediately(this.#refusal) ? this.#refusal : null
  }

  /** Settles the rest, once; unreported work in progress is charged at its estimate. Never rejects. */
  async close(nowMs: MonotonicMs): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#changing
    const unreported = this.#options.meter.pendingWork.filter(({ hasBegun }) => hasBegun)
    if (unreported.length > 0) {
      this.add(unreported.map(work => this.#unreported.estimate(work)))
      this.#usage.estimated = true
    }
    await this.#coverExcess(this.#dueNano(nowMs, true))
    this.#settle(nowMs, this.#reservations, true)
  }

  get #spendsMoney(): boolean {
    return this.#options.reservation.billing.spendsMoney
  }

  get #reservedNano(): number {
    return this.#reservations.reduce((sum, { reservedNano }) => sum + reservedNano, 0)
  }

  #unsettledNano(nowMs: MonotonicMs): number {
    return this.usedNano(nowMs) - this.#settledNano
  }

  #missingNano(nowMs: MonotonicMs, next?: PendingWork): number {
    if (!this.#spendsMoney) return 0
    const { pendingWork: underWay } = this.#options.meter
    const workNano = this.#unreported.nano(next ? [...underWay, next] : underWay, nowMs)
    return workNano === 0 ? 0 : this.#unsettledNano(nowMs) + workNano - this.#reservedNano
  }

  /** Runs a change of the reservations exclusively; resolves to the refusal, or null. */
  async #runExclusively(change: () => Promise<void>): Promise<GatewayError | null> {
    const changed = change().then(
      () => null,
      (error: unknown) => publicError(error),
    )
    this.#changing = changed
    const refusal = await changed
    this.#changing = null
    return refusal
  }

  async #extend(missingNano: number): Promise<void> {
    try {
      await this.#addReservation(missingNano + this.#nextNano())
    } catch (error) {
      if (publicError(error).status !== 402) throw error
      await this.#addReservation(missingNano + Math.ceil(this.#intervalHoldNano() / minExtensionPart))
    }
  }

  async #addReservation(nano: number): Promise<void> {
    this.#reservations.push(await this.#options.reserve(++this.#lastNumber, nano))
  }

  /** Replaces the open reservations by a new one and settles them for their usage. */
  async #replace(nowMs: MonotonicMs): Promise<void> {
    const { meter, reserve, release } = this.#options
    await this.#coverExcess(this.#dueNano(nowMs, false))
    const nextNano = this.#nextNano() + this.#unconfirmedNano(nowMs) + this.#unreported.nano(meter.pendingWork, nowMs)
    const reservation = await reserve(++this.#lastNumber, nextNano)
    if (this.#closed) {
      release(reservation)
      return
    }
    const replaced = this.#reservations
    // Tokens count from the time of the charge: earlier counts have left the window.
    for (const previous of replaced) previous.tokenBucketsUs = reservation.tokenBucketsUs
    this.#reservations = [reservation]
    this.#reservedAtMs = nowMs
    this.#settle(nowMs, replaced, false)
  }

  /** Reserves usage beyond the reservations if funds allow, so that charges stay within reservations. */
  async #coverExcess(dueNano: number): Promise<void> {
    const excessNano = dueNano - this.#reservedNano
    if (!this.#spendsMoney || excessNano <= 0) return
    await this.#addReservation(excessNano).catch(() => {}) // It is charged anyway.
  }

  #isDue(unsettledNano: number, ageMs: number): boolean {
    const used = unsettledNano > 0 || this.#tokens() > this.#settledTokens
    const leftNano = this.#reservedNano - unsettledNano
    return ageMs >= renewEveryMs || (used && (ageMs >= chargeEveryMs || leftNano * 2 <= this.#nextNano()))
  }

  /** The price of an increment, at least twice the most expensive single usage so far: the next may cost as much. */
  #nextNano(): number {
    return Math.max(this.#intervalHoldNano(), 2 * this.#maxUseNano)
  }

  #intervalHoldNano(): number {
    const { marginPpm, reservation } = this.#options
    return Math.ceil(intervalHoldNano(this.#price, marginPpm) * (reservation.factor ?? 1))
  }

  /** Time by our clock that the provider has not reported yet: it is reserved for, but not charged. */
  #unconfirmedNano(nowMs: MonotonicMs): number {
    return Math.max(0, this.usedNano(nowMs) - this.#totalNano(nowMs, false))
  }

  #dueNano(nowMs: MonotonicMs, isLast: boolean): number {
    return Math.max(0, this.#totalNano(nowMs, isLast) - this.#settledNano)
  }

  /** Charges what is due: each reservation up to its amount, the last one with the rest. */
  #settle(nowMs: MonotonicMs, reservations: readonly Reservation[], isLast: boolean): void {
    let dueNano = this.#dueNano(nowMs, isLast)
    const tokens = this.#tokens() - this.#settledTokens
    this.#settledNano += dueNano
    this.#settledTokens += tokens
    for (const reservation of reservations.slice(0, -1)) {
      const costNano = Math.min(dueNano, reservation.reservedNano)
      dueNano -= costNano
      this.#charge(nowMs, { reservation, costNano, tokens: 0 }, false)
    }
    this.#charge(nowMs, { reservation: reservations.at(-1)!, costNano: dueNano, tokens }, isLast)
  }

  #charge(nowMs: MonotonicMs, { reservation, costNano, tokens }: Charge, isLast: boolean): void {
    if (costNano === 0 && tokens === 0 && !isLast) {
      this.#options.release(reservation)
      return
    }
    const usage = structuredClone(this.#usage)
    const upstreamCostNano = Number(nanoFromPico(this.#usedPico + this.#timePico(nowMs, false)))
    const charged = { reservation, costNano: this.#spendsMoney ? costNano : 0, tokens, usage, upstreamCostNano }
    this.#options.settle({ part: this.#part++, chargedMs: nowMs, ...charged }, isLast)
  }

  #totalNano(nowMs: MonotonicMs, useOwnClock: boolean): number {
    return this.#nano(this.#usedPico + this.#timePico(nowMs, useOwnClock))
  }

  /** If the provider reports its own time, our clock counts only for reservations and for time never reported. */
  #timePico(nowMs: MonotonicMs, useOwnClock: boolean): bigint {
    if (!isPricedByTime(this.#price)) return 0n
    const { ownClock, sessionSeconds } = this.#options.meter
    const sinceMs = this.#openedAtMs === null ? 0 : Math.max(0, elapsedMs(this.#openedAtMs, nowMs))
    const reportedMs = sessionSeconds === null || !Number.isFinite(sessionSeconds) ? null : sessionSeconds * 1_000
    const ms = ownClock ? (reportedMs ?? (useOwnClock ? sinceMs : 0)) : sinceMs
    return durationCostPico(this.#price, ms)
  }

  #tokens(): number {
    return this.#usage.total_tokens
  }

  #nano(pico: bigint): number {
    return Number(nanoFromPico(withMargin(pico, this.#options.marginPpm)))
  }
}

/** An empty usage. */
function noUsage() {
  return {
    prompt_tokens: 0,
    completion_tokens: 0,
    total_tokens: 0,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
    estimated: false,
  }
}

/** Adds a usage to the session's total. */
function addUsage(sum: ReturnType<typeof noUsage>, usage: Usage): void {
  sum.prompt_tokens += usage.prompt_tokens
  sum.completion_tokens += usage.completion_tokens
  sum.total_tokens += usage.total_tokens
  sum.prompt_tokens_details.cached_tokens += usage.prompt_tokens_details?.cached_tokens ?? 0
  sum.completion_tokens_details.reasoning_tokens += usage.completion_tokens_details?.reasoning_tokens ?? 0
}
