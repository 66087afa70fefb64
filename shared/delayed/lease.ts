import type { BufferedResponse } from '../engine/buffered-response.ts'
import type { Services } from '../services.ts'
import type { Job } from '../store/jobs.ts'

/** Why a run was aborted: the claim was lost or the job ended, its deadline passed, or this process is stopping. */
export type CutReason = 'lost' | 'expired' | 'stopped'

/**
 * The lease of a claimed job, whose call answers `client`: it is renewed every two seconds, and the run is aborted once the lease is lost, the deadline
 * passes or the process stops. Call `end` when the run is over.
 */
export class Lease {
  readonly client: BufferedResponse
  /** The reason why the run was aborted; null while it may go on. */
  cut: CutReason | null = null
  readonly #over = new AbortController()

  constructor(
    services: Pick<Services, 'delayedJobs' | 'completionSignals' | 'clock'>,
    job: Job,
    stopping: AbortSignal,
    client: BufferedResponse,
  ) {
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

  async #renew(
    { delayedJobs, completionSignals, clock }: Pick<Services, 'delayedJobs' | 'completionSignals' | 'clock'>,
    job: Job,
  ): Promise<void> {
    const leftMs = Math.max(0, job.deadlineAt.getTime() - clock.now())
    let isLost = false
    // While Postgres is unavailable, no other worker can claim the job either.
    const renewOrStop = async () =>
      (isLost = await delayedJobs.renew(job).then(
        isRenewed => !isRenewed,
        () => false,
      ))
    await completionSignals.wait(job.id, leftMs, renewOrStop, this.#over.signal)
    if (!this.#over.signal.aborted) this.#cutOff(isLost ? 'lost' : 'expired')
  }

  #cutOff(why: CutReason): void {
    this.cut ??= why
    this.client.leave()
    this.#over.abort()
  }
}
