import type { Target } from '../providers/contract.ts'
import { type Candidate, mostAttempts, type RoutedAttempt, type RoutingRecord } from '../wallet/routing-record.ts'
import type { Tried } from './failures.ts'
import type { Ended } from './report.ts'

/** Why a request goes where it goes; empty where the request named it. */
export type Explanation = { reason: string; candidates: readonly Candidate[] }

/**
 * What the request log keeps of a run beside its figures; null where those tell it all: one call, to a model that was named.
 * `lastMs` is how long the call took that it ended with, if it ended with one.
 */
export function routingRecord(
  { reason, candidates }: Partial<Explanation>,
  tried: readonly Tried[],
  ended: Pick<Ended, 'target' | 'status' | 'errorCode'>,
  lastMs: number,
): RoutingRecord | null {
  if (!reason && tried.length === 0) return null
  return {
    ...(reason && { reason, candidates: candidates ?? [] }),
    ...(tried.length > 0 && { attempts: attemptsOf(tried, ended, lastMs).slice(0, mostAttempts) }),
  }
}

function attemptsOf(
  tried: readonly Tried[],
  { target, status, errorCode }: Pick<Ended, 'target' | 'status' | 'errorCode'>,
  lastMs: number,
): RoutedAttempt[] {
  const attempts = tried.map(({ target, error, durationMs }) => ({
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
