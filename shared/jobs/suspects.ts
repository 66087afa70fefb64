/** Work is given up after so many starts that never ended. */
export const maxOpenStarts = 3

/** Suspects of one death that run beside each other in a process, before any of them has been there at a second one. */
const groupSize = 8

/** What becomes of work that is given up: its code and the message that its owner reads. */
export const givenUp = {
  code: 'internal_error',
  message: `The gateway failed ${maxOpenStarts} times while it worked on this, so it was given up.`,
} as const

/**
 * Permits of one process for work that was under way when a worker died. Which of it was to blame is found by running it in
 * ever smaller groups: what has seen one death runs beside at most seven others of that kind, what has seen two runs without
 * any. Work that has seen none needs no permit and goes on meanwhile. See docs/decisions/poison-work.md.
 */
export class Suspects {
  #free = groupSize
  readonly #handBacks = new Set<() => Promise<unknown>>()
  readonly #waiting: { weight: number; start: () => void }[] = []

  /** Whether a suspect that came now would have to wait. */
  get isBusy(): boolean {
    return this.#free < groupSize
  }

  /**
   * Runs work when its turn has come. `openStarts` counts its starts that never ended, without this one. `handBack` takes
   * this start off its count, should the process have to stop before the work ends.
   */
  async run<T>(openStarts: number, work: () => Promise<T>, handBack?: () => Promise<unknown>): Promise<T> {
    if (handBack) this.#handBacks.add(handBack)
    try {
      return await this.#inTurn(openStarts, work)
    } finally {
      if (handBack) this.#handBacks.delete(handBack)
    }
  }

  /** Takes the starts under way off their counts: this process is about to be stopped, and they are not to blame. Never rejects. */
  async handBack(): Promise<void> {
    await Promise.allSettled([...this.#handBacks].map(handBack => handBack()))
  }

  async #inTurn<T>(openStarts: number, work: () => Promise<T>): Promise<T> {
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

  /** In the order of their coming, so that whoever must run alone is not overtaken for ever. */
  #startNext(): void {
    for (let [next] = this.#waiting; next && next.weight <= this.#free; [next] = this.#waiting) {
      this.#waiting.shift()
      this.#free -= next.weight
      next.start()
    }
  }
}
