import type { UsageEvent } from '../wallet/usage-event.ts'
import { callAttributes, runAttributes, usageAttributes } from './attributes.ts'
import { type Span, SpanKind, type Trace } from './trace.ts'

type CallRoute = {
  target: { model: { id: string }; provider: { name: string; auth: string } }
  traceparent?: string | null
}

/**
 * Starts the span of a call to a provider. A server of the operator's own gets its context; other providers get nothing that
 * identifies the request.
 */
export function startCall(trace: Trace, route: CallRoute): Span {
  const { model, provider } = route.target
  const name = `${trace.operation} ${model.id}`
  const span = trace.startSpan(name, SpanKind.CLIENT, callAttributes(trace.operation, model.id, provider.name))
  if (provider.auth === 'none') route.traceparent = span.traceparent
  return span
}

/** Adds what a run used to its trace. `isAnswered`: by the latest call. */
export function recordRun(trace: Trace, event: UsageEvent, isAnswered: boolean): void {
  trace.root.set(runAttributes(event))
  if (isAnswered) trace.lastCall?.set(usageAttributes(event))
}
