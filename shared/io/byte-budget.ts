import { GatewayError } from '../base/errors.ts'
import type { LoadLimits } from '../base/load-limits.ts'

/** One owner may hold at most half of a budget, so that no single owner can exhaust it. */
const ownerShare = 0.5
/** Owners that hold less than a share may hold so much more in all: two large ones leave nothing of the budget itself. */
const modestShare = 1 / 64
const modestExtra = 1 / 8
const retryAfterS = 1
/** Up to this many idle owners are kept: removing and re-adding an owner on each request costs more. */
const maxIdleOwners = 10_000

/** Provider webhooks and sign-ins have kilobytes, and their senders are unauthenticated. */
const maxPublicBodyBytes = 16 * 1024 * 1024

/**
 * Memory budgets of requests: bodies of authenticated callers, bodies of unauthenticated callers, buffered responses, and
 * conversations that open connections can continue.
 */
export type Budgets = { [name in 'bodies' | 'publicBodies' | 'answers' | 'conversations']: ByteBudget }

export function openBudgets({ maxBodyBytes, maxResponseBytes }: LoadLimits): Budgets {
  return {
    bodies: new ByteBudget(maxBodyBytes, 'request bodies'),
    publicBodies: new ByteBudget(maxPublicBodyBytes, 'request bodies'),
    answers: new ByteBudget(maxResponseBytes, 'answers'),
    conversations: new ByteBudget(maxBodyBytes, 'conversations'),
  }
}

/** Limits the bytes that a process holds for one purpose, in total and per owner (an organisation, an address). */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #what: string
  readonly #owners = new Map<string, number>()
  #bytes = 0
  #forgetAbove = maxIdleOwners

  /** `what` names the bytes in messages: "request bodies". */
  constructor(maxBytes: number, what: string) {
    this.#maxBytes = maxBytes
    this.#what = what
  }

  /** Total bytes currently held. */
  get bytes(): number {
    return this.#bytes
  }

  /** Starts accounting for the bytes of one request. The result must be released. */
  open(owner: string): HeldBytes {
    return new HeldBytes(this, owner)
  }

  /**
   * Throws 503 `service_unavailable` if the process holds too much, 429 `rate_limit_exceeded` if the owner does; neither
   * if nothing else is held than `own`, the bytes of the same request.
   */
  check(owner: string, bytes: number, own = -1): void {
    const held = this.#owners.get(owner) ?? 0
    const isModest = held + bytes <= this.#maxBytes * modestShare
    const roomBytes = this.#maxBytes * (isModest ? 1 + modestExtra : 1)
    if (this.#bytes + bytes > roomBytes && this.#bytes !== own) {
      const headers = { 'retry-after': String(retryAfterS) }
      const message = `The service has too many bytes of ${this.#what} under way. Try again shortly.`
      throw new GatewayError('service_unavailable', message, { headers })
    }
    if (held + bytes > this.#maxBytes * ownerShare && held !== own) {
      const headers = { 'retry-after': String(retryAfterS) }
      const message = `You have too many bytes of ${this.#what} under way. Send fewer large requests at a time.`
      throw new GatewayError('rate_limit_exceeded', message, { headers })
    }
  }

  /** Adjusts the bytes an owner holds. */
  add(owner: string, bytes: number): void {
    const held = (this.#owners.get(owner) ?? 0) + bytes
    this.#bytes += bytes
    this.#owners.set(owner, held)
    if (this.#owners.size > this.#forgetAbove) this.#forgetIdle()
  }

  #forgetIdle(): void {
    for (const [owner, held] of this.#owners) if (held === 0) this.#owners.delete(owner)
    // Scanning all owners again on each request would cost more than keeping them.
    this.#forgetAbove = this.#owners.size + maxIdleOwners
  }
}

/** The bytes of a budget held by one request. */
export class HeldBytes {
  readonly #budget: ByteBudget
  readonly #owner: string
  #bytes = 0
  #released = false

  constructor(budget: ByteBudget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Acquires bytes; 0 checks whether any are available. Throws 503 or 429, without acquiring, if the budget is
   * exhausted.
   */
  take(bytes: number): void {
    this.#budget.check(this.#owner, bytes)
    this.hold(bytes)
  }

  /**
   * Acquires the memory that a request takes beyond its bytes. Throws as `take` does, except for the
   * only request of the owner or of the process, which other limits bound.
   */
  grow(bytes: number): void {
    this.#budget.check(this.#owner, bytes, this.#bytes)
    this.hold(bytes)
  }

  /** Acquires bytes that are already in memory, even beyond the budget. */
  hold(bytes: number): void {
    if (this.#released) return
    this.#bytes += bytes
    this.#budget.add(this.#owner, bytes)
  }

  /** Releases all bytes. */
  release(): void {
    if (this.#bytes > 0) this.#budget.add(this.#owner, -this.#bytes)
    this.#bytes = 0
    this.#released = true
  }
}
