import { addMs, elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import { type ShareGrant, ShareLease } from './share-lease.ts'
import { CallObservations, type UsageReport } from './usage-report.ts'

/** The owner of a share: its calls in flight, and its demand, which includes waiters. */
export type ShareHolder = {
  readonly inFlight: number
  readonly demand: number
  /** Called when the capacity may have changed. */
  updateCapacity(): void
}

export type ShareOptions = {
  monotonic: MonotonicClock
  /** Lifetime of the share without a renewal. */
  leaseMs: number
  /** Sends a report and returns the share granted; rejects while Redis is unavailable. */
  exchange: (report: UsageReport) => Promise<ShareGrant>
}

/** Base of the exponential backoff after rate limits without a `Retry-After`. */
export const initialPauseMs = 1_000
/** Upper bound of a `Retry-After`. */
export const maxPauseMs = 3_600_000
const exchangeIntervalMs = 500
/** Delay of an exchange that returns capacity or reports a higher demand. */
const urgentDelayMs = 100

/**
 * The share that one process holds of a provider's concurrency limit. The limit is in Redis, and concurrency-limiter.lua
 * adjusts it by AIMD from the reports of all processes:
 *
 * - Slow start: the limit doubles with each round of answers, until the first rate limit or decrease.
 * - Congestion avoidance (additive increase): it grows by one or a sixteenth per round, bounded per second as well.
 * - Multiplicative decrease: it is halved when more than a quarter of the window's calls were refused. Each decrease and each
 *   backoff starts an epoch; results of calls that began before the last decrease are ignored, so congestion counts once.
 * - Pause: no call starts until a `Retry-After` or the exponential backoff is over.
 *
 * While there is demand the share's lease is renewed twice a second, and sooner when an exchange would raise this share or
 * return capacity to others. Without demand and share there is no timer and no traffic; the first demand starts an exchange.
 */
export class LimiterShare {
  readonly #holder: ShareHolder
  readonly #options: ShareOptions
  readonly #lease: ShareLease
  readonly #timer: ExchangeTimer
  #observations = new CallObservations()
  /** The highest demand since the last exchange, and the demand that was last reported. */
  #peakDemand = 0
  #reportedDemand = 0
  #isClosed = false
  #isExchanging = false
  #isExchangePending = false

  constructor(holder: ShareHolder, options: ShareOptions) {
    this.#holder = holder
    this.#options = options
    this.#lease = new ShareLease(options.leaseMs)
    this.#timer = new ExchangeTimer(() => {
      holder.updateCapacity()
      void this.exchange()
    })
  }

  /** How many calls may be in flight. */
  capacity(nowMs: MonotonicMs): number {
    return this.#lease.capacity(nowMs)
  }

  get pausedUntilMs(): MonotonicMs {
    return this.#lease.pausedUntilMs
  }

  /** See `ShareLease.epoch`. */
  get epoch(): number {
    return this.#lease.epoch
  }

  /** Notes that the demand rose. */
  raiseDemand(): void {
    const { demand } = this.#holder
    if (demand > this.#peakDemand) this.#peakDemand = demand
    if (this.#reportedDemand === 0) void this.exchange()
    else if (demand > this.#reportedDemand) this.#scheduleUrgent()
  }

  /** Notes that the demand fell. */
  lowerDemand(): void {
    const { inFlight, demand } = this.#holder
    const { share, committed } = this.#lease
    if (demand === 0 || (inFlight >= share && inFlight < committed)) this.#scheduleUrgent()
  }

  /** Records the answer to a call of `epoch`; `isSaturated` when other calls wait for a permit. */
  recordAnswer(epoch: number, isSaturated: boolean): void {
    const { share, isSlowStart } = this.#lease
    if (epoch < this.#lease.decreaseEpoch) return
    const isCurrent = isSaturated && epoch === this.#lease.epoch
    this.#observations.addAnswer(isCurrent)
    if (isCurrent && isSlowStart && this.#observations.saturated >= share) void this.exchange()
  }

  /** Records a refusal without a `Retry-After`: it counts towards a decrease and starts no pause. */
  recordOverload(epoch: number): void {
    // The last decrease already accounts for calls that began before it.
    if (epoch < this.#lease.decreaseEpoch) return
    this.#observations.addRefusal()
    // A decrease depends on the refusals that all processes report.
    this.#scheduleUrgent()
  }

  /** Records a rate-limited call of `epoch`; `retryAfterMs` is the `Retry-After` of the provider, 0 = none. */
  recordRateLimit(epoch: number, retryAfterMs: number): void {
    if (epoch >= this.#lease.decreaseEpoch) this.#observations.addRefusal()
    // The last pause already accounts for calls that began before it.
    if (epoch !== this.#lease.epoch && retryAfterMs === 0) return
    const now = this.#options.monotonic.now()
    const pauseMs = Math.min(retryAfterMs, maxPauseMs)
    this.#observations.addRateLimit(epoch, addMs(now, pauseMs))
    // Takes effect in this process at once, before the exchange.
    this.#lease.pause(addMs(now, pauseMs || initialPauseMs))
    void this.exchange()
  }

  /** Exchanges now, after another process published a decrease or a pause. */
  refresh(): void {
    if (this.#holder.demand > 0 || this.#lease.share > 0) void this.exchange()
  }

  /** Returns the share and stops. Calls in flight count until the lease is over. */
  close(): void {
    this.#isClosed = true
    this.#timer.clear()
    this.#lease.release()
    if (this.#reportedDemand > 0)
      this.#options.exchange(this.#buildReport(this.#options.monotonic.now(), 0)).catch(() => {})
  }

  /** Never rejects. */
  async exchange(): Promise<void> {
    this.#isExchangePending = this.#isExchanging
    if (this.#isExchanging || this.#isClosed) return
    this.#isExchanging = true
    do {
      this.#isExchangePending = false
      await this.#exchangeOnce()
    } while (this.#isExchangePending && !this.#isClosed)
    this.#isExchanging = false
    this.#scheduleNext()
  }

  async #exchangeOnce(): Promise<void> {
    const sentMs = this.#options.monotonic.now()
    const sent = this.#observations
    const demand = this.#holder.demand === 0 ? 0 : this.#peakDemand
    if (demand === 0) this.#lease.release()
    const report = this.#buildReport(sentMs, demand)
    this.#observations = new CallObservations()
    this.#reportedDemand = demand
    this.#peakDemand = this.#holder.demand
    try {
      this.#applyGrant(await this.#options.exchange(report), sentMs, report.committed)
    } catch {
      this.#lease.fail()
      this.#observations.restore(sent)
    }
    if (!this.#isClosed) this.#holder.updateCapacity()
  }

  #buildReport(nowMs: MonotonicMs, demand: number): UsageReport {
    const committed = this.#lease.commitment(nowMs, this.#holder.inFlight)
    return { ...this.#observations.report(nowMs), demand, committed, epoch: this.#lease.epoch }
  }

  #applyGrant(grant: ShareGrant, sentMs: MonotonicMs, committed: number): void {
    const { epoch, decreaseEpoch } = this.#lease
    const { hasRateLimit } = this.#observations
    this.#lease.renew(grant, { sentMs, nowMs: this.#options.monotonic.now(), committed, hasRateLimit })
    if (this.#lease.epoch !== epoch) this.#observations.startEpoch(this.#lease.decreaseEpoch !== decreaseEpoch)
  }

  #scheduleNext(): void {
    if (this.#isClosed) return
    const { inFlight, demand } = this.#holder
    const { share, committed, isBelowFairShare, pausedUntilMs } = this.#lease
    // A demand that was reported is taken back first: the next one counts as new only if it is higher.
    if (demand === 0 && share === 0 && this.#reportedDemand === 0) {
      this.#timer.clear()
      this.#lease.endFallback()
    } else if (
      demand === 0 ||
      isBelowFairShare ||
      this.#peakDemand > this.#reportedDemand ||
      Math.max(share, inFlight) < committed
    )
      this.#timer.setUrgent()
    else {
      const pausedMs = elapsedMs(this.#options.monotonic.now(), pausedUntilMs) + 1
      this.#timer.set(pausedMs > 0 ? Math.min(pausedMs, exchangeIntervalMs) : exchangeIntervalMs)
    }
  }

  #scheduleUrgent(): void {
    if (!this.#isExchanging && !this.#isClosed) this.#timer.setUrgent()
  }
}

/** The timer of the next exchange. An urgent one is not postponed by another. */
class ExchangeTimer {
  readonly #onDue: () => void
  #timer: NodeJS.Timeout | null = null
  #isUrgent = false

  constructor(onDue: () => void) {
    this.#onDue = onDue
  }

  setUrgent(): void {
    if (this.#isUrgent) return
    this.set(urgentDelayMs)
    this.#isUrgent = true
  }

  set(delayMs: number): void {
    this.clear()
    this.#timer = setTimeout(() => {
      this.clear()
      this.#onDue()
    }, delayMs).unref()
  }

  clear(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.#isUrgent = false
  }
}
