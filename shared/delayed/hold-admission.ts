import { ClientGone } from '../engine/failures.ts'
import type { ClientPresence } from '../engine/response-writer.ts'
import type { Job } from '../jobs/jobs.ts'
import type { Target } from '../providers/contract.ts'
import type { AdmissionGate, BillingContext, MaxCost, Reservation, StalePolicy } from '../wallet/admission.ts'
import { callOfEvent, type JobCall } from '../wallet/jobs.ts'
import { costWithOutput } from '../wallet/reservation.ts'
import type { RoutedAttempt } from '../wallet/routing-record.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import type { DelayedInput } from './delayed-row.ts'
import type { DelayedServices } from './delayed-services.ts'

/** Who receives the answer, and whether it is streamed. */
type AnswerOfRun = { client: ClientPresence; run: { stream: boolean } }

/**
 * Admits the run of a delayed job under the hold reserved at its submission: it is not counted a second time, and the run's
 * usage is kept for the job's end. If the run can now cost more than the hold, the difference is reserved in addition;
 * `close` releases it.
 */
export class HoldAdmission implements AdmissionGate {
  readonly #job: Job
  readonly #services: Pick<DelayedServices, 'admission' | 'delayedJobs' | 'clock'>
  readonly #answer: AnswerOfRun
  readonly #startedMs: number
  readonly #extras: Reservation[] = []
  #event: UsageEvent | null = null
  extraNano = 0

  constructor(services: Pick<DelayedServices, 'admission' | 'delayedJobs' | 'clock'>, job: Job, answer: AnswerOfRun) {
    this.#services = services
    this.#job = job
    this.#answer = answer
    this.#startedMs = services.clock.now()
  }

  async admit(
    billing: BillingContext,
    readToken: string,
    id: string,
    maxCost: MaxCost,
  ): Promise<Reservation | StalePolicy> {
    const { outputTokens, clamped } = this.#job.input as DelayedInput
    const reservedNano = Number(this.#job.holdNano)
    const maxNano = costWithOutput(maxCost, outputTokens)
    if (billing.spendsMoney && maxNano > reservedNano) {
      const extra = await this.extend(billing, readToken, id, maxNano - reservedNano)
      if ('stale' in extra) return extra
    }
    return {
      id,
      billing,
      month: this.#job.month,
      reservedNano,
      extraNano: this.extraNano,
      maxNano,
      clamped,
      explicit: false,
      outputTokens,
      reservedTokens: outputTokens,
      countedTokens: 0,
      tokenBucketsUs: { own: 0, shared: 0 },
      rates: { requests: null, tokens: null },
    }
  }

  async extend(
    billing: BillingContext,
    readToken: string,
    id: string,
    nano: number,
  ): Promise<Reservation | StalePolicy> {
    const extraId = `${id}.${this.#extras.length}`
    const { month } = this.#job
    const reservation = await this.#services.admission.extend(billing, readToken, extraId, nano, month)
    if ('stale' in reservation) return reservation
    this.#extras.push(reservation)
    this.extraNano += reservation.reservedNano
    return reservation
  }

  /** Does nothing: extra reservations stay until `close`, because the job is charged after its run. */
  release(): void {}

  /** Releases the extra reservations, once the job is settled. */
  close(): void {
    for (const reservation of this.#extras.splice(0)) this.#services.admission.release(reservation)
  }

  /**
   * Records the target of the job's call, so that it is charged when the job is cancelled. Throws ClientGone when it
   * must not be made any more, and what Postgres throws.
   */
  async recordCall({ model, provider, own }: Target): Promise<void> {
    const { client, run } = this.#answer
    const call = { model: model.id, provider: provider.name, isStreamed: run.stream, ...(own && { isOwn: true }) }
    const isNoted = await this.#services.delayedJobs.noteCall(this.#job, call)
    if (!isNoted || client.gone) throw new ClientGone('the job is over')
  }

  settle(_reservation: Reservation, _costNano: number, _tokens: number, event: UsageEvent | null): void {
    this.#event = event
  }

  /** Whether the run has told what it used. */
  get isSettled(): boolean {
    return this.#event !== null
  }

  /** The cost of the run in nano-dollars; 0 without usage. */
  get costNano(): bigint {
    return BigInt(this.#event?.cost ?? 0)
  }

  /** The cost of a run that was cancelled: what is only estimated is no more than was reserved for it. */
  get cancelledNano(): bigint {
    const reservedNano = this.#job.holdNano + BigInt(this.extraNano)
    return this.#event?.estimated && this.costNano > reservedNano ? reservedNano : this.costNano
  }

  /** The run's entry for the request log. `answerId` is the id of its answer. */
  call(answerId: string | null): { call?: JobCall } {
    if (!this.#event) return {}
    const attempts = this.attempts
    const routing = attempts.length > 0 && { routing: { ...this.#event.routing, attempts } }
    return { call: { ...callOfEvent(this.#event), ...routing, upstreamId: answerId } }
  }

  /** The run's calls to providers, with times since the job's creation; none if it is the first run, which succeeded at once. */
  get attempts(): RoutedAttempt[] {
    const waitedMs = Math.max(0, this.#startedMs - this.#job.createdAt.getTime())
    return this.#calls().map(({ startedMs, ...call }) => ({
      ...call,
      ...(startedMs !== undefined && { startedMs: startedMs + waitedMs }),
    }))
  }

  #calls(): readonly RoutedAttempt[] {
    if (!this.#event) return []
    const { routing, provider, model, status, durationMs } = this.#event
    if (routing?.attempts) return routing.attempts
    const isOnly = this.#job.attempts === 1 || provider === null || status >= 400
    return isOnly ? [] : [{ provider, model, status, fault: null, durationMs, startedMs: 0 }]
  }
}
