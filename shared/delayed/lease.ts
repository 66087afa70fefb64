import type { BufferedResponse } from '../engine/buffered-response.ts'
import type { Leaving } from '../engine/response-writer.ts'
import type { Job } from '../jobs/jobs.ts'
import type { DelayedServices } from './delayed-services.ts'

/**
 * Why a run was ended: its job was cancelled, the claim was lost or the job ended, its deadline passed, or this process
 * is stopping.
 */
type CutReason = 'cancelled' | 'lost' | 'expired' | 'stopped'

type LeaseServices = Pick<DelayedServices, 'delayedJobs' | 'completionSignals' | 'clock'>

/**
 * The lease of a claimed job, whose call answers `client`: it is renewed every two seconds, and the run is ended once
 * the job is cancelled, the lease is lost, the deadline passes or the process stops. The call of a cancelled job ends
 * as if its client had disconnected, so that its usage is known; the lease is renewed until then. Call `end` when the
 * run is over.
 */
export class Lease {
  readonly client: BufferedResponse
  /** The reason why the run was ended; null while it may go on. */
  cut: CutReason | null = null
  readonly #over = new AbortController()

  constructor(services: LeaseServices, job: Job, stopping: AbortSignal, client: BufferedResponse) {
    this.client = client
    const stop = () => this.#cutOff('stopped')
    stopping.addEventListener('abort', stop, { once: true, signal: this.#over.signal })
    if (stopping.aborted) stop()
    void this.#renew(services, job)
  }

  /** Aborted once the run is aborted or over. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  end(): void {
    this.#over.abort()
  }

  async #renew({ delayedJobs, completionSignals, clock }: LeaseServices, job: Job): Promise<void> {
    const leftMs = Math.max(0, job.deadlineAt.getTime() - clock.now())
    let isLost = false
    const renewOrStop = async () => {
      // While Postgres is unavailable, no other worker can claim the job either.
      const state = await delayedJobs.renew(job).catch(() => 'renewed' as const)
      if (state === 'cancelled') this.#leave('cancelled', null)
      isLost = state === 'lost'
      return isLost
    }
    await completionSignals.wait(job.id, leftMs, renewOrStop, this.#over.signal)
    if (!this.#over.signal.aborted) this.#cutOff(isLost ? 'lost' : 'expired')
  }

  #cutOff(why: CutReason): void {
    // What a cancelled job has used so far is billed, unless another process has settled it.
    this.#leave(why, this.cut === 'cancelled' && why !== 'lost' ? 'at_once' : 'unbilled')
    this.#over.abort()
  }

  #leave(why: CutReason, how: Leaving): void {
    this.cut ??= why
    this.client.leave(how)
  }
}
