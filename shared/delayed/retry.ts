import type { GatewayError } from '../base/errors.ts'
import { isOwnTimeout } from '../engine/caller-timeouts.ts'
import { isBusy, isUncheckedAnswer } from '../engine/failures.ts'
import { jittered } from '../io/retry.ts'
import type { Job } from '../jobs/jobs.ts'
import { failuresOf } from './delayed-row.ts'

/** Backoff after provider failures; after the last of these pauses the job fails. */
const failurePausesMs = [5_000, 20_000, 60_000, 300_000]
/** Backoff while providers are busy or limits are reached; retried until the job's deadline. */
const busyPauseMs = { min: 2_000, max: 60_000 }
const maxAskedMs = 3_600_000

/** The delay before the next run, and the number of provider failures so far. */
export type RetryDecision = { pauseMs: number; failures: number }

/** Whether and when a failed run is retried; null = the job fails with that error. `random` is from 0 to 1. */
export function retryDecisionFor(job: Job, error: GatewayError, random = Math.random()): RetryDecision | null {
  const { status, headers } = error
  const failures = failuresOf(job)
  // An answer that a guard did not check was paid for, as the next one would be.
  if (isOwnTimeout(error) || isUncheckedAnswer(error)) return null
  const isWait = status === 503 || status === 429
  // The sandbox is deterministic: a retry would fail the same way.
  if (!isWait && (status < 500 || job.environment === 'test')) return null
  // The next answer would be paid as well, and have the same form.
  if (error.code === 'upstream_invalid_response') return null
  const askedMs = Math.min(Number(headers['retry-after'] ?? 0) * 1_000, maxAskedMs)
  if (isWait || isBusy(error)) {
    const backoffMs = Math.min(busyPauseMs.min * 2 ** Math.min(job.attempts - 1, 10), busyPauseMs.max)
    return { pauseMs: Math.max(askedMs, jittered(backoffMs, random)), failures }
  }
  const pauseMs = failurePausesMs[failures]
  return pauseMs === undefined
    ? null
    : { pauseMs: Math.max(askedMs, jittered(pauseMs, random)), failures: failures + 1 }
}
