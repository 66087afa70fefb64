/** Memory limits of a batch: the parsed lines being run with the answers they expect, and the results waiting to be written. */
const maxRunningBytes = 96 * 1024 * 1024
const maxBytes = 32 * 1024 * 1024
const maxUnwritten = 4_000
/** Decay of the expected answer length with each shorter answer. */
const answerDecay = 0.99

/** Limits how many lines of a batch run concurrently, by count and by memory. */
export class LineLimits {
  readonly #maxRunning: number
  #running = 0
  #runningBytes = 0
  /** Decaying maximum of recent answer lengths: the expected length for every running line. */
  #answerCharacters = 0

  constructor(maxRunning: number) {
    this.#maxRunning = maxRunning
  }

  get running(): number {
    return this.#running
  }

  /** `bytes`: the memory of the parsed line. */
  start(bytes: number): void {
    this.#running++
    this.#runningBytes += bytes
  }

  recordAnswer(characters: number): void {
    this.#answerCharacters = Math.max(characters, this.#answerCharacters * answerDecay)
  }

  end(bytes: number): void {
    this.#running--
    this.#runningBytes -= bytes
  }

  /** Whether one more line may start, given the results waiting to be written. */
  hasRoom({ results, characters }: { results: number; characters: number }): boolean {
    if (results >= maxUnwritten || characters >= maxBytes) return false
    if (this.#running === 0) return true
    const expectedBytes = this.#runningBytes + this.#running * this.#answerCharacters
    return this.#running < this.#maxRunning && expectedBytes < maxRunningBytes
  }
}
