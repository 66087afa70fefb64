import type { DelayedInput } from '../jobs/delayed.ts'
import type { Job } from '../jobs/jobs.ts'
import type { Services } from '../services.ts'
import type { Bound, Gate, Spender, Stale, Ticket } from '../wallet/admission.ts'
import type { JobCall } from '../wallet/jobs.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'

/**
 * Lets the run of a delayed job through on what was reserved when it was submitted: it is not counted a second time, and what
 * the run comes to is kept for the job's end. Where the run can cost more than that by now, the difference is reserved beside
 * it; `close` gives it back.
 */
export class JobGate implements Gate {
  readonly #job: Job
  readonly #services: Pick<Services, 'admission' | 'delayed'>
  readonly #extras: Ticket[] = []
  #event: UsageEvent | null = null
  extraNano = 0

  constructor(services: Pick<Services, 'admission' | 'delayed'>, job: Job) {
    this.#services = services
    this.#job = job
  }

  async admit(spender: Spender, fresh: string, id: string, bound: Bound): Promise<Ticket | Stale> {
    const { outputTokens, clamped } = this.#job.input as DelayedInput
    const reservedNano = Number(this.#job.holdNano)
    const boundNano = bound.fixedNano + Math.ceil((outputTokens * bound.picoPerOutputToken) / 1_000)
    if (spender.spendsMoney && boundNano > reservedNano) {
      const extra = await this.extend(spender, fresh, id, boundNano - reservedNano)
      if ('stale' in extra) return extra
    }
    return {
      ...{ id, spender, month: this.#job.month },
      ...{ reservedNano, extraNano: this.extraNano, outputTokens, clamped },
      ...{ countedTokens: 0, countedAtUs: 0, rates: { requests: null, tokens: null } },
    }
  }

  async extend(spender: Spender, fresh: string, id: string, nano: number): Promise<Ticket | Stale> {
    const ticket = await this.#services.admission.extend(spender, fresh, `${id}.${this.#extras.length}`, nano)
    if ('stale' in ticket) return ticket
    this.#extras.push(ticket)
    this.extraNano += ticket.reservedNano
    return ticket
  }

  /** Whatever was reserved beside the hold stays until `close`: the job is charged after its run. */
  release(): void {}

  /** Gives back what was reserved beside the hold, once the job is settled. */
  close(): void {
    for (const ticket of this.#extras.splice(0)) this.#services.admission.release(ticket)
  }

  /** Notes whom the job's call goes to, for whoever cancels it. Throws what Postgres throws. */
  async asked(target: { model: { id: string }; provider: { name: string } }): Promise<void> {
    await this.#services.delayed.noteCall(this.#job, { model: target.model.id, provider: target.provider.name })
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
