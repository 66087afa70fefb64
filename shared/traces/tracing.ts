import { hostname } from 'node:os'
import { type Attributes, type HrTime, SpanStatusCode, TraceFlags } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, type ReadableSpan } from '@opentelemetry/sdk-trace'
import { nodeAgentOptions, type Proxies } from '../base/proxies.ts'
import type { TracingConfig } from '../base/telemetry-config.ts'
import { schemaUrl } from './attributes.ts'
import { type Span, type SpanKind, Trace } from './trace.ts'
import { isInShare, newTraceId, parseTraceParent } from './trace-context.ts'

const maxQueuedSpans = 4_096
const exportTimeoutMs = 10_000
const closeTimeoutMs = 3_000

/** Collects the traces of this process and sends them to a collector, in the background; beyond a full queue they are dropped. */
export class Tracing {
  readonly #config: TracingConfig
  readonly #processor: BatchSpanProcessor
  readonly #common: Pick<ReadableSpan, 'resource' | 'instrumentationScope'>

  constructor(config: TracingConfig, proxies: Proxies) {
    this.#config = config
    const exporter = new OTLPTraceExporter({
      url: config.url,
      headers: config.headers,
      timeoutMillis: exportTimeoutMs,
      httpAgentOptions: nodeAgentOptions(proxies),
    })
    this.#processor = new BatchSpanProcessor({
      exporter,
      maxQueueSize: maxQueuedSpans,
      exportTimeoutMillis: exportTimeoutMs,
    })
    this.#common = {
      resource: resourceFromAttributes({
        'service.name': config.serviceName,
        'service.instance.id': `${hostname()}-${process.pid}`,
      }),
      instrumentationScope: { name: 'headgate', schemaUrl },
    }
  }

  /**
   * Begins the part of a trace that this process adds, below `traceparent` if that is one. Null where nothing is sent and
   * nothing has to be passed on.
   */
  begin(
    { traceparent, tracestate }: Readonly<Record<string, unknown>>,
    name: string,
    kind: SpanKind,
    attributes: Attributes = {},
  ): Trace | null {
    const { share, followsParent } = this.#config
    const parent = parseTraceParent(traceparent, tracestate)
    const traceId = parent?.traceId ?? newTraceId()
    const isSampled = parent && followsParent ? parent.isSampled : isInShare(traceId, share)
    if (!isSampled && !parent) return null
    return new Trace(parent, isSampled, { name, kind, attributes }, trace => this.#send(trace), traceId)
  }

  /** Continues a trace of this service in another process; null if it is not sampled. */
  resume(traceparent: string | null, name: string, kind: SpanKind, attributes: Attributes = {}): Trace | null {
    const parent = parseTraceParent(traceparent)
    if (!parent?.isSampled) return null
    return new Trace(parent, true, { name, kind, attributes }, trace => this.#send(trace))
  }

  #send(trace: Trace): void {
    for (const span of trace.spans) this.#processor.onEnd(this.#readable(span))
  }

  #readable(span: Span): ReadableSpan {
    const { trace, name, kind, parentId, attributes, error, startMs } = span
    const endMs = span.endMs ?? startMs
    const context = (spanId: string, isRemote: boolean) => ({
      traceId: trace.traceId,
      spanId,
      traceFlags: TraceFlags.SAMPLED,
      isRemote,
    })
    const own = context(span.id, false)
    return {
      ...this.#common,
      name,
      kind,
      attributes,
      links: [],
      events: [],
      ended: true,
      ...(parentId && { parentSpanContext: context(parentId, span === trace.root) }),
      spanContext: () => own,
      startTime: hrTime(startMs),
      endTime: hrTime(endMs),
      duration: hrTime(endMs - startMs),
      status: error === null ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    }
  }

  /** Sends what is left, within a few seconds. */
  async close(): Promise<void> {
    const timeout = Promise.withResolvers<void>()
    const timer = setTimeout(timeout.resolve, closeTimeoutMs)
    await Promise.race([this.#processor.shutdown().catch(() => {}), timeout.promise])
    clearTimeout(timer)
  }
}

/** A time in epoch milliseconds as OpenTelemetry has it. */
export function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000)
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)]
}
