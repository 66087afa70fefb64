/**
 * Tells one waiter that something changed, once the turn of the event loop that it changed in is through: whatever else came
 * in that turn goes first, and many changes are one.
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

  /** Something changed. */
  note(): void {
    this.#waking ??= setImmediate(() => {
      this.#waking = null
      this.#wake?.()
    })
  }
}
