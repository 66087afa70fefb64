import type { z } from 'zod'
import type { variables } from './variables.ts'

export type MetricsAddress = { host: string; port: number }

/** Where traces are sent, and how many. */
export type TracingConfig = {
  /** The collector's URL for traces over OTLP/HTTP. */
  url: string
  headers: Record<string, string>
  serviceName: string
  /** The share of traces that are sent, 0 to 1. */
  share: number
  /** Whether a trace that a caller began is sent as the caller says, whatever the share. */
  followsParent: boolean
}

/** Settings of metrics and traces. */
export function telemetryOf(v: z.output<typeof variables>): {
  metrics: MetricsAddress | null
  tracing: TracingConfig | null
} {
  const endpoint = v.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/+$/, '')
  const url = v.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (endpoint && `${endpoint}/v1/traces`)
  return {
    metrics: v.METRICS_PORT === undefined ? null : { host: v.METRICS_HOST, port: v.METRICS_PORT },
    tracing: url
      ? {
          url,
          headers: headersOf(v.OTEL_EXPORTER_OTLP_HEADERS),
          serviceName: v.OTEL_SERVICE_NAME,
          share: v.OTEL_TRACES_SAMPLER_ARG,
          followsParent: v.OTEL_TRACES_SAMPLER === 'parentbased_traceidratio',
        }
      : null,
  }
}

/** Headers as OpenTelemetry writes them: `name=value,name=value`, the values percent-encoded. */
function headersOf(list = ''): Record<string, string> {
  const pairs = list.split(',').filter(Boolean)
  return Object.fromEntries(
    pairs.map(pair => {
      const at = pair.indexOf('=')
      return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())]
    }),
  )
}
