import type { FinishedRequest, Metrics } from '../shared/metrics/metrics.ts'
import type { ServedEndpoint, State } from './state.ts'

const labels = new WeakMap<ServedEndpoint, string>()

/** The method and the path of an endpoint, as a label. */
function labelOf(endpoint: ServedEndpoint): string {
  let label = labels.get(endpoint)
  if (label === undefined) {
    label = `${endpoint.method.toUpperCase()} ${endpoint.path}`
    labels.set(endpoint, label)
  }
  return label
}

/** Label of requests without an endpoint of the API: pages, probes, unknown paths. */
const noEndpoint = 'other'

/** Counts a finished request. `status`: what was sent; that of a run, which also covers streams, takes precedence. */
export function recordRequest(state: State, status: number, durationMs: number): void {
  const { services, logFields, endpoint, apiKey, body, failure, client } = state
  const run = logFields as Partial<FinishedRequest>
  services.metrics?.recordRequest({
    endpoint: endpoint ? labelOf(endpoint) : noEndpoint,
    model: run.model ?? failure?.headers['x-gateway-model'] ?? '',
    provider: run.provider ?? failure?.headers['x-gateway-provider'] ?? '',
    status: run.status ?? status,
    errorCode: run.errorCode ?? '',
    environment: apiKey?.policy.environment ?? '',
    streamed: (body as { stream?: unknown } | undefined)?.stream === true,
    durationMs,
    ownMs: run.model === undefined ? null : client.ownMs,
  })
}

/** Endpoints on WebSockets, as labels. */
const socketEndpoints: Record<string, string> = {
  '/v1/realtime': 'GET /v1/realtime',
  '/v1/responses': 'WS /v1/responses',
}

/**
 * Counts a realtime session or a turn of a WebSocket that is over, or an upgrade that was refused. `logFields`: its log line, with
 * the outcome.
 */
export function recordOnSocket(
  metrics: Metrics,
  logFields: Record<string, unknown>,
  ended: Pick<FinishedRequest, 'status' | 'environment' | 'durationMs'> & { path: string },
): void {
  const { path, ...rest } = ended
  const { model = '', provider = '', errorCode, status = ended.status } = logFields as Partial<FinishedRequest>
  const outcome = { model, provider: provider ?? '', errorCode: errorCode ?? '', status }
  const endpoint = socketEndpoints[path] ?? noEndpoint
  metrics.recordRequest({ endpoint, streamed: true, ownMs: null, ...rest, ...outcome })
}
