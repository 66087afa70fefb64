import { GatewayError } from '../base/errors.ts'
import { unavailable } from '../io/outage.ts'
import type { Known } from '../keys/policies.ts'
import { authorise, type Scope } from '../keys/policy.ts'
import type { Ticket } from '../wallet/admission.ts'
import { spenderOf } from '../wallet/spender.ts'
import type { RunServices } from './base-run.ts'
import { stretchTokens } from './pricing.ts'

/** Reserves `nano` beside the ticket of a running request, under an id of its own. Throws 401, 402, 403, 503. */
export function reserveBeside(
  { policies, admission, clock }: Pick<RunServices, 'policies' | 'admission' | 'clock'>,
  known: Known,
  scope: Scope,
  id: string,
  nano: number,
): Promise<Ticket> {
  // What was read of the key before says nothing about now.
  known.fresh = ''
  return policies.decide(known, ({ policy, fresh }) => {
    authorise(policy, scope, clock.now())
    return admission.extend(spenderOf(policy), fresh, id, nano)
  })
}

/** Faster than any model reasons: what may have been produced by a moment is never more. */
const maxTokensPerSecond = 500
/** A stretch is reserved so long before it can be needed. */
const aheadMs = 10_000
const tickMs = 1_000

export type StretchOptions = {
  /** What one output token can cost, in pico-dollars with margin. */
  picoPerToken: number
  nowMs(): number
  /** Reserves beside the request's own ticket. Throws what the admission throws. */
  reserve(nano: number, number: number): Promise<Ticket>
  release(ticket: Ticket): void
  /** Ends the call: what is reserved may be used up. */
  end(error: GatewayError): void
}

/**
 * Reserves for a call whose output its provider does not bound, stretch by stretch while it runs. The first stretch is part of
 * the request's own reservation. When no further one can be reserved, the call may use up what it has and is ended then.
 */
export class Stretches {
  readonly #options: StretchOptions
  readonly #startedMs: number
  readonly #timer: NodeJS.Timeout
  readonly #tickets: Ticket[] = []
  #reserving = false
  #closed = false

  constructor(options: StretchOptions) {
    this.#options = options
    this.#startedMs = options.nowMs()
    this.#timer = setInterval(() => void this.#tick(), tickMs)
    this.#timer.unref()
  }

  /** Reserved beside the request's own ticket, in nano-dollars. */
  get reservedNano(): number {
    return this.#tickets.reduce((sum, { reservedNano }) => sum + reservedNano, 0)
  }

  /** Reserves no more. */
  stop(): void {
    this.#closed = true
    clearInterval(this.#timer)
  }

  /** Gives everything back: after the request was settled. */
  release(): void {
    this.stop()
    for (const ticket of this.#tickets.splice(0)) this.#options.release(ticket)
  }

  async #tick(): Promise<void> {
    const { nowMs, reserve, release, end, picoPerToken } = this.#options
    const passedMs = nowMs() - this.#startedMs
    const reservedTokens = stretchTokens * (this.#tickets.length + 1)
    const isDue = ((passedMs + aheadMs) / 1_000) * maxTokensPerSecond > reservedTokens
    if (this.#reserving || !isDue) return
    this.#reserving = true
    try {
      const ticket = await reserve(Math.ceil((stretchTokens * picoPerToken) / 1_000), this.#tickets.length + 1)
      if (this.#closed) release(ticket)
      else this.#tickets.push(ticket)
    } catch (error) {
      const isSpent = (passedMs / 1_000) * maxTokensPerSecond >= reservedTokens
      if (isSpent && !this.#closed) end(error instanceof GatewayError ? error : unavailable(error))
    } finally {
      this.#reserving = false
    }
  }
}
