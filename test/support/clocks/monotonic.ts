import {
  type Clock,
  type MonotonicClock,
  type MonotonicMs,
  systemClock,
  systemMonotonic,
} from '../../../shared/base/time.ts'

/** A time of a test's monotonic clock. */
export function monotonicAt(ms: number): MonotonicMs {
  return ms as unknown as MonotonicMs
}

/** A monotonic clock that passes with a test's clock; the process's own if the test has none. */
export function monotonicOf(clock: Clock | null): MonotonicClock {
  return clock === null || clock === systemClock ? systemMonotonic : { now: () => monotonicAt(clock.now()) }
}

/** The two clocks of a machine: `pass` lets time pass, `step` sets the wall clock forward or back. */
export class MachineClocks {
  #wallMs: number
  #passedMs = 0
  readonly wall: Clock = { now: () => this.#wallMs }
  readonly monotonic: MonotonicClock = { now: () => monotonicAt(this.#passedMs) }

  constructor(iso: string) {
    this.#wallMs = Date.parse(iso)
  }

  pass(ms: number): void {
    this.#wallMs += ms
    this.#passedMs += ms
  }

  step(ms: number): void {
    this.#wallMs += ms
  }
}
