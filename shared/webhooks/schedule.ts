import { dayMs } from '../base/time.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** The pauses between the attempts of a delivery. */
export const pausesMs = [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour]
/** A manual redelivery after the last attempt starts a new round. */
export const attemptsPerRound = pausesMs.length + 1

const maxRetryAfterMs = dayMs
const jitter = 0.1

/**
 * The backoff after a delivery's `attempts`th failed attempt, in milliseconds from now; null when that was the last. A manual
 * redelivery after the last attempt starts a new round of attempts. `retryAfterMs` is the receiver's `Retry-After`: it
 * lengthens the pause, up to 24 hours, and never shortens it. `random` is from 0 to 1.
 */
export function nextPauseMs(attempts: number, retryAfterMs: number, random = Math.random()): number | null {
  const pauseMs = pausesMs[(attempts - 1) % attemptsPerRound]
  if (pauseMs === undefined) return null
  const jittered = Math.round(pauseMs * (1 - jitter + 2 * jitter * random))
  return Math.max(jittered, Math.min(retryAfterMs, maxRetryAfterMs))
}

/** Parses a `Retry-After` header to milliseconds from now; 0 when it is invalid. */
export function retryAfterMs(header: string, nowMs: number): number {
  const text = header.trim()
  const waitMs = /^\d{1,9}$/.test(text) ? Number(text) * second : Date.parse(text) - nowMs
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : 0
}
