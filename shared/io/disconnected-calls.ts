/**
 * A client that may disconnect during a call. `leaving` is set if the client itself ends the request, so that the call
 * must not continue.
 */
type DisconnectableClient = { readonly leaving?: unknown; onGone(listener: () => void): void }

/**
 * Tracks calls whose clients disconnected. A provider bills every request it has received: such a call may continue for
 * a while, so that the provider can report usage, and is aborted after that. `close` aborts all of them.
 */
export class DisconnectedCalls {
  readonly #aborts = new Set<() => void>()
  #closed = false

  /**
   * Calls `abort` when the client has been gone for the `readOnMs()` milliseconds determined at its disconnect;
   * immediately if `leaving` is set. Returns a function that stops tracking, to be called when the call has ended.
   */
  track(client: DisconnectableClient, readOnMs: () => number, abort: () => void): () => void {
    let timer: NodeJS.Timeout | undefined
    let ended = false
    const forget = () => {
      ended = true
      clearTimeout(timer)
      this.#aborts.delete(abortOnce)
    }
    const abortOnce = () => {
      if (ended) return
      forget()
      abort()
    }
    client.onGone(() => {
      if (ended) return
      const delayMs = client.leaving || this.#closed ? 0 : readOnMs()
      if (delayMs === 0) return abortOnce()
      this.#aborts.add(abortOnce)
      timer = setTimeout(abortOnce, delayMs)
    })
    return forget
  }

  /** Aborts every call whose client is gone, and later ones as soon as their client disconnects. */
  close(): void {
    this.#closed = true
    for (const abort of this.#aborts) abort()
  }
}
