import { createHash } from 'node:crypto'
import { type Attributes, SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api'
import {
  JsonLogsSerializer,
  JsonTraceSerializer,
  ProtobufLogsSerializer,
  ProtobufTraceSerializer,
} from '@opentelemetry/otlp-transformer'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  callAttributes,
  firstChunkAttributes,
  runAttributes,
  schemaUrl,
  usageAttributes,
} from '../traces/attributes.ts'
import { hrTime } from '../traces/tracing.ts'
import { inputMessages, outputMessages } from './genai-messages.ts'
import { type ContentRow, jsonOrText, type RequestRow, type RowOf, type Stream } from './rows.ts'

/**
 * Batches as OTLP over HTTP: requests are spans, content and audit entries are log records, by the conventions for generative AI
 * of the version in `shared/traces/attributes.ts`. Ids derive from those of the rows, so that a repeated row is the same span.
 */

type ReadableSpan = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0][number]
type ReadableLog = Parameters<typeof ProtobufLogsSerializer.serializeRequest>[0][number]
/** A request to a collector; `path` is below its base URL. */
type OtlpRequest = { path: '/v1/traces' | '/v1/logs'; body: Buffer }

const scope = { name: 'headgate.log_exports', schemaUrl }
const severityInfo = 9
/** The status of a media job that still runs: its row comes again when it has ended. */
const runningStatus = 202

/** Encodes rows of a stream. */
export function encodeOtlp<S extends Stream>(stream: S, rows: readonly RowOf[S][], format: string): OtlpRequest {
  const common = { resource: resourceFromAttributes({ 'service.name': 'headgate' }), instrumentationScope: scope }
  if (stream === 'requests') {
    const ended = (rows as readonly RequestRow[]).filter(({ status }) => status !== runningStatus)
    const serializer = format === 'json' ? JsonTraceSerializer : ProtobufTraceSerializer
    return {
      path: '/v1/traces',
      body: bytes(serializer.serializeRequest(ended.map(row => ({ ...common, ...spanOf(row) })))),
    }
  }
  const records =
    stream === 'content'
      ? (rows as readonly ContentRow[]).filter(({ content }) => content !== null).map(contentRecord)
      : (rows as readonly RowOf['audit'][]).map(auditRecord)
  const serializer = format === 'json' ? JsonLogsSerializer : ProtobufLogsSerializer
  const logs = records.map(record => ({ ...common, ...record, droppedAttributesCount: 0 }))
  return { path: '/v1/logs', body: bytes(serializer.serializeRequest(logs)) }
}

function bytes(encoded: Uint8Array | undefined): Buffer {
  return Buffer.from(encoded ?? new Uint8Array())
}

function spanOf(row: RequestRow): Omit<ReadableSpan, 'resource' | 'instrumentationScope'> {
  const context = spanContextOf(row.id)
  const startMs = row.createdAt.getTime()
  const failed = row.status >= 400
  return {
    name: `${operationOf(row.kind)} ${row.model}`.trimEnd(),
    kind: SpanKind.CLIENT,
    attributes: attributesOf(row),
    links: [],
    events: [],
    ended: true,
    spanContext: () => context,
    startTime: hrTime(startMs),
    endTime: hrTime(startMs + row.durationMs),
    duration: hrTime(row.durationMs),
    status: failed
      ? { code: SpanStatusCode.ERROR, message: row.errorMessage ?? row.errorCode ?? String(row.status) }
      : { code: SpanStatusCode.UNSET },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  }
}

const operations: Record<string, string> = {
  messages: 'chat',
  responses: 'chat',
  completion: 'text_completion',
  embedding: 'embeddings',
}

function operationOf(kind: string): string {
  return operations[kind] ?? kind
}

