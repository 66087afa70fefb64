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
    oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; ArrayValue array_value = 5;
      KeyValueList kvlist_value = 6; }
  }
  message ArrayValue { repeated AnyValue values = 1; }
  message KeyValueList { repeated KeyValue values = 1; }
  message LogsRequest { repeated ResourceLogs resource_logs = 1; }
  message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; string schema_url = 3; }
  message ScopeLogs { Scope scope = 1; repeated LogRecord log_records = 2; string schema_url = 3; }
  message LogRecord {
    fixed64 time_unix_nano = 1; int32 severity_number = 2; string severity_text = 3; AnyValue body = 5;
    repeated KeyValue attributes = 6; uint32 dropped_attributes_count = 7; fixed32 flags = 8; bytes trace_id = 9;
    bytes span_id = 10; fixed64 observed_time_unix_nano = 11; string event_name = 12;
  }
`)
const requestType = root.lookupType('Request')
const logsType = root.lookupType('LogsRequest')

type Value = string | number | boolean | Value[] | { [name: string]: Value }
export type ReceivedLog = { event: string; traceId: string; attributes: Record<string, Value> }
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
  arrayValue?: { values?: AnyValue[] }
  kvlistValue?: { values?: KeyValue[] }
}
type KeyValue = { key: string; value: AnyValue }

function readValue({ stringValue, boolValue, intValue, doubleValue, arrayValue, kvlistValue }: AnyValue): Value {
  if (kvlistValue) return record(kvlistValue.values)
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
  readonly logs: ReceivedLog[] = []
  readonly headers: http.IncomingHttpHeaders[] = []
  readonly #server: http.Server

  private constructor() {
    this.#server = http.createServer(async (request, response) => {
      const body = await buffer(request)
      this.headers.push(request.headers)
      const isLogs = request.url === '/v1/logs'
      if (!isLogs && request.url !== '/v1/traces') return void response.writeHead(404).end()
      const isJson = request.headers['content-type'] === 'application/json'
      try {
        const bytes = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
        if (isLogs) this.#readLogs(decode(logsType, bytes, isJson))
        else this.#read(decode(requestType, bytes, isJson))
      } catch (error) {
        return void response.writeHead(400).end((error as Error).message)
      }
      response.writeHead(200, { 'content-type': request.headers['content-type']! }).end(isJson ? '{}' : '')
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

  /** Forgets what it has. */
  clear(): void {
    this.spans.length = 0
    this.logs.length = 0
  }

  // biome-ignore lint/suspicious/noExplicitAny: the message as its schema says
  #readLogs({ resourceLogs = [] }: Record<string, any>): void {
    for (const { scopeLogs = [] } of resourceLogs)
      for (const { logRecords = [] } of scopeLogs)
        for (const { eventName = '', traceId, attributes } of logRecords)
          this.logs.push({
            event: eventName,
            traceId: Buffer.from(traceId ?? []).toString('hex'),
            attributes: record(attributes),
          })
  }

  // biome-ignore lint/suspicious/noExplicitAny: the message as its schema says
  #read({ resourceSpans = [] }: Record<string, any>): void {
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

/** Throws for what is not such a message. In JSON, ids are in hexadecimal (OTLP 1.x). */
function decode(type: protobuf.Type, body: Buffer, isJson: boolean): object {
  const options = { longs: String, bytes: Buffer as never, defaults: false }
  if (!isJson) return type.toObject(type.decode(body), options)
  const ids = new Set(['traceId', 'spanId', 'parentSpanId'])
  const json = JSON.parse(body.toString(), (name, value) =>
    ids.has(name) ? Buffer.from(value, 'hex').toString('base64') : value,
  )
  return type.toObject(type.fromObject(json), options)
}
