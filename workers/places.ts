/** Whose work takes a place. */
export type Owner = { organisationId: string; environment: 'live' | 'test' }

/** Between two visits that found no place, however many wait for one. */
const pauseStepMs = 10
const minPauseMs = 250

/**
 * The places that one queue has in this process, shared fairly: test keys have at most a quarter of them all together, and no
 * organisation more than three quarters, so that there is always one for somebody else.
 */
export class Places {
  readonly #maxTest: number
  readonly #maxPerOrganisation: number
  readonly #taken = new Map<string, number>()
  #takenByTest = 0
  #nextVisitMs = 0

  constructor(count: number) {
    this.#maxTest = Math.max(1, Math.floor(count / 4))
    this.#maxPerOrganisation = Math.max(1, count - Math.max(1, Math.floor(count / 4)))
  }

  /** Organisations that have all the places they may have. */
  get full(): string[] {
    return [...this.#taken].flatMap(([id, taken]) => (taken >= this.#maxPerOrganisation ? [id] : []))
  }

  /** Whether test keys have all the places they may have. */
  get isTestFull(): boolean {
    return this.#takenByTest >= this.#maxTest
  }

  hasRoom({ organisationId, environment }: Owner): boolean {
    if (environment === 'test' && this.isTestFull) return false
    return (this.#taken.get(organisationId) ?? 0) < this.#maxPerOrganisation
  }

  /** Runs work in a place of its owner. */
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

  /** When a visit that found no place comes again, in milliseconds: a hundred a second in all, however many there are. */
  pauseMs(nowMs: number): number {
    this.#nextVisitMs = Math.max(this.#nextVisitMs + pauseStepMs, nowMs + minPauseMs)
    return this.#nextVisitMs - nowMs
  }
}