function attributesOf(row: RequestRow): Attributes {
  const event = { ...row, cost: Number(row.costNano), mode: row.mode ?? '' }
  return {
    ...callAttributes(operationOf(row.kind), row.model, row.provider ?? ''),
    ...usageAttributes(event),
    ...runAttributes(event),
    ...parameterAttributes(row.parameters),
    ...(row.streamed && row.firstByteMs !== null && firstChunkAttributes(row.firstByteMs)),
    'http.response.status_code': row.status,
    'headgate.request.id': row.requestId,
    'headgate.organisation.id': row.organisationId,
    'headgate.key.id': row.keyId,
    ...(row.keyName !== null && { 'headgate.key.name': row.keyName }),
    ...(row.status >= 400 && { 'error.type': row.errorCode ?? String(row.status) }),
    ...(row.session !== null && { 'gen_ai.conversation.id': row.session }),
    ...(row.endUser !== null && { 'user.id': row.endUser }),
    ...Object.fromEntries(
      Object.entries((row.metadata ?? {}) as Record<string, string>).map(([name, value]) => [
        `headgate.metadata.${name}`,
        value,
      ]),
    ),
  }
}

/** Parameters of requests, by the names of the conventions. */
const parameterNames: Record<string, string> = {
  temperature: 'temperature',
  top_p: 'top_p',
  max_tokens: 'max_tokens',
  max_completion_tokens: 'max_tokens',
  max_output_tokens: 'max_tokens',
  seed: 'seed',
  frequency_penalty: 'frequency_penalty',
  presence_penalty: 'presence_penalty',
}

function parameterAttributes(parameters: RequestRow['parameters']): Attributes {
  const named = Object.entries((parameters ?? {}) as Record<string, unknown>).flatMap(([name, value]) =>
    Object.hasOwn(parameterNames, name) && typeof value === 'number'
      ? [[`gen_ai.request.${parameterNames[name]}`, value] as const]
      : [],
  )
  return Object.fromEntries(named)
}

type LogRecord = Omit<ReadableLog, 'resource' | 'instrumentationScope' | 'droppedAttributesCount'>

/** https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/#event-gen_aiclientinferenceoperationdetails */
function contentRecord(row: ContentRow): LogRecord {
  const { messages, instructions } = inputMessages(jsonOrText(row.content!.input))
  const output = jsonOrText(row.content!.output)
  const attributes = {
    ...(row.request ? attributesOf(row.request) : { 'headgate.generation.id': row.id }),
    'gen_ai.input.messages': messages,
    ...(instructions.length > 0 && { 'gen_ai.system_instructions': instructions }),
    ...(output !== null && { 'gen_ai.output.messages': outputMessages(output) }),
  }
  const endMs = row.createdAt.getTime() + (row.request?.durationMs ?? 0)
  return {
    eventName: 'gen_ai.client.inference.operation.details',
    hrTime: hrTime(endMs),
    hrTimeObserved: hrTime(endMs),
    severityNumber: severityInfo,
    spanContext: spanContextOf(row.id),
    // Values of log records may be structured, which the type of spans' attributes does not know.
    attributes: attributes as unknown as Attributes,
  }
}

function auditRecord(row: RowOf['audit']): LogRecord {
  const attributes: Attributes = {
    'headgate.audit.id': row.id,
    'headgate.audit.action': row.action,
    'headgate.audit.actor.kind': row.actorKind,
    'headgate.audit.actor.name': row.actorName,
    ...(row.actorId !== null && { 'headgate.audit.actor.id': row.actorId }),
    ...(row.organisationId !== null && { 'headgate.organisation.id': row.organisationId }),
    ...(row.targetId !== null && { 'headgate.audit.target.id': row.targetId }),
    ...(row.targetName !== null && { 'headgate.audit.target.name': row.targetName }),
    ...(row.changes !== null && { 'headgate.audit.changes': JSON.stringify(row.changes) }),
    ...(row.ipAddress !== null && { 'client.address': row.ipAddress }),
    ...(row.userAgent !== null && { 'user_agent.original': row.userAgent }),
  }
  const time = hrTime(row.createdAt.getTime())
  return {
    eventName: 'headgate.audit',
    hrTime: time,
    hrTimeObserved: time,
    severityNumber: severityInfo,
    body: [row.actorName, row.action, row.targetName].filter(text => text !== null).join(' '),
    attributes,
  }
}

/** The ids of a row's span: always the same. */
function spanContextOf(id: string) {
  const digest = createHash('sha256').update(id).digest('hex')
  return { traceId: digest.slice(0, 32), spanId: digest.slice(32, 48), traceFlags: TraceFlags.SAMPLED }
}
