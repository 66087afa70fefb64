/**
 * More tests at once would only delay each other: a gateway refuses calls whose stores answer late, as they do for a busy
 * event loop.
 */
const maxConcurrent = 16

/** The order of tests by their titles: a turn begins when every test of the turns before it has ended. */
export class Turns {
  /** The tests of each turn that have not begun. */
  readonly #turns: string[][] = []
  readonly #begins = new Map<string, PromiseWithResolvers<void>>()
  #running = 0

  /** Adds tests that run together, after all tests added before. */
  add(titles: string[]): void {
    this.#turns.push([...titles])
    for (const title of titles) this.#begins.set(title, Promise.withResolvers())
  }

  /** Resolves when a test may begin. To be called when all tests are added. Throws an Error for one that is not. */
  wait(title: string): Promise<void> {
    const begin = this.#begins.get(title)
    if (!begin) throw new Error(`no turn for ${title}`)
    this.#advance()
    return begin.promise
  }

  /** A test that had its turn has ended. */
  end(title: string): void {
    if (!this.#begins.delete(title)) return
    this.#running--
    this.#advance()
  }

  #advance(): void {
    while (this.#running < maxConcurrent && this.#turns.length > 0) {
      const title = this.#turns[0]!.shift()
      if (title !== undefined) {
        this.#running++
        this.#begins.get(title)!.resolve()
      } else if (this.#running === 0) this.#turns.shift()
      else return
    }
  }
}
