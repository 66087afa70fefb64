import { editBody } from '../../../base/json-member.ts'
import { profileOf } from '../../../catalog/traits.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { DirectKinds, OpenAiKind } from '../../../kinds/index.ts'
import type { Call, UpstreamRequest } from '../../contract.ts'
import {
  allowedFields,
  type CleanedRequest,
  cleanChat,
  isNoticeable,
  maxCacheTtl,
  ownFields,
  withDropped,
} from '../../toolkit/request-fields.ts'

/** Top-level fields to write into the body; an undefined one is removed (JSON.stringify leaves it out). */
type Changes = Record<string, unknown>

/** A request under construction: the call without disallowed fields, the pending changes, and the dropped fields. */
type Draft<K extends OpenAiKind> = { call: Call<K>; changes: Changes; dropped: string[] }

/**
 * Begins a request: sets the upstream's model name, removes the gateway's own fields, and drops those that may be
 * billed apart from the tokens (`allowedFields`, or the quirk `request_fields` of a strict server; the quirk
 * `extra_fields` adds some).
 */
export function beginRequest<K extends OpenAiKind>(kind: K, call: Call<K>): Draft<K> {
  const { body, dropped } = removeDisallowed(kind, call)
  const changes: Changes = {}
  if (body.model !== call.target.deployment.upstream_model) changes.model = call.target.deployment.upstream_model
  const isAllowed = allowedFieldTest(kind, call)
  const fields: Record<string, unknown> = body
  for (const name in fields)
    if (fields[name] !== undefined && (!isAllowed(name) || ownFields.has(name))) changes[name] = undefined

  const isSame = body === call.body
  return { call: isSame ? call : { ...call, body, raw: null }, changes, dropped: [...dropped] }
}

function removeDisallowed<K extends OpenAiKind>(
  kind: K,
  { target, body }: Call<K>,
): CleanedRequest<DirectKinds[K]['request']> {
  if (kind !== 'chat') return { body, dropped: [] }
  const takesMarks = target.provider.quirks?.cache_control === true
  return cleanChat(body as ChatRequest, takesMarks ? maxCacheTtl(target.deployment) : 'none')
}

/**
 * Never dropped, regardless of a provider's `request_fields`: without them the response would not be the requested one.
 */
const requiredFields = new Set(
  'model messages prompt input dimensions encoding_format stream stream_options max_tokens max_completion_tokens'.split(
    ' ',
  ),
)

function allowedFieldTest<K extends OpenAiKind>(kind: K, { target }: Call<K>): (field: string) => boolean {
  const { request_fields: requestFields, extra_fields: extra, cache_control: marks } = target.provider.quirks ?? {}
  const isExtra = (field: string) => {
    if (field === 'cache_control') return marks === true && kind === 'chat'
    return extra?.includes(field) === true
  }
  if (requestFields) return field => requestFields.includes(field) || requiredFields.has(field) || isExtra(field)
  return field => allowedFields[kind].has(field) || isExtra(field)
}

/** The provider's quirks give the value in every request, apart from a service tier that has a price. */
const fixedFields = ['service_tier', 'store'] as const

/**
 * Sets the service tier of the target, and disables storage, where a provider's account settings could differ.
 */
export function setFixedFields({ call, changes }: Draft<'chat'>): void {
  const fields: Record<string, unknown> = call.body
  for (const name of fixedFields) {
    const { provider, tier } = call.target
    const value = (name === 'service_tier' && tier) || provider.quirks?.[name]
    if (value === fields[name]) delete changes[name]
    else if (value !== undefined || fields[name] !== undefined) changes[name] = value
  }
}

/** Fields that are sent under another name, or set by the gateway. */
const rewrittenFields = new Set(['model', 'max_tokens', 'max_completion_tokens', 'stream_options'])

function isRewritten(name: string, { target }: Call<OpenAiKind>): boolean {
  const { seed_field: seed, dimensions_field: dimensions, encoding_format: encodes } = target.provider.quirks ?? {}
  if (name === 'seed') return seed !== undefined
  if (name === 'dimensions') return dimensions !== undefined
  return rewrittenFields.has(name) || (name === 'encoding_format' && encodes === false)
}

