import { addMs, elapsedMs, longAgo, type MonotonicMs } from '../shared/base/time.ts'
/** The owner of work that takes a slot. */
export type Owner = { organisationId: string; environment: 'live' | 'test' }

/** Spacing between retries of entries that found no free slot, however many wait. */
const pauseStepMs = 10
const minPauseMs = 250

/**
 * The slots of one queue in this process, shared fairly: all test keys together may take at most a quarter of them, and one
 * organisation at most three quarters, so that there is always one for another.
 */
export class WorkerSlots {
  readonly #maxTest: number
  readonly #maxPerOrganisation: number
  readonly #taken = new Map<string, number>()
  #takenByTest = 0
  #nextVisitMs = longAgo

  constructor(count: number) {
    this.#maxTest = Math.max(1, Math.floor(count / 4))
    this.#maxPerOrganisation = Math.max(1, count - Math.max(1, Math.floor(count / 4)))
  }

  /** Organisations that have taken their maximum of slots. */
  get full(): string[] {
    return [...this.#taken].flatMap(([id, taken]) => (taken >= this.#maxPerOrganisation ? [id] : []))
  }

  /** Whether test keys have taken their maximum of slots. */
  get isTestFull(): boolean {
    return this.#takenByTest >= this.#maxTest
  }

  hasRoom({ organisationId, environment }: Owner): boolean {
    if (environment === 'test' && this.isTestFull) return false
    return (this.#taken.get(organisationId) ?? 0) < this.#maxPerOrganisation
  }

  /** Runs work in one of the owner's slots. */
  async run<T>({ organisationId, environment }: Owner, work: () => Promise<T>): Promise<T> {
    this.#taken.set(organisationId, (this.#taken.get(organisationId) ?? 0) + 1)
    if (environment === 'test') this.#takenByTest++
    try {
      return await work()
    } finally {
      const left = this.#taken.get(organisationId)! - 1
      if (left > 0) this.#taken.set(organisationId, left)
      else this.#taken.delete(organisationId)
      if (environment === 'test') this.#takenByTest--
    }
  }

  /** The retry delay of an entry that found no slot, in milliseconds: a hundred retries per second in all. */
  pauseMs(nowMs: MonotonicMs): number {
    const delayMs = Math.max(elapsedMs(nowMs, this.#nextVisitMs) + pauseStepMs, minPauseMs)
    this.#nextVisitMs = addMs(nowMs, delayMs)
    return delayMs
  }
}
