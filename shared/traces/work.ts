import type { Attributes } from '@opentelemetry/api'
import { workAttributes } from './attributes.ts'
import { SpanKind, type Trace } from './trace.ts'
import type { Tracing } from './tracing.ts'

/** The request that creates queued work. */
export type Origin = { requestId: string; trace?: Trace | null }

/** Notes in the trace of a request that it enqueued work; returns what the row of the work keeps, null without a trace. */
export function traceEnqueued(
  trace: Trace | null | undefined,
  queue: string,
  kind: string,
  id?: string,
): string | null {
  if (!trace?.isSampled) return null
  const span = trace.startSpan(`send ${kind}`, SpanKind.PRODUCER, workAttributes(queue, id, 'send'))
  return span.traceparent
}

/** A step of queued work, as its row describes it. */
type Step = { traceparent: string | null; queue: string; name: string; id: string; attributes?: Attributes }

/**
 * Runs a step of queued work in the trace of the request that created it; `run` gets null without one. The span ends as the
 * step does.
 */
export async function traceStep<T>(
  tracing: Tracing | null,
  { traceparent, queue, name, id, attributes }: Step,
  run: (trace: Trace | null) => Promise<T>,
): Promise<T> {
  const trace = tracing?.resume(traceparent, name, SpanKind.CONSUMER, {
    ...workAttributes(queue, id, 'process'),
    ...attributes,
  })
  if (!trace) return run(null)
  try {
    const result = await run(trace)
    trace.end()
    return result
  } catch (error) {
    trace.end(error instanceof Error ? error.name : 'error')
    throw error
  }
}
