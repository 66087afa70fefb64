import type { Attributes, SpanKind as SpanKinds } from '@opentelemetry/api'
import { steadyClock } from '../base/time.ts'
import { formatTraceParent, newSpanId, newTraceId, type TraceParent } from './trace-context.ts'

/** OpenTelemetry's kinds of spans. Its packages are loaded only where traces are exported (`openTracing`). */
export const SpanKind = { SERVER: 1, CLIENT: 2, PRODUCER: 3, CONSUMER: 4 } as const satisfies Partial<
  Record<keyof typeof SpanKinds, SpanKinds>
>
export type SpanKind = (typeof SpanKind)[keyof typeof SpanKind]

/** Spans of one trace in one process; further ones are dropped. */
const maxSpans = 256

type SpanOptions = { name: string; kind: SpanKind; attributes?: Attributes; parentId?: string | null }

/** A span of a trace: plain values, until the trace is over. */
export class Span {
  readonly trace: Trace
  readonly id = newSpanId()
  name: string
  readonly kind: SpanKind
  /** Null for the first span of a trace. */
  readonly parentId: string | null
  readonly attributes: Attributes
  readonly startMs: number
  /** Null while it runs. */
  endMs: number | null = null
  /** What it failed with; null = it did not fail. */
  error: string | null = null

  constructor(trace: Trace, { name, kind, attributes = {}, parentId = null }: SpanOptions) {
    this.trace = trace
    this.startMs = trace.clock.now()
    this.name = name
    this.kind = kind
    this.parentId = parentId
    this.attributes = attributes
  }

  /** The header by which others continue the trace below this span. */
  get traceparent(): string {
    const { traceId, isSampled } = this.trace
    return formatTraceParent({ traceId, spanId: this.id, isSampled })
  }

  set(attributes: Attributes): void {
    Object.assign(this.attributes, attributes)
  }

  /** Ends the span, once. `error`: what it failed with, as the value of `error.type`. */
  end(error: string | null = null): void {
    if (this.endMs !== null) return
    this.endMs = this.trace.clock.now()
    if (error === null) return
    this.error = error
    this.attributes['error.type'] = error
  }
}

/**
 * The part of a trace that this process adds: a first span and those below it. They are handed over when it ends. A trace that
 * is not sampled only passes its context on.
 */
export class Trace {
  readonly traceId: string
  readonly isSampled: boolean
  readonly state: string | null
  /** The same for all its spans, so that these have their durations and order. */
  readonly clock = steadyClock()
  readonly root: Span
  /** The operation that is served, for the names of its calls: of the conventions, or the kind of media. */
  operation = 'chat'
  readonly spans: Span[] = []
  readonly #onEnd: (trace: Trace) => void
  #isOver = false

  constructor(
    parent: TraceParent | null,
    isSampled: boolean,
    root: SpanOptions,
    onEnd: (trace: Trace) => void,
    traceId = parent?.traceId ?? newTraceId(),
  ) {
    this.traceId = traceId
    this.isSampled = isSampled
    this.state = parent?.state ?? null
    this.#onEnd = onEnd
    this.root = new Span(this, { ...root, parentId: parent?.spanId ?? null })
    if (isSampled) this.spans.push(this.root)
  }

  /** Starts a span below the first one. */
  startSpan(name: string, kind: SpanKind, attributes: Attributes = {}): Span {
    const span = new Span(this, { name, kind, attributes, parentId: this.root.id })
    if (this.isSampled && this.spans.length < maxSpans) this.spans.push(span)
    return span
  }

  /** The latest call to a provider. */
  get lastCall(): Span | undefined {
    return this.spans.findLast(({ kind }) => kind === SpanKind.CLIENT)
  }

  /** Ends the trace and every span that still runs, once. */
  end(error: string | null = null): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const span of this.spans) if (span !== this.root) span.end()
    this.root.end(error)
    if (this.isSampled) this.#onEnd(this)
  }
}
