type Waiting<In, Out> = { item: In; resolve(out: Out): void; reject(error: unknown): void }

/**
 * Batches the items that arrive in one turn of the event loop, or while the previous batch is under way, into one call of
 * `run`, which returns one result per item in the same order. If it throws, each of its items is rejected with that error.
 */
export class Batcher<In, Out> {
  readonly #run: (items: In[]) => Promise<Out[]>
  readonly #max: number
  readonly #waiting: Waiting<In, Out>[] = []
  #busy = false

  constructor(run: (items: In[]) => Promise<Out[]>, max: number) {
    this.#run = run
    this.#max = max
  }

  add(item: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject })
      if (this.#busy) return
      this.#busy = true
      setImmediate(() => void this.#drain())
    })
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#max)
      try {
        const results = await this.#run(batch.map(({ item }) => item))
        for (const [i, { resolve }] of batch.entries()) resolve(results[i]!)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#busy = false
  }
}
