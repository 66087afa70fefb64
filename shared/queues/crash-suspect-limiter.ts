/** Work is failed after this many starts that never ended. */
export const maxOpenStarts = 3

/** How many suspects with a single unfinished start may run concurrently in one process. */
const groupSize = 8

/** The error of work that is failed for killing its workers: its code and the message for its owner. */
export const poisonError = {
  code: 'internal_error',
  message: `The gateway failed ${maxOpenStarts} times while it worked on this, so it was given up.`,
} as const

/**
 * A weighted semaphore for work that was under way when a worker died. The poison is isolated by running suspects in ever
 * smaller groups: work with one unfinished start runs beside at most seven other suspects, work with two runs without any.
 * Other work needs no permit and is not delayed. See docs/decisions/poison-work.md.
 */
export class CrashSuspectLimiter {
  #free = groupSize
  readonly #uncounts = new Set<() => Promise<unknown>>()
  readonly #waiting: { weight: number; start: () => void }[] = []

  /** Whether a new suspect might have to wait. */
  get isBusy(): boolean {
    return this.#free < groupSize
  }

  /**
   * Runs work once it has a permit. `openStarts` counts its starts that never ended, excluding this one. `uncount` uncounts
   * this start if the process has to stop before the work ends.
   */
  async run<T>(openStarts: number, work: () => Promise<T>, uncount?: () => Promise<unknown>): Promise<T> {
    if (uncount) this.#uncounts.add(uncount)
    try {
      return await this.#withPermit(openStarts, work)
    } finally {
      if (uncount) this.#uncounts.delete(uncount)
    }
  }

  /** Uncounts all starts under way: this process is about to be stopped, which is not their fault. Never rejects. */
  async uncountStarts(): Promise<void> {
    await Promise.allSettled([...this.#uncounts].map(uncount => uncount()))
  }

  async #withPermit<T>(openStarts: number, work: () => Promise<T>): Promise<T> {
    if (openStarts <= 0) return work()
    const weight = openStarts === 1 ? 1 : groupSize
    if (this.#waiting.length > 0 || weight > this.#free)
      await new Promise<void>(start => this.#waiting.push({ weight, start }))
    else this.#free -= weight
    try {
      return await work()
    } finally {
      this.#free += weight
      this.#startNext()
    }
  }

  /** First in, first out, so that work that must run alone is not starved. */
  #startNext(): void {
    for (let [next] = this.#waiting; next && next.weight <= this.#free; [next] = this.#waiting) {
      this.#waiting.shift()
      this.#free -= next.weight
      next.start()
    }
  }
}
