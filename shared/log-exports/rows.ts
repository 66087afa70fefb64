import { usdFromNano } from '../base/money.ts'
import type { Content } from '../content-log/contents.ts'
import type { AuditEvent, Generation, RequestContent } from '../generated/prisma/client.ts'
import { firstTokenMs } from '../wallet/durations.ts'

/** The version of the fields below. A release may add fields; it raises the version to rename, retype or remove one. */
export const schemaVersion = 1

/** A request with the name of its key. */
export type RequestRow = Generation & { keyName: string | null }
/** A logged content; `content` is null where it was deleted, `request` if the request log lacks its request. */
export type ContentRow = RequestContent & { content: Content | null; request: RequestRow | null }
export type RowOf = { requests: RequestRow; audit: AuditEvent; content: ContentRow }
export type Stream = keyof RowOf
export const streams = ['requests', 'audit', 'content'] as const satisfies readonly Stream[]

type Fields<Row> = { [name: string]: (row: Row) => unknown }

/** The fields of each stream, in their order; documented in docs/log-exports.md. Every row also has `commonFields`. */
export const fieldsOf = {
  requests: {
    request_id: row => row.requestId,
    upstream_id: row => row.upstreamId,
    organisation_id: row => row.organisationId,
    key_id: row => row.keyId,
    key_name: row => row.keyName,
    type: row => row.kind,
    environment: row => row.environment,
    model: row => row.model,
    provider: row => row.provider,
    mode: row => row.mode,
    status: row => row.status,
    error_code: row => row.errorCode,
    error_message: row => row.errorMessage,
    error_param: row => row.errorParam,
    finish_reason: row => row.finishReason,
    streamed: row => row.streamed,
    cached: row => row.cached === true,
    attempts: row => row.attempts,
    count: row => row.calls,
    prompt_tokens: row => row.promptTokens,
    cached_tokens: row => row.cachedTokens,
    cache_write_tokens: row => row.cacheWriteTokens ?? 0,
    cache_write_1h_tokens: row => row.cacheWrite1hTokens ?? 0,
    completion_tokens: row => row.completionTokens,
    reasoning_tokens: row => row.reasoningTokens,
    web_searches: row => row.webSearches ?? 0,
    service_tier: row => row.serviceTier ?? 'standard',
    estimated: row => row.estimated,
    cost_usd: row => usdFromNano(row.costNano),
    cache_discount_usd: row => usdFromNano(row.cacheDiscountNano ?? 0n),
    is_byok: row => row.providerKeyId !== null,
    upstream_inference_cost: row => (row.upstreamCostNano === null ? null : usdFromNano(row.upstreamCostNano)),
    waiver: row => row.waiver,
    first_byte_ms: firstTokenMs,
    duration_ms: row => row.durationMs,
    overhead_ms: row => row.overheadMs,
    end_user: row => row.endUser,
    session: row => row.session,
    metadata: row => row.metadata,
    parameters: row => row.parameters,
  },
  audit: {
    organisation_id: row => row.organisationId,
    actor_kind: row => row.actorKind,
    actor_id: row => row.actorId,
    actor_name: row => row.actorName,
    action: row => row.action,
    target_id: row => row.targetId,
    target_name: row => row.targetName,
    changes: row => row.changes,
    ip_address: row => row.ipAddress,
    user_agent: row => row.userAgent,
  },
  content: {
    organisation_id: row => row.organisationId,
    key_id: row => row.request?.keyId ?? null,
    key_name: row => row.request?.keyName ?? null,
    type: row => row.request?.kind ?? null,
    environment: row => row.request?.environment ?? null,
    model: row => row.request?.model ?? null,
    provider: row => row.request?.provider ?? null,
    status: row => row.request?.status ?? null,
    input: row => jsonOrText(row.content?.input ?? null),
    output: row => jsonOrText(row.content?.output ?? null),
    input_truncated: row => row.inputTruncated,
    output_truncated: row => row.outputTruncated,
    redactions: row => row.redactions,
    deleted: row => row.content === null,
  },
} satisfies { [S in Stream]: Fields<RowOf[S]> }

const objects = { requests: 'request', audit: 'audit_event', content: 'request_content' } as const

/** The names of the fields that a stream can be reduced to. */
export const fieldNames = Object.fromEntries(
  streams.map(stream => [stream, Object.keys(fieldsOf[stream])]),
) as unknown as { [S in Stream]: (string & keyof (typeof fieldsOf)[S])[] }

/** A row as JSON. `chosen`: the names of its fields; null = all. */
export function presentRow<S extends Stream>(stream: S, row: RowOf[S], chosen: readonly string[] | null): object {
  const fields = fieldsOf[stream] as Fields<RowOf[S]>
  const names = chosen ?? Object.keys(fields)
  return {
    object: objects[stream],
    schema_version: schemaVersion,
    id: row.id,
    created_at: row.createdAt.toISOString(),
    ...Object.fromEntries(names.flatMap(name => (Object.hasOwn(fields, name) ? [[name, fields[name]!(row)]] : []))),
  }
}

/** Content is stored as text: JSON, unless it was cut off. */
export function jsonOrText(text: string | null): unknown {
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
