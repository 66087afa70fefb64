import type { Target } from '../providers/contract.ts'
import { type Candidate, maxAttempts, type RoutedAttempt, type RoutingRecord } from '../wallet/routing-record.ts'
import type { FailedAttempt } from './failures.ts'
import type { RunOutcome } from './report.ts'

/** The reason for a routing decision; empty when the request named the model. */
export type Explanation = { reason: string; candidates: readonly Candidate[] }

/**
 * The routing record of a run in the request log; null for a single call to a named model, which needs none. `lastMs`:
 * duration of the final call, if the run ended with one.
 */
export function routingRecord(
  { reason, candidates }: Partial<Explanation>,
  failedAttempts: readonly FailedAttempt[],
  outcome: Pick<RunOutcome, 'target' | 'status' | 'errorCode'>,
  lastMs: number,
): RoutingRecord | null {
  if (!reason && failedAttempts.length === 0) return null
  return {
    ...(reason && { reason, candidates: candidates ?? [] }),
    ...(failedAttempts.length > 0 && { attempts: attemptsOf(failedAttempts, outcome, lastMs).slice(0, maxAttempts) }),
  }
}

function attemptsOf(
  failedAttempts: readonly FailedAttempt[],
  { target, status, errorCode }: Pick<RunOutcome, 'target' | 'status' | 'errorCode'>,
  lastMs: number,
): RoutedAttempt[] {
  const attempts = failedAttempts.map(({ target, error, durationMs }) => ({
    ...namesOf(target),
    status: error.status,
    fault: error.reason,
    durationMs,
  }))
  if (!target) return attempts
  return [...attempts, { ...namesOf(target), status: errorCode ? null : status, fault: errorCode, durationMs: lastMs }]
}

function namesOf({ provider, model }: Target): { provider: string; model: string } {
  return { provider: provider.name, model: model.id }
}
