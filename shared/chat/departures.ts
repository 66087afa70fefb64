import type { Waiting } from './client.ts'

/**
 * Calls whose clients left. A provider bills a request it has, whoever reads the answer: such a call may go on for a while, so
 * that the provider can say what it used, and is cut after that. `close` cuts them all.
 */
export class Departures {
  readonly #cuts = new Set<() => void>()
  #closed = false

  /**
   * Calls `cut` once the client has been gone for as many milliseconds as `readOnMs` gives at its departure; at once where the
   * client says how it leaves. Gives a function that forgets the call, to be called when it is over.
   */
  watch(client: Waiting, readOnMs: () => number, cut: () => void): () => void {
    let timer: NodeJS.Timeout | undefined
    let over = false
    const forget = () => {
      over = true
      clearTimeout(timer)
      this.#cuts.delete(cutOnce)
    }
    const cutOnce = () => {
      if (over) return
      forget()
      cut()
    }
    client.onGone(() => {
      if (over) return
      const delayMs = client.leaving || this.#closed ? 0 : readOnMs()
      if (delayMs === 0) return cutOnce()
      this.#cuts.add(cutOnce)
      timer = setTimeout(cutOnce, delayMs)
    })
    return forget
  }

  /** Cuts every call whose client is gone, and every later one as soon as its client goes. */
  close(): void {
    this.#closed = true
    for (const cut of this.#cuts) cut()
  }
}
