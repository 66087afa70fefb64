import type { ChatRequest } from '../../kinds/chat.ts'
import type { DirectKind, DirectKinds } from '../../kinds/index.ts'
import type { Call, UpstreamRequest } from '../contract.ts'
import { allowedFields, type Cleaned, cleanChat, isMissed, ownFields, withDropped } from '../request-fields.ts'

/** Top-level fields to write into the body; an undefined one is removed (JSON.stringify leaves it out). */
export type Changes = Record<string, unknown>

/** A request that is being written: the call without what no provider gets, what is still to be changed, and what was dropped. */
export type Draft<K extends DirectKind> = { call: Call<K>; changes: Changes; dropped: string[] }

/**
 * Begins a request: the upstream's own model name, no field that only the gateway knows, and none that is not known to cost
 * nothing beside its tokens (`allowedFields`, or the quirk `request_fields` of a strict server; the quirk `extra_fields` adds some).
 */
export function draft<K extends DirectKind>(kind: K, call: Call<K>): Draft<K> {
  const { body, dropped } = cleaned(kind, call)
  const changes: Changes = {}
  if (body.model !== call.target.deployment.upstream_model) changes.model = call.target.deployment.upstream_model
  const isAllowed = allowance(kind, call)
  const fields: Record<string, unknown> = body
  for (const name in fields)
    if (fields[name] !== undefined && (!isAllowed(name) || ownFields.has(name))) changes[name] = undefined

  const isSame = body === call.body
  return { call: isSame ? call : { ...call, body, raw: null }, changes, dropped: [...dropped] }
}

function cleaned<K extends DirectKind>(kind: K, { target, body }: Call<K>): Cleaned<DirectKinds[K]['request']> {
  if (kind !== 'chat') return { body, dropped: [] }
  return cleanChat(body as ChatRequest, target.provider.quirks?.cache_control === true)
}

/** Never dropped, whatever a provider's `request_fields` say: without them the answer is not the one asked for. */
const essentials = new Set(
  'model messages prompt input dimensions encoding_format stream stream_options max_tokens max_completion_tokens'.split(
    ' ',
  ),
)

function allowance<K extends DirectKind>(kind: K, { target }: Call<K>): (field: string) => boolean {
  const { request_fields: known, extra_fields: extra, cache_control: marks } = target.provider.quirks ?? {}
  const isExtra = (field: string) => {
    if (field === 'cache_control') return marks === true && kind === 'chat'
    return Array.isArray(extra) && extra.includes(field)
  }
  if (Array.isArray(known)) return field => known.includes(field) || essentials.has(field) || isExtra(field)
  return field => allowedFields[kind].has(field) || isExtra(field)
}

/** Never the caller's to say: the quirks `service_tier` and `store` of a provider tell what is asked for in each request. */
const settled = ['service_tier', 'store'] as const

/** Names the tier whose price the catalog has, and has nothing stored, where a provider's own settings could say otherwise. */
export function settleExtras({ call, changes }: Draft<'chat'>): void {
  const fields: Record<string, unknown> = call.body
  for (const name of settled) {
    const said = call.target.provider.quirks?.[name]
    if (said === fields[name]) delete changes[name]
    else if (said !== undefined || fields[name] !== undefined) changes[name] = said
  }
}

/** Fields that are sent under another name, or made by the gateway. */
const rewritten = new Set(['model', 'max_tokens', 'max_completion_tokens', 'stream_options'])

function isRewritten(name: string, { target }: Call<DirectKind>): boolean {
  return rewritten.has(name) || (name === 'seed' && target.provider.quirks?.seed_field !== undefined)
}

/** The POST request. The caller's own bytes are sent as they came where that is possible. */
export function post<K extends DirectKind>(path: string, { call, changes, dropped }: Draft<K>): UpstreamRequest {
  const fields: Record<string, unknown> = call.body
  for (const name in changes) {
    const isDropped = changes[name] === undefined || settled.includes(name as 'store')
    if (isDropped && !isRewritten(name, call) && isMissed(name, fields[name])) dropped.push(name)
  }
  const headers = { 'content-type': 'application/json' }
  return withDropped({ method: 'POST' as const, path, headers, body: written(call, changes) }, dropped)
}

function written({ raw, body }: Call<DirectKind>, changes: Changes): Buffer | string {
  const fields: Record<string, unknown> = body
  const names = Object.keys(changes)
  if (raw === null || names.some(name => fields[name] !== undefined)) return JSON.stringify({ ...body, ...changes })
  const added = JSON.stringify(changes).slice(1, -1)
  if (added === '') return raw
  // New fields go before the others: a large body is not written anew for their sake.
  return Buffer.concat([Buffer.from(`{${added},`), raw.subarray(raw.indexOf('{') + 1)])
}

/** Asks for the usage of a stream, which the gateway bills by (quirk `stream_usage: false`: the server rejects the field). */
export function askForUsage({ call: { target, body }, changes }: Draft<'chat'> | Draft<'completion'>): void {
  if (target.provider.quirks?.stream_usage === false) {
    if (body.stream_options !== undefined) changes.stream_options = undefined
  } else if (body.stream && body.stream_options?.include_usage !== true) {
    changes.stream_options = { ...body.stream_options, include_usage: true }
  }
}

/** Writes the output ceiling into the one field the server reads (quirk `max_tokens_field`). */
export function limitTokens({ call: { target, body, maxTokens }, changes }: Draft<'chat'>): void {
  const wanted = target.provider.quirks?.max_tokens_field
  const field = wanted === 'max_completion_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const limit = maxTokens ?? body.max_completion_tokens ?? body.max_tokens
  if (limit !== undefined && limit !== null && body[field] !== limit) changes[field] = limit
  if (body[other] !== undefined) changes[other] = undefined
}

/** Sends `seed` under the server's own name for it (quirk `seed_field`). */
export function renameSeed({ call: { target, body }, changes }: Draft<'chat'>): void {
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
export function dropSampling({ call: { target, body }, changes }: Draft<'chat'>): void {
  if (target.deployment.traits?.reasoning !== true || body.reasoning_effort === 'none') return
  const fields: Partial<ChatRequest> & Record<string, unknown> = body
  for (const field in accepted) {
    const value = fields[field]
    if (value !== undefined && value !== null && !accepted[field]!(value)) changes[field] = undefined
  }
}

/** Names the effort with which a reasoning model takes tools (deployment trait `tools_effort`), where the caller named none. */
export function effortForTools({ call: { target, body }, changes }: Draft<'chat'>): void {
  const effort = target.deployment.traits?.tools_effort
  if (typeof effort === 'string' && body.tools?.length && body.reasoning_effort == null)
    changes.reasoning_effort = effort
}
