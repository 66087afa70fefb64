import { addMs, longAgo, type MonotonicMs } from '../base/time.ts'
/** The result of one exchange through Redis; see concurrency-limiter.lua. */
export type ShareGrant = [
  share: number,
  epoch: number,
  pauseMs: number,
  isSlowStart: 0 | 1,
  isBelowFairShare: 0 | 1,
  /** The epoch that began with the last decrease of the limit. */
  decreaseEpoch: number,
]

/** Lifetime of a share without a renewal; afterwards the process counts as dead and its share is redistributed. */
export const defaultLeaseMs = 3_000
/** Capacity of a process whose lease expired while Redis is unavailable. */
const fallbackShare = 2

/**
 * The share that Redis granted to this process, for `leaseMs` from the exchange. `capacity` follows from its state:
 *
 * - Leased: the share.
 * - Paused: 0 until `pausedUntilMs`.
 * - Expired: 0 until the next grant, when the lease is over and Redis has not failed.
 * - Fallback: `fallbackShare`, when the lease is over and the last exchange failed.
 */
export class ShareLease {
  readonly #leaseMs: number
  #share = 0
  #untilMs = longAgo
  #pausedUntilMs = longAgo
  #epoch = 0
  #decreaseEpoch = 0
  #committed = 0
  #isSlowStart = false
  #isBelowFairShare = false
  #isRedisDown = false

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs
  }

  get share(): number {
    return this.#share
  }

  get pausedUntilMs(): MonotonicMs {
    return this.#pausedUntilMs
  }

  /** Changes with every decrease of the limit and every pause without a `Retry-After`. */
  get epoch(): number {
    return this.#epoch
  }

  get decreaseEpoch(): number {
    return this.#decreaseEpoch
  }

  /** The calls that Redis counts as this process's until the next report: those in flight and those it may start. */
  get committed(): number {
    return this.#committed
  }

  get isSlowStart(): boolean {
    return this.#isSlowStart
  }

  get isBelowFairShare(): boolean {
    return this.#isBelowFairShare
  }

  /** How many calls may be in flight. */
  capacity(nowMs: MonotonicMs): number {
    if (nowMs <= this.#pausedUntilMs) return 0
    if (nowMs < this.#untilMs) return this.#share
    return this.#isRedisDown ? fallbackShare : 0
  }

  /** The calls that may be in flight until the next grant. */
  commitment(nowMs: MonotonicMs, inFlight: number): number {
    return Math.max(nowMs < this.#untilMs ? this.#share : 0, inFlight)
  }

  pause(untilMs: MonotonicMs): void {
    if (untilMs > this.#pausedUntilMs) this.#pausedUntilMs = untilMs
  }

  /**
   * Applies the grant of a report sent at `sentMs` that stated `committed`. `hasRateLimit`: a rate limit was recorded during
   * the exchange, so its pause is not in the grant yet.
   */
  renew(
    [share, epoch, pauseMs, isSlowStart, isBelowFairShare, decreaseEpoch]: ShareGrant,
    {
      sentMs,
      nowMs,
      committed,
      hasRateLimit,
    }: { sentMs: MonotonicMs; nowMs: MonotonicMs; committed: number; hasRateLimit: boolean },
  ): void {
    this.#isRedisDown = false
    this.#share = share
    this.#committed = Math.max(share, committed)
    this.#untilMs = addMs(sentMs, this.#leaseMs)
    this.#isSlowStart = isSlowStart === 1
    this.#isBelowFairShare = isBelowFairShare === 1
    const untilMs = pauseMs === 0 ? longAgo : addMs(nowMs, pauseMs)
    if (!hasRateLimit || untilMs > this.#pausedUntilMs) this.#pausedUntilMs = untilMs
    this.#epoch = epoch
    this.#decreaseEpoch = decreaseEpoch
  }

  /** Gives the share up, before a report without demand. */
  release(): void {
    this.#share = 0
  }

  /** Records that an exchange failed: the fallback share applies once the lease is over. */
  fail(): void {
    this.#isRedisDown = true
    this.#isSlowStart = false
  }

  /** Ends the fallback of an idle process: its next call exchanges first instead of using the fallback share at once. */
  endFallback(): void {
    this.#isRedisDown = false
  }
}