/** The POST request. The caller's bytes are sent unchanged where possible. */
export function post<K extends OpenAiKind>(path: string, { call, changes, dropped }: Draft<K>): UpstreamRequest {
  const fields: Record<string, unknown> = call.body
  for (const name in changes) {
    const isDropped = changes[name] === undefined || fixedFields.includes(name as 'store')
    if (isDropped && !isRewritten(name, call) && isNoticeable(name, fields[name])) dropped.push(name)
  }
  const headers = { 'content-type': 'application/json' }
  return withDropped({ method: 'POST' as const, path, headers, body: serialiseBody(call, changes) }, dropped)
}

/** Where only the model changes and fields are new, a body, which may be large, is not serialised again. */
function serialiseBody({ raw, body }: Call<OpenAiKind>, changes: Changes): Buffer | string {
  const fields: Record<string, unknown> = body
  const isKept = Object.keys(changes).every(name => name === 'model' || fields[name] === undefined)
  return editBody(isKept ? raw : null, body, changes)
}

/**
 * Sends the length of vectors in the provider's field, the type of the texts by the provider's name, and no encoding where it has others:
 * vectors are converted.
 */
export function renameEmbeddingFields({ call: { target, body }, changes }: Draft<'embedding'>): void {
  const { dimensions_field: field, encoding_format: encodes, input_types: types } = target.provider.quirks ?? {}
  if (types && 'input_type' in body && typeof body.input_type === 'string' && Object.hasOwn(types, body.input_type))
    changes.input_type = types[body.input_type]
  if (field !== undefined && body.dimensions != null) {
    changes.dimensions = undefined
    changes[field] = body.dimensions
  }
  if (encodes === false && body.encoding_format !== undefined) changes.encoding_format = undefined
}

/**
 * Requests the usage of a stream, which billing requires (quirk `stream_usage: false`: the server rejects the field). "The
 * 'stream_options' parameter is only allowed when 'stream' is enabled." (https://github.com/BerriAI/litellm/issues/5803)
 */
export function requestUsage({ call: { target, body }, changes }: Draft<'chat'> | Draft<'completion'>): void {
  if (target.provider.quirks?.stream_usage === false || !body.stream) {
    if (body.stream_options !== undefined) changes.stream_options = undefined
  } else if (body.stream_options?.include_usage !== true) {
    changes.stream_options = { ...body.stream_options, include_usage: true }
  }
}

/**
 * Asks for a stream where the server gives no whole answer that may be as long. "Requests with max_tokens > 4096
 * must have stream=true" (https://github.com/nullclaw/nullclaw/pull/231).
 */
export function streamLongAnswer({ call: { target, body, maxTokens }, changes }: Draft<'chat'>): void {
  const { max_unstreamed_tokens: maxWhole = Number.POSITIVE_INFINITY } = profileOf(target)
  const limit = maxTokens ?? body.max_completion_tokens ?? body.max_tokens ?? 0
  if (body.stream || limit <= maxWhole) return
  changes.stream = true
  if (target.provider.quirks?.stream_usage !== false) changes.stream_options = { include_usage: true }
}

/** Sets the output ceiling in the one field that the server reads (quirk `max_tokens_field`). */
export function limitTokens({ call: { target, body, maxTokens }, changes }: Draft<'chat'>): void {
  const tokensField = target.provider.quirks?.max_tokens_field
  const field = tokensField === 'max_completion_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const unusedField = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const limit = maxTokens ?? body.max_completion_tokens ?? body.max_tokens
  if (limit !== undefined && limit !== null && body[field] !== limit) changes[field] = limit
  if (body[unusedField] !== undefined) changes[unusedField] = undefined
}

/** Sends `seed` under the server's name (quirk `seed_field`). */
export function renameSeed({ call: { target, body }, changes }: Draft<'chat'>): void {
  const field = target.provider.quirks?.seed_field
  if (field === undefined || body.seed == null) return
  changes.seed = undefined
  changes[field] = body.seed
}
