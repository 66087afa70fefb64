import { requestAttributes } from '../shared/traces/attributes.ts'
import { SpanKind, type Trace } from '../shared/traces/trace.ts'
import type { Tracing } from '../shared/traces/tracing.ts'
import { isGooglePath } from './google-dialect.ts'
import type { State } from './state.ts'

/** Begins the trace of a request to the API; pages and probes have none. */
export function beginTrace(state: State, tracing: Tracing): void {
  const { path, method, request, client } = state
  if (path.startsWith('/v1/') || path.startsWith('/api/') || isGooglePath(path))
    client.trace = tracing.begin(request.headers, method, SpanKind.SERVER)
}

/** Ends the trace of a request. `status`: what the client received; that of a run, which also covers streams, takes precedence. */
export function endTrace(state: State, trace: Trace, status: number): void {
  const { endpoint, method, path, requestId, request, apiKey, logFields } = state
  const run = logFields as { status?: number; errorCode?: string | null }
  const errorCode = run.errorCode ?? null
  if (endpoint) trace.root.name = `${method} ${endpoint.path}`
  const served = run.status ?? status
  trace.root.set(
    requestAttributes({
      method,
      path,
      requestId,
      errorCode,
      route: endpoint?.path ?? null,
      status: served,
      userAgent: request.headers['user-agent'],
      organisationId: apiKey?.policy.organisationId ?? state.organisationId,
      keyId: apiKey?.policy.keyId,
    }),
  )
  // The client's faults are not the server's (HTTP conventions).
  trace.end(served >= 500 ? (errorCode ?? String(served)) : null)
}

type SocketRun = {
  status?: number
  errorCode?: string | null
  organisation?: string
  key?: string
  model?: string
  provider?: string | null
}

/** Ends the trace of a realtime session or a turn of a WebSocket. `logFields`: its log line, with the outcome. */
export function endSocketTrace(
  trace: Trace,
  logFields: Record<string, unknown>,
  { requestId, path, status }: { requestId: string; path: string; status: number },
): void {
  const run = logFields as SocketRun
  const served = run.status ?? status
  const errorCode = run.errorCode ?? null
  trace.root.set(
    requestAttributes({
      method: 'GET',
      route: path,
      path,
      requestId,
      errorCode,
      status: served,
      userAgent: undefined,
      organisationId: run.organisation,
      keyId: run.key,
    }),
  )
  if (run.model) trace.root.set({ 'headgate.model': run.model, 'headgate.provider': run.provider ?? '' })
  trace.end(served >= 500 ? (errorCode ?? String(served)) : null)
}
