import type { GatewayError } from '../base/errors.ts'
import { isOwnTimeout } from '../engine/caller-timeouts.ts'
import { isBusy, isUncheckedAnswer } from '../engine/failures.ts'
import { jittered } from '../io/retry.ts'

/** Backoff after provider failures; after the last of these pauses the error is the line's result. */
const pausesMs = [1_000, 5_000]
const busyPauseMs = 2_000
const maxPauseMs = 60_000

/**
 * The backoff before a refused line is retried; null = the error is its result. `failures` counts its provider failures,
 * including this one.
 */
export function retryPauseMs(error: GatewayError, failures: number): number | null {
  const { status, headers } = error
  // An answer that a guard did not check was paid for, as the next one would be.
  if (isUncheckedAnswer(error)) return null
  const askedMs = Number(headers['retry-after'] ?? 1) * 1_000
  if (status === 429 || status === 503) return jittered(Math.min(askedMs, maxPauseMs))
  // An answer that cannot be read was made and paid; the next one would have the same form.
  if (status < 500 || error.code === 'upstream_invalid_response' || isOwnTimeout(error)) return null
  if (isBusy(error)) return jittered(Math.min(Math.max(askedMs, busyPauseMs), maxPauseMs))
  const pauseMs = pausesMs[failures - 1]
  return pauseMs === undefined ? null : jittered(pauseMs)
}
