import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { Target } from '../providers/contract.ts'
import type { ProviderError } from '../providers/provider-error.ts'
import { redactCredentials } from '../providers/redact-credentials.ts'
import { type Candidate, maxAttempts, type RoutedAttempt, type RoutingRecord } from '../wallet/routing-record.ts'
import type { CallTiming, FailedAttempt } from './failures.ts'
import type { RunOutcome } from './report.ts'

/** The reason for a routing decision; empty when the request named the model. */
export type Explanation = { reason: string; candidates: readonly Candidate[] }

/** The final call of a run, if it ended with one: its duration so far, and its timing. */
export type LastCall = CallTiming & { elapsedMs: number }

/**
 * The routing record of a run in the request log; null for a single call to a named model, which needs none. Times of calls
 * count from `fromMs`.
 */
export function routingRecord(
  { reason, candidates }: Partial<Explanation>,
  failedAttempts: readonly FailedAttempt[],
  outcome: Pick<RunOutcome, 'target' | 'status' | 'errorCode'>,
  last: LastCall | null,
  fromMs: MonotonicMs,
): RoutingRecord | null {
  if (!reason && failedAttempts.length === 0) return null
  return {
    ...(reason && { reason, candidates: candidates ?? [] }),
    ...(failedAttempts.length > 0 && {
      attempts: attemptsOf(failedAttempts, outcome, last, fromMs).slice(0, maxAttempts),
    }),
  }
}

function attemptsOf(
  failedAttempts: readonly FailedAttempt[],
  { target, status, errorCode }: Pick<RunOutcome, 'target' | 'status' | 'errorCode'>,
  last: LastCall | null,
  fromMs: MonotonicMs,
): RoutedAttempt[] {
  const attempts: RoutedAttempt[] = failedAttempts.map(({ target, error, durationMs, ...timing }) => ({
    ...namesOf(target),
    status: error.status,
    fault: error.reason,
    durationMs,
    ...placeOf(timing, fromMs),
    ...messageOf(error),
  }))
  if (!target) return attempts
  const call = { status: errorCode ? null : status, fault: errorCode, durationMs: last?.elapsedMs ?? 0 }
  return [...attempts, { ...namesOf(target), ...call, ...(last && placeOf(last, fromMs)) }]
}

function namesOf({ provider, model }: Target): { provider: string; model: string } {
  return { provider: provider.name, model: model.id }
}

function placeOf({ startedMs, pause }: CallTiming, fromMs: MonotonicMs): Pick<RoutedAttempt, 'startedMs' | 'pause'> {
  return { startedMs: Math.max(0, elapsedMs(fromMs, startedMs)), ...(pause && { pause }) }
}

/** What a provider answered to a failed call. Errors about our account there are left out. */
export function messageOf({ reason, message }: ProviderError): Pick<RoutedAttempt, 'message'> {
  if (reason === 'auth' || reason === 'quota' || message === '') return {}
  return { message: redactCredentials(message) }
}
