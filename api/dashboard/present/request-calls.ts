import type { Generation } from '../../../shared/generated/prisma/client.ts'
import type { RoutedAttempt, RoutingRecord } from '../../../shared/wallet/routing-record.ts'
import type { RequestCall } from '../wire/request-calls.ts'

/** The recorded provider calls; a single call is derived from the figures of the request. */
export function callsOf(row: Generation, { attempts }: RoutingRecord): RequestCall[] {
  if (attempts) return attempts.map(presentCall)
  const { provider, model, attempts: made, status, errorCode, durationMs } = row
  if (provider === null || made === 0) return []
  const call = { provider, model, status: errorCode === null ? status : null, fault: errorCode, durationMs }
  return [presentCall(call)]
}

/** A call to a provider, as pages show it. */
export function presentCall({ durationMs, startedMs, pause, message, ...call }: RoutedAttempt): RequestCall {
  return {
    ...call,
    duration_ms: durationMs,
    started_ms: startedMs ?? null,
    pause: pause ?? null,
    message: message ?? null,
  }
}
