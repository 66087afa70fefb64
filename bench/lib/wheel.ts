import { nowUs } from './clock.ts'

export type Job = { run(): void }

const slots = 8_192
const tickMs = 1

/** Runs jobs at given milliseconds of the shared clock, up to 8 s ahead. One timer for all: a timer each would drift and cost more. */
export class Wheel {
  readonly #slots: Job[][] = Array.from({ length: slots }, () => [])
  #nowMs = 0
  #waiting = 0

  at(dueMs: number, job: Job): void {
    if (this.#waiting++ === 0) {
      this.#nowMs = Math.floor(nowUs() / 1e3)
      setTimeout(() => this.#tick(), tickMs)
    }
    const slotMs = Math.min(Math.max(Math.floor(dueMs), this.#nowMs + 1), this.#nowMs + slots - 1)
    this.#slots[slotMs % slots]!.push(job)
  }

  #tick(): void {
    const nowMs = Math.floor(nowUs() / 1e3)
    while (this.#nowMs < nowMs) {
      const slot = ++this.#nowMs % slots
      const jobs = this.#slots[slot]!
      if (jobs.length === 0) continue
      this.#slots[slot] = []
      for (const job of jobs) job.run()
      this.#waiting -= jobs.length
    }
    if (this.#waiting > 0) setTimeout(() => this.#tick(), tickMs)
  }
}
