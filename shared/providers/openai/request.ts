import type { ChatRequest } from '../../kinds/chat.ts'
import type { DirectKind } from '../../kinds/index.ts'
import type { Call, UpstreamRequest } from '../contract.ts'

/** Top-level fields to write into the body; an undefined one is removed (JSON.stringify leaves it out). */
export type Changes = Record<string, unknown>

/** The POST request. Without changes the caller's own bytes are sent as they came. */
export function post<K extends DirectKind>(path: string, call: Call<K>, changes: Changes): UpstreamRequest {
  const unchanged = call.raw !== null && Object.keys(changes).length === 0
  return {
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json' },
    body: unchanged ? call.raw! : JSON.stringify({ ...call.body, ...changes }),
  }
}

/** The changes every kind needs: the upstream's own model name, and no field that only the gateway knows. */
export function commonChanges<K extends DirectKind>(call: Call<K>): Changes {
  const { target, body } = call
  const changes: Changes = {}
  const fields: Record<string, unknown> = body
  if (body.model !== target.deployment.upstream_model) changes.model = target.deployment.upstream_model
  for (const field of ['mode', 'models', 'provider']) if (fields[field] !== undefined) changes[field] = undefined
  // OpenAI takes metadata on stored completions only; other servers do not know the field.
  if (fields.metadata !== undefined && !(target.provider.quirks?.metadata === true && fields.store === true)) {
    changes.metadata = undefined
  }
  dropUnknown(call, changes)
  return changes
}

/** Asks for the usage of a stream, which the gateway bills by (quirk `stream_usage: false`: the server rejects the field). */
export function askForUsage({ target, body }: Call<'chat'> | Call<'completion'>, changes: Changes): void {
  if (target.provider.quirks?.stream_usage === false) {
    if (body.stream_options !== undefined) changes.stream_options = undefined
  } else if (body.stream && body.stream_options?.include_usage !== true) {
    changes.stream_options = { ...body.stream_options, include_usage: true }
  }
}

/** Writes the output ceiling into the one field the server reads (quirk `max_tokens_field`). */
export function limitTokens({ target, body, maxTokens }: Call<'chat'>, changes: Changes): void {
  const wanted = target.provider.quirks?.max_tokens_field
  const field = wanted === 'max_completion_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const limit = maxTokens ?? body.max_completion_tokens ?? body.max_tokens
  if (limit !== undefined && limit !== null && body[field] !== limit) changes[field] = limit
  if (body[other] !== undefined) changes[other] = undefined
}

/** Never dropped, whatever a provider's `request_fields` say: without them the answer is not the one asked for. */
const essentials = new Set(
  'model messages prompt input dimensions encoding_format stream stream_options max_tokens max_completion_tokens'.split(
    ' ',
  ),
)

/** Drops fields that a strict server would answer with 400 (quirk `request_fields`: what it knows). */
function dropUnknown<K extends DirectKind>({ target, body }: Call<K>, changes: Changes): void {
  const known = target.provider.quirks?.request_fields
  if (!Array.isArray(known)) return
  for (const [field, value] of Object.entries(body)) {
    if (value !== undefined && !known.includes(field) && !essentials.has(field)) changes[field] = undefined
  }
}

/** Sends `seed` under the server's own name for it (quirk `seed_field`). */
export function renameSeed({ target, body }: Call<'chat'>, changes: Changes): void {
  const field = target.provider.quirks?.seed_field
  if (typeof field !== 'string' || typeof body.seed !== 'number') return
  changes.seed = undefined
  changes[field] = body.seed
}

/** Whether a reasoning model takes this value of a sampling field: its default is accepted, anything else is a 400. */
const accepted: Record<string, (value: unknown) => boolean> = {
  temperature: value => value === 1,
  top_p: value => value === 1,
  presence_penalty: value => value === 0,
  frequency_penalty: value => value === 0,
  logprobs: value => value === false,
  top_logprobs: () => false,
  logit_bias: () => false,
  stop: () => false,
}

/** Drops what reasoning models (deployment trait `reasoning: true`) reject; without reasoning effort they take it. */
export function dropSampling({ target, body }: Call<'chat'>, changes: Changes): void {
  if (target.deployment.traits?.reasoning !== true || body.reasoning_effort === 'none') return
  const fields: Partial<ChatRequest> & Record<string, unknown> = body
  for (const field in accepted) {
    const value = fields[field]
    if (value !== undefined && value !== null && !accepted[field]!(value)) changes[field] = undefined
  }
}

/** Names the effort with which a reasoning model takes tools (deployment trait `tools_effort`), where the caller named none. */
export function effortForTools({ target, body }: Call<'chat'>, changes: Changes): void {
  const effort = target.deployment.traits?.tools_effort
  if (typeof effort === 'string' && body.tools?.length && body.reasoning_effort == null)
    changes.reasoning_effort = effort
}
