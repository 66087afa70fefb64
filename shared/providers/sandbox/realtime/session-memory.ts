/** The maximum of all sessions of this process together, and what each may hold beyond that. */
const maxTotalBytes = 64 * 1024 * 1024
const minSessionBytes = 1024 * 1024
let totalBytes = 0

/** The memory of one session: its items and the audio that was sent. */
export class SessionMemory {
  #bytes = 0
  #isReleased = false

  /** Whether the session must hold less: the process is full, and it holds more than each may. */
  get isFull(): boolean {
    return totalBytes > maxTotalBytes && this.#bytes > minSessionBytes
  }

  /** Adds bytes to those that the session holds, or subtracts them. */
  hold(bytes: number): void {
    if (this.#isReleased) return
    this.#bytes += bytes
    totalBytes += bytes
  }

  /** Ends the session's account. */
  release(): void {
    this.hold(-this.#bytes)
    this.#isReleased = true
  }
}
