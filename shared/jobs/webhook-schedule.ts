const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** The pauses between the attempts of a delivery (contract §8). */
export const pausesMs = [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 10 * hour]
const round = pausesMs.length + 1
const mostRetryAfterMs = 24 * hour
const jitter = 0.1

/**
 * When a delivery is tried again after its `attempts`th failed attempt, in milliseconds from now; null when that was the
 * last. What was sent again by hand after its last attempt has a whole round of attempts before it. `retryAfterMs` is
 * what the receiver asks for: it makes the pause longer, up to 24 hours, never shorter. `random` is from 0 to 1.
 */
export function nextPauseMs(attempts: number, retryAfterMs: number, random = Math.random()): number | null {
  const pauseMs = pausesMs[(attempts - 1) % round]
  if (pauseMs === undefined) return null
  const jittered = Math.round(pauseMs * (1 - jitter + 2 * jitter * random))
  return Math.max(jittered, Math.min(retryAfterMs, mostRetryAfterMs))
}

/** What a `Retry-After` header asks for, in milliseconds from now; 0 when it makes no sense. */
export function retryAfterMs(header: string, nowMs: number): number {
  const text = header.trim()
  const waitMs = /^\d{1,9}$/.test(text) ? Number(text) * second : Date.parse(text) - nowMs
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : 0
}
