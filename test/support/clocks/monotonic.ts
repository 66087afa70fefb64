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
