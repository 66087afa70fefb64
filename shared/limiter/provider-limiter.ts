import { GatewayError } from '../base/errors.ts'
import { addMs, elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import { FairQueue } from './fair-queue.ts'
import { LimiterShare, type ShareHolder, type ShareOptions } from './limiter-share.ts'

/**
 * How a call under a permit ended. `limited`: the provider rate-limited it (429) or sent a `Retry-After`. `overloaded`: the
 * provider is overloaded (503, 529). `failed` carries no information about the provider's capacity.
 */
type CallOutcome = 'answered' | 'limited' | 'overloaded' | 'failed'

/** Permission for one call in flight. `release` returns the permit; only the first call counts. */
export type Permit = { release(outcome: CallOutcome, retryAfterMs?: number | null): void }

export type PermitRequest = {
  /** The tenant that the work belongs to; permits are shared fairly among owners. */
  owner: string
  /** Orders one owner's waiters: the earliest deadline first. */
  deadlineMs: number
  /** Aborts the wait. */
  signal: AbortSignal
}

const maxWaitMs = 60_000
const maxWaiting = 10_000
/** The `retry-after` of a rejection when no pause is in force. */
const defaultRetryAfterMs = 10_000

/** The calls that one process has in flight at one provider, and the waiters for a permit. */
export class ProviderLimiter implements ShareHolder {
  readonly #monotonic: MonotonicClock
  readonly #share: LimiterShare
  readonly #waiters = new FairQueue<Waiter>()
  #inFlight = 0
  #sequence = 0
  #isClosed = false

  constructor(options: ShareOptions) {
    this.#monotonic = options.monotonic
    this.#share = new LimiterShare(this, options)
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get demand(): number {
    return this.#inFlight + this.#waiters.size
  }

  /** See `ConcurrencyLimiter.acquire`. */
  acquire({ owner, deadlineMs, signal }: PermitRequest): Promise<Permit> {
    if (signal.aborted) return Promise.reject(signal.reason)
    if (this.#isClosed) return Promise.reject(closedError())
    const now = this.#monotonic.now()
    if (this.#waiters.size === 0 && this.#inFlight < this.#share.capacity(now)) {
      const permit = this.#issuePermit(owner)
      this.#share.raiseDemand()
      return Promise.resolve(permit)
    }
    const untilMs = addMs(now, maxWaitMs)
    if (this.#waiters.size >= maxWaiting || this.#share.pausedUntilMs > untilMs)
      return Promise.reject(this.#busyError(now))
    return new Promise((resolve, reject) => {
      this.#waiters.add(
        new Waiter(this, signal, { owner, deadlineMs, sequence: this.#sequence++, untilMs, resolve, reject }),
      )
      this.#share.raiseDemand()
      this.#grantPermits(now)
    })
  }

  /** Ends a call that began in `epoch`. `retryAfterMs` is the delay that the provider asked for; 0 = none. */
  release(owner: string, outcome: CallOutcome, epoch: number, retryAfterMs: number): void {
    this.#inFlight--
    this.#waiters.endCall(owner)
    if (outcome === 'limited') this.#share.recordRateLimit(epoch, retryAfterMs)
    else if (outcome === 'overloaded') this.#share.recordOverload(epoch)
    else if (outcome === 'answered') this.#share.recordAnswer(epoch, this.#waiters.size > 0)
    if (this.#waiters.size > 0) this.#grantPermits(this.#monotonic.now())
    this.#share.lowerDemand()
  }

  /** Removes a waiter whose signal was aborted. */
  removeWaiter(waiter: Waiter): void {
    this.#waiters.remove(waiter)
    this.#share.lowerDemand()
  }

  /** Grants the free permits, and rejects waiters whose time limit ends before the pause does. */
  updateCapacity(): void {
    const now = this.#monotonic.now()
    const { pausedUntilMs } = this.#share
    const nextMs = pausedUntilMs > now ? pausedUntilMs : now
    for (const waiter of this.#waiters.takeWhere(({ untilMs }) => untilMs < nextMs)) waiter.refuse(this.#busyError(now))
    this.#grantPermits(now)
  }

  /** See `LimiterShare.refresh`. */
  refresh(): void {
    this.#share.refresh()
  }

  /** Rejects all waiters and returns the share, except what calls in flight occupy. */
  close(): void {
    this.#isClosed = true
    for (const waiter of this.#waiters.takeWhere(() => true)) waiter.refuse(closedError())
    this.#share.close()
  }

  #grantPermits(nowMs: MonotonicMs): void {
    const capacity = this.#share.capacity(nowMs)
    while (this.#inFlight < capacity && this.#waiters.size > 0) this.#grantNext()
  }

  #grantNext(): void {
    const waiter = this.#waiters.next()!
    waiter.grant(this.#issuePermit(waiter.owner))
  }

  #issuePermit(owner: string): IssuedPermit {
    this.#inFlight++
    this.#waiters.startCall(owner)
    return new IssuedPermit(this, owner, this.#share.epoch)
  }

  #busyError(nowMs: MonotonicMs): GatewayError {
    const pausedMs = elapsedMs(nowMs, this.#share.pausedUntilMs)
    const seconds = Math.ceil((pausedMs > 0 ? pausedMs : defaultRetryAfterMs) / 1_000)
    const message = `The provider has too much delayed work to do. Try again in ${seconds} s.`
    return new GatewayError('no_provider_available', message, { headers: { 'retry-after': String(seconds) } })
  }
}

class IssuedPermit implements Permit {
  readonly #limiter: ProviderLimiter
  readonly #owner: string
  readonly #epoch: number
  #isReleased = false

  constructor(limiter: ProviderLimiter, owner: string, epoch: number) {
    this.#limiter = limiter
    this.#owner = owner
    this.#epoch = epoch
  }

  release(outcome: CallOutcome, retryAfterMs: number | null = null): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#limiter.release(this.#owner, outcome, this.#epoch, Math.max(0, retryAfterMs ?? 0))
  }
}

type WaiterOptions = {
  owner: string
  deadlineMs: number
  sequence: number
  untilMs: MonotonicMs
  resolve: (permit: Permit) => void
  reject: (error: unknown) => void
}

/** An event listener object itself, to save one closure per waiter: there can be thousands. */
class Waiter {
  readonly owner: string
  readonly deadlineMs: number
  readonly sequence: number
  readonly untilMs: MonotonicMs
  index = 0
  readonly #limiter: ProviderLimiter
  readonly #signal: AbortSignal
  readonly #resolve: WaiterOptions['resolve']
  readonly #reject: WaiterOptions['reject']

  constructor(
    limiter: ProviderLimiter,
    signal: AbortSignal,
    { owner, deadlineMs, sequence, untilMs, resolve, reject }: WaiterOptions,
  ) {
    this.owner = owner
    this.deadlineMs = deadlineMs
    this.sequence = sequence
    this.untilMs = untilMs
    this.#limiter = limiter
    this.#signal = signal
    this.#resolve = resolve
    this.#reject = reject
    signal.addEventListener('abort', this)
  }

  grant(permit: Permit): void {
    this.#signal.removeEventListener('abort', this)
    this.#resolve(permit)
  }

  refuse(error: unknown): void {
    this.#signal.removeEventListener('abort', this)
    this.#reject(error)
  }

  handleEvent(): void {
    this.refuse(this.#signal.reason)
    this.#limiter.removeWaiter(this)
  }
}

function closedError(): GatewayError {
  const headers = { 'retry-after': '1' }
  return new GatewayError('service_unavailable', 'The worker is shutting down. Try again in 1 s.', { headers })
}
