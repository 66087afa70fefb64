import { GatewayError } from '../base/errors.ts'

/** Half of a budget is the most that one owner may hold, so that nobody can use it up alone. */
const ownerShare = 0.5
const retryAfterS = 1
/** Owners that hold nothing any more are kept up to here: removing one and adding it again with each request costs more. */
const maxIdleOwners = 10_000

/**
 * A bound on the bytes that a process holds at a time for one purpose, and on what one owner (an organisation, an address)
 * holds of them.
 */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #what: string
  readonly #owners = new Map<string, number>()
  #bytes = 0
  #forgetAbove = maxIdleOwners

  /** `what` the bytes are, for messages: "request bodies". */
  constructor(maxBytes: number, what: string) {
    this.#maxBytes = maxBytes
    this.#what = what
  }

  /** All bytes held now. */
  get bytes(): number {
    return this.#bytes
  }

  /** Opens an account of what one request holds. It must be released. */
  open(owner: string): HeldBytes {
    return new HeldBytes(this, owner)
  }

  /** Throws 503 `service_unavailable` when the process holds too much already, 429 `rate_limit_exceeded` when the owner does. */
  check(owner: string, bytes: number): void {
    const headers = { 'retry-after': String(retryAfterS) }
    if (this.#bytes + bytes > this.#maxBytes) {
      const message = `The service has too many bytes of ${this.#what} under way. Try again shortly.`
      throw new GatewayError('service_unavailable', message, { headers })
    }
    if ((this.#owners.get(owner) ?? 0) + bytes > this.#maxBytes * ownerShare) {
      const message = `You have too many bytes of ${this.#what} under way. Send fewer large requests at a time.`
      throw new GatewayError('rate_limit_exceeded', message, { headers })
    }
  }

  /** Changes what an owner holds. */
  add(owner: string, bytes: number): void {
    const held = (this.#owners.get(owner) ?? 0) + bytes
    this.#bytes += bytes
    this.#owners.set(owner, held)
    if (this.#owners.size > this.#forgetAbove) this.#forgetIdle()
  }

  #forgetIdle(): void {
    for (const [owner, held] of this.#owners) if (held === 0) this.#owners.delete(owner)
    // Looking at all of them again with each request would cost more than they do.
    this.#forgetAbove = this.#owners.size + maxIdleOwners
  }
}

/** What one request holds of a budget. */
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

  /** Holds more bytes; 0 asks whether there is room at all. Throws 503 or 429 and holds nothing more where there is none. */
  take(bytes: number): void {
    this.#budget.check(this.#owner, bytes)
    this.hold(bytes)
  }

  /** Holds more bytes, which are there already, whether there is room or not. */
  hold(bytes: number): void {
    if (this.#released) return
    this.#bytes += bytes
    this.#budget.add(this.#owner, bytes)
  }

  /** Gives everything back. */
  release(): void {
    if (this.#bytes > 0) this.#budget.add(this.#owner, -this.#bytes)
    this.#bytes = 0
    this.#released = true
  }
}
