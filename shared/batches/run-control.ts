import { setMaxListeners } from 'node:events'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch, BatchStatus } from './batches.ts'
import type { Changes } from './changes.ts'
import type { endErrors, LineCalls } from './line.ts'

const statusPollMs = 1_000
/** Grace period for calls under way once the batch is to end, or this process. */
const graceMs = 12_000
/** A batch yields its worker after this time slice if other batches wait, once its calls under way have ended. */
const sliceMs = 30_000
const yieldGraceMs = 60_000

type ControlServices = Pick<BatchServices, 'batches' | 'batchWakes' | 'clock' | 'monotonic' | 'log'>

/**
 * Decides how long a run of a batch goes on: until it is cancelled or expires (its lines then end without being run), until
 * it stops because of the process or another batch that waits, or until it fails.
 */
export class RunControl {
  readonly #services: ControlServices
  readonly #batch: Batch
  readonly #calls: LineCalls
  readonly #changes: Changes
  readonly #startedMs: MonotonicMs
  /** Ends every backoff early. */
  readonly #wakeUp = new AbortController()
  #polling: NodeJS.Timeout | null = null
  #grace: NodeJS.Timeout | null = null
  #ending: keyof typeof endErrors | null = null
  #expiry: Promise<unknown> | null = null
  #isStopped = false
  #failure: unknown = null

  constructor(services: ControlServices, batch: Batch, run: { calls: LineCalls; changes: Changes }) {
    this.#services = services
    this.#startedMs = services.monotonic.now()
    this.#batch = batch
    this.#calls = run.calls
    this.#changes = run.changes
    setMaxListeners(0, this.#wakeUp.signal)
    this.applyStatus(batch.status)
  }

  /** Why lines end without being run; null while they are run. */
  get ending(): keyof typeof endErrors | null {
    return this.#ending
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  get failure(): unknown {
    return this.#failure
  }

  /** Whether the run ends before all lines have their results. */
  get isOver(): boolean {
    return this.#isStopped || this.#failure !== null
  }

  /** Aborted when every wait of the run is to end. */
  get wakeUp(): AbortSignal {
    return this.#wakeUp.signal
  }

  startPolling(): void {
    this.#polling = setInterval(() => void this.#pollStatus(), statusPollMs)
  }

  /** Ends the run's timers, waits and calls. */
  close(): void {
    if (this.#polling) clearInterval(this.#polling)
    if (this.#grace) clearTimeout(this.#grace)
    this.#wakeUp.abort()
    this.#calls.abort()
  }

  /** Starts no more lines, and aborts calls under way after `withinMs`. */
  stop(withinMs?: number): void {
    this.#isStopped = true
    this.#startGracePeriod(withinMs)
  }

  fail(error: unknown): void {
    this.#failure ??= error
    this.#wakeUp.abort()
    this.#calls.abort()
    this.#changes.notify()
  }

  applyStatus(status: BatchStatus): void {
    if (this.#ending) return
    if (status === 'cancelling') this.#ending = 'cancelled'
    else if (this.#services.clock.now() >= this.#batch.deadlineAt.getTime()) this.#ending = 'expired'
    if (this.#ending) this.#startGracePeriod()
  }

  /** Records the expiry before the first line that ends by it, so that a later owner knows why all lines have ended. */
  recordExpiry(): Promise<unknown> {
    const expiredAt = new Date(this.#services.clock.now())
    return (this.#expiry ??= this.#services.batches.change(this.#batch, ['in_progress'], { expiredAt }))
  }

  #startGracePeriod(withinMs = graceMs): void {
    this.#wakeUp.abort()
    this.#grace ??= setTimeout(() => this.#calls.abort(this.#ending === 'cancelled' ? 'at_once' : 'unbilled'), withinMs)
    this.#changes.notify()
  }

  async #pollStatus(): Promise<void> {
    const { batches, batchWakes, monotonic, log } = this.#services
    try {
      this.applyStatus(await batches.readStatus(this.#batch))
      if (this.isOver || this.#ending || elapsedMs(this.#startedMs, monotonic.now()) < sliceMs) return
      if (await batchWakes.hasWaiting(monotonic.now())) this.stop(yieldGraceMs)
    } catch (error) {
      if ((error as Error).name === 'Superseded') this.fail(error)
      else log.debug({ err: error, batch: this.#batch.id }, 'cannot read the status of a batch')
    }
  }
}
