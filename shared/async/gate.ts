import type { DelayedInput } from '../jobs/delayed.ts'
import type { Job } from '../jobs/jobs.ts'
import type { Gate, Spender, Ticket } from '../wallet/admission.ts'
import type { JobCall } from '../wallet/jobs.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'

/**
 * Lets the run of a delayed job through on what was reserved when it was submitted: nothing is reserved or counted a second
 * time, and what the run comes to is kept for the job's end.
 */
export class JobGate implements Gate {
  readonly #job: Job
  #event: UsageEvent | null = null

  constructor(job: Job) {
    this.#job = job
  }

  async admit(spender: Spender, _fresh: string, id: string): Promise<Ticket> {
    const { outputTokens, clamped } = this.#job.input as DelayedInput
    const reservedNano = Number(this.#job.holdNano)
    return {
      id,
      // A job never costs more than was held for it, whoever serves it in the end.
      spender: { ...spender, capNano: reservedNano },
      month: this.#job.month,
      ...{ reservedNano, outputTokens, clamped },
      ...{ countedTokens: 0, minute: 0, rates: { requests: null, tokens: null } },
    }
  }

  settle(_ticket: Ticket, _costNano: number, _tokens: number, event: UsageEvent | null): void {
    this.#event = event
  }

  /** What the run cost, in nano-dollars; 0 where it came to nothing. */
  get costNano(): bigint {
    return BigInt(this.#event?.cost ?? 0)
  }

  /** The run as the request log tells it. `answerId` is the id that its answer has. */
  call(answerId: string | null): { call?: JobCall } {
    if (!this.#event) return {}
    const { model, provider, mode, finishReason, attempts, estimated, firstByteMs, routing } = this.#event
    const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = this.#event
    const tokens = { promptTokens, completionTokens, cachedTokens, reasoningTokens, estimated }
    const outcome = { upstreamId: answerId, finishReason, attempts, firstByteMs, ...(routing && { routing }) }
    return { call: { model, provider, mode, ...outcome, ...tokens } }
  }
}
