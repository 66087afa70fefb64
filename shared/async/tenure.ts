import { WholeClient } from '../chat/whole-client.ts'
import type { Job } from '../jobs/jobs.ts'
import type { Services } from '../services.ts'

/** Why a run is of no more use: the job is over or somebody else's, its time is up, or this process ends. */
export type Cut = 'lost' | 'expired' | 'stopped'

/**
 * The time in which a claimed job is ours: the claim is renewed every two seconds, and the run is cut off as soon as there is
 * no use in it. `end` it.
 */
export class Tenure {
  readonly client = new WholeClient()
  /** Null as long as nothing speaks against the run. */
  cut: Cut | null = null
  readonly #over = new AbortController()

  constructor(services: Pick<Services, 'delayed' | 'endings' | 'clock'>, job: Job, stopping: AbortSignal) {
    const stop = () => this.#cutOff('stopped')
    stopping.addEventListener('abort', stop, { once: true, signal: this.#over.signal })
    if (stopping.aborted) stop()
    void this.#keep(services, job)
  }

  /** Aborted once the run is cut off, or over. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  end(): void {
    this.#over.abort()
  }

  async #keep({ delayed, endings, clock }: Pick<Services, 'delayed' | 'endings' | 'clock'>, job: Job): Promise<void> {
    const leftMs = Math.max(0, job.deadlineAt.getTime() - clock.now())
    let isLost = false
    // While Postgres is away nobody else can claim it either.
    const looked = async () =>
      (isLost = await delayed.renew(job).then(
        ours => !ours,
        () => false,
      ))
    await endings.wait(job.id, leftMs, looked, this.#over.signal)
    if (!this.#over.signal.aborted) this.#cutOff(isLost ? 'lost' : 'expired')
  }

  #cutOff(why: Cut): void {
    this.cut ??= why
    this.client.leave()
    this.#over.abort()
  }
}
