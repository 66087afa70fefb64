import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import protobuf from 'protobufjs'

/** The part of OTLP's trace messages that the tests read, with the field numbers of opentelemetry-proto 1.x. */
const { root } = protobuf.parse(`
  syntax = "proto3";
  message Request { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Resource { repeated KeyValue attributes = 1; }
  message ScopeSpans { Scope scope = 1; repeated Span spans = 2; string schema_url = 3; }
  message Scope { string name = 1; string version = 2; }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; string name = 5;
    int32 kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9;
    Status status = 15; fixed32 flags = 16;
  }
  message Status { string message = 2; int32 code = 3; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue {
    oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; ArrayValue array_value = 5; }
  }
  message ArrayValue { repeated AnyValue values = 1; }
`)
const requestType = root.lookupType('Request')

type Value = string | number | boolean | Value[]
export type ReceivedSpan = {
  traceId: string
  spanId: string
  /** '' = none. */
  parentId: string
  name: string
  kind: number
  startMs: number
  endMs: number
  attributes: Record<string, Value>
  /** 2 = error. */
  status: number
  resource: Record<string, Value>
}

/** Kinds of spans in the protocol. */
export const kinds = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 }

type AnyValue = {
  stringValue?: string
  boolValue?: boolean
  intValue?: string
  doubleValue?: number
  arrayValue?: { values: AnyValue[] }
}
type KeyValue = { key: string; value: AnyValue }

function readValue({ stringValue, boolValue, intValue, doubleValue, arrayValue }: AnyValue): Value {
  return (
    stringValue ??
    boolValue ??
    (intValue === undefined ? undefined : Number(intValue)) ??
    doubleValue ??
    (arrayValue?.values ?? []).map(readValue)
  )
}

function record(pairs: KeyValue[] = []): Record<string, Value> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, readValue(value)]))
}

/** An OTLP collector on loopback: it decodes the protocol and keeps the spans. */
export class Collector {
  readonly spans: ReceivedSpan[] = []
  readonly headers: http.IncomingHttpHeaders[] = []
  readonly #server: http.Server

  private constructor() {
    this.#server = http.createServer(async (request, response) => {
      const body = await buffer(request)
      this.headers.push(request.headers)
      if (request.url !== '/v1/traces') return void response.writeHead(404).end()
      this.#read(request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body)
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
    })
  }

  static async start(): Promise<Collector> {
    const collector = new Collector()
    collector.#server.listen(0, '127.0.0.1')
    await once(collector.#server, 'listening')
    return collector
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The spans of a trace, by their begin. */
  trace(traceId: string): ReceivedSpan[] {
    return this.spans.filter(span => span.traceId === traceId).sort((a, b) => a.startMs - b.startMs)
  }

  #read(body: Buffer): void {
    const message = requestType.decode(body)
    const { resourceSpans = [] } = requestType.toObject(message, {
      longs: String,
      bytes: Buffer as never,
      defaults: false,
    })
    for (const { resource, scopeSpans = [] } of resourceSpans)
      for (const { spans = [] } of scopeSpans)
        for (const span of spans)
          this.spans.push({
            traceId: Buffer.from(span.traceId).toString('hex'),
            spanId: Buffer.from(span.spanId).toString('hex'),
            parentId: Buffer.from(span.parentSpanId ?? []).toString('hex'),
            name: span.name,
            kind: span.kind,
            startMs: Number(span.startTimeUnixNano) / 1e6,
            endMs: Number(span.endTimeUnixNano) / 1e6,
            attributes: record(span.attributes),
            status: span.status?.code ?? 0,
            resource: record(resource?.attributes),
          })
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
