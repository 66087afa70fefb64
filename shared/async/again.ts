import type { GatewayError } from '../base/errors.ts'
import { isBusy } from '../chat/failures.ts'
import { failuresOf } from '../jobs/delayed.ts'
import type { Job } from '../jobs/jobs.ts'

/** Providers that fail a job are given a rest before it is tried again; after the last of these pauses it fails. */
const failurePausesMs = [5_000, 20_000, 60_000, 300_000]
/** Pauses while there is no room, which may take as long as the job has time. */
const busyPauseMs = { least: 2_000, most: 60_000 }
const mostAskedMs = 3_600_000

/** How long to wait before the next run, and how often providers have failed the job by then. */
export type Again = { pauseMs: number; failures: number }

/** Whether and when a job whose run failed is run again; null = it fails with that error. `random` is from 0 to 1. */
export function againAfter(job: Job, error: GatewayError, random = Math.random()): Again | null {
  const { status, headers } = error
  const failures = failuresOf(job)
  const isWait = status === 503 || status === 429
  // The sandbox would only say the same again.
  if (!isWait && (status < 500 || job.environment === 'test')) return null
  const askedMs = Math.min(Number(headers['retry-after'] ?? 0) * 1_000, mostAskedMs)
  if (isWait || isBusy(error)) {
    const backoffMs = Math.min(busyPauseMs.least * 2 ** Math.min(job.attempts - 1, 10), busyPauseMs.most)
    return { pauseMs: Math.max(askedMs, jittered(backoffMs, random)), failures }
  }
  const pauseMs = failurePausesMs[failures]
  return pauseMs === undefined
    ? null
    : { pauseMs: Math.max(askedMs, jittered(pauseMs, random)), failures: failures + 1 }
}

/** Up to half as long again, so that jobs that failed together do not come back together. */
function jittered(ms: number, random: number): number {
  return Math.round(ms * (1 + random / 2))
}
