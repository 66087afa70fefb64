import type { GatewayError } from '../base/errors.ts'
import { isBusy } from '../chat/failures.ts'

/** Providers that fail a line are given a rest before it is tried again; after the last of these pauses its error stands. */
const pausesMs = [1_000, 5_000]
const busyPauseMs = 2_000
const longestPauseMs = 60_000

/**
 * How long to wait before a line that was refused is tried again; null = what it was refused with is its result. `failures`
 * counts how often its providers have failed it, this time included.
 */
export function pauseBeforeNext(error: GatewayError, failures: number): number | null {
  const { status, headers } = error
  const askedMs = Number(headers['retry-after'] ?? 1) * 1_000
  if (status === 429 || status === 503) return jittered(Math.min(askedMs, longestPauseMs))
  if (status < 500) return null
  if (isBusy(error)) return jittered(Math.min(Math.max(askedMs, busyPauseMs), longestPauseMs))
  const pauseMs = pausesMs[failures - 1]
  return pauseMs === undefined ? null : jittered(pauseMs)
}

/** Up to half as long again, so that lines that were refused together do not come back together. */
function jittered(ms: number): number {
  return ms * (1 + Math.random() / 2)
}
