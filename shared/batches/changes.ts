/**
 * A coalescing signal for one waiter: it fires after the current turn of the event loop, so that all other events of that
 * turn are handled first and many changes wake the waiter once.
 */
export class Changes {
  #wake: (() => void) | null = null
  #waking: NodeJS.Immediate | null = null

  /** Resolves after the next change. */
  next(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  /** Wakes the waiter in the next turn. */
  notify(): void {
    this.#waking ??= setImmediate(() => {
      this.#waking = null
      this.#wake?.()
    })
  }
}
