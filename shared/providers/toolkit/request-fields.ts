import { asText } from '../../base/as-text.ts'
import { isObject } from '../../base/is-object.ts'
import { namesIn } from '../../base/names.ts'
import type { Deployment } from '../../catalog/schema.ts'
import { type ChatRequest, completeChat } from '../../kinds/chat.ts'
import type { DirectKind, OpenAiKind } from '../../kinds/index.ts'
import { asksForPaidFeature, paidFields } from '../../kinds/paid-fields.ts'
import { generateContentMembers, isSent, memberTables } from '../../kinds/request-members.ts'
import { withMovedMedia } from './over-chat/move-media.ts'

type Json = Record<string, unknown>

/** A valid chat request with what it may leave out or say in another way; the images and files of tools are the user's. */
export function completeMessages(body: ChatRequest): ChatRequest {
  const hasParts = body.messages.some(({ role, content }) => role === 'tool' && typeof content !== 'string')
  return completeChat(hasParts ? withMovedMedia(body) : body)
}
/** A request without disallowed fields, and the names of the removed ones. */
export type CleanedRequest<Body> = { body: Body; dropped: readonly string[] }

/** Fields read by the gateway itself: never sent to a provider, and not reported as dropped. */
export const ownFields = namesIn('mode models provider metadata session_id')

/**
 * The top-level fields that may be sent to a provider with our dialect: none is billed apart from its tokens. Unlisted
 * fields are dropped, so that a field a provider begins to bill for is not sent unpriced.
 */
export const allowedFields: Record<OpenAiKind, ReadonlySet<string>> = {
  chat: namesIn(`
    model messages stream stream_options max_tokens max_completion_tokens min_tokens n stop stop_token_ids seed random_seed
    temperature top_p top_k top_a min_p typical_p frequency_penalty presence_penalty repetition_penalty length_penalty
    logprobs top_logprobs logit_bias ignore_eos skip_special_tokens
    tools tool_choice parallel_tool_calls functions function_call
    response_format structured_outputs guided_json guided_regex guided_choice guided_grammar modalities audio prediction
    reasoning reasoning_effort reasoning_format include_reasoning thinking enable_thinking thinking_budget chat_template_kwargs
    verbosity user safety_identifier prompt_cache_key prompt_mode safe_prompt`),
  completion: namesIn(`
    model prompt suffix echo stream stream_options max_tokens min_tokens n best_of stop stop_token_ids seed
    temperature top_p top_k min_p typical_p frequency_penalty presence_penalty repetition_penalty length_penalty
    logprobs logit_bias ignore_eos skip_special_tokens guided_json guided_regex guided_choice guided_grammar
    user prompt_cache_key`),
  embedding: namesIn('model input dimensions encoding_format input_type truncate output_dimension output_dtype user'),
}

const messageFields = namesIn(`
  role content name refusal audio tool_calls tool_call_id function_call prefix partial
  reasoning reasoning_content reasoning_details cache_control`)
const partFields = namesIn('type text refusal image_url input_audio file cache_control')
const imageFields = namesIn('url detail')
const soundFields = namesIn('data format')
const fileFields = namesIn('file_data filename')
const toolFields = namesIn('type function custom cache_control')
const markFields = namesIn('type ttl')
const details = namesIn('auto low high original')
const optionFields: [name: string, allowed: ReadonlySet<string>][] = [
  ['stream_options', namesIn('include_usage include_obfuscation')],
  ['reasoning', namesIn('effort max_tokens exclude enabled summary')],
]
/** The maximum lifetime that a cache mark may request from a target; `none` where it takes no cache marks. */
type MaxCacheTtl = 'none' | '5m' | '1h'

/** The maximum cache lifetime that a deployment has a price for. */
export function maxCacheTtl({ price }: Deployment): MaxCacheTtl {
  return price.unit === 'token' && price.cache_write_1h !== undefined ? '1h' : '5m'
}

/**
 * Removes from a chat request what could cost extra below its top level: unknown fields of messages, parts and tools,
 * unknown image details; cache marks with a lifetime above `maxTtl` get the default of 5 minutes. Unchanged objects are returned as they are.
 */
export function cleanChat(body: ChatRequest, maxTtl: MaxCacheTtl): CleanedRequest<ChatRequest> {
  const cleaner = new Cleaner(maxTtl)
  const fields: Json = body
  let changes: Json | null = null
  const set = (name: string, value: unknown) => {
    if (value === fields[name]) return
    changes ??= {}
    changes[name] = value
  }
  set(
    'messages',
    cleaner.list(body.messages, one => cleaner.message(one)),
  )
  if (Array.isArray(body.tools)) {
    const tools = cleaner.list(body.tools as Json[], one => cleaner.marked(one, toolFields, 'tools'))
    set('tools', tools)
  }
  for (const [name, allowed] of optionFields)
    if (isObject(fields[name])) set(name, cleaner.only(fields[name], allowed, name))
  if (isObject(fields.cache_control)) set('cache_control', cleaner.mark(fields.cache_control, ''))
  return { body: changes ? { ...body, ...(changes as Json) } : body, dropped: cleaner.dropped }
}

class Cleaner {
  readonly dropped: string[] = []
  readonly #maxCacheTtl: MaxCacheTtl

  constructor(maxCacheTtl: MaxCacheTtl) {
    this.#maxCacheTtl = maxCacheTtl
  }

  list<T extends Json>(values: readonly T[], clean: (value: T) => Json): readonly Json[] {
    let changedValues: Json[] | null = null
    for (let index = 0; index < values.length; index++) {
      const value = values[index]!
      const cleanedValue = clean(value)
      if (cleanedValue === value) continue
      changedValues ??= [...values]
      changedValues[index] = cleanedValue
    }
    return changedValues ?? values
  }

  message(message: Json): Json {
    const own = this.marked(message, messageFields, 'messages')
    if (!Array.isArray(own.content)) return own
    const content = this.list(own.content, part => this.#part(part))
    return content === own.content ? own : { ...own, content }
  }

  /** The object with only these fields; a cache mark among them gets a priced lifetime. */
  marked(value: Json, allowed: ReadonlySet<string>, path: string): Json {
    const own = this.only(value, allowed, path)
    if (!isObject(own.cache_control)) return own
    const cache_control = this.mark(own.cache_control, path)
    return cache_control === own.cache_control ? own : { ...own, cache_control }
  }

  mark(mark: Json, path: string): Json | undefined {
    const name = path ? `${path}.cache_control` : 'cache_control'
    if (this.#maxCacheTtl === 'none') {
      this.dropped.push(name)
      return undefined
    }
    const own = this.only(mark, markFields, name)
    if (own.ttl == null || own.ttl === '5m' || own.ttl === this.#maxCacheTtl) return own
    this.dropped.push(`${name}.ttl`)
    return { ...own, ttl: undefined }
  }

  only(value: Json, allowed: ReadonlySet<string>, path: string): Json {
    let cleanedValue: Json | null = null
    for (const name in value) {
      if (value[name] === undefined || allowed.has(name)) continue
      cleanedValue ??= { ...value }
      if (asksForSomething(value[name])) this.dropped.push(`${path}.${name}`)
      cleanedValue[name] = undefined
    }
    return cleanedValue ?? value
  }

  #part(part: Json): Json {
    const path = 'messages.content'
    const own = this.marked(part, partFields, path)
    if (isObject(own.image_url)) {
      const image = this.#image(own.image_url)
      return image === own.image_url ? own : { ...own, image_url: image }
    }
    for (const [name, allowed] of [['input_audio', soundFields] as const, ['file', fileFields] as const]) {
      const inner = own[name]
      if (!isObject(inner)) continue
      const cleanedValue = this.only(inner, allowed, `${path}.${name}`)
      return cleanedValue === inner ? own : { ...own, [name]: cleanedValue }
    }
    return own
  }

  #image(image: Json): Json {
    const path = 'messages.content.image_url'
    const own = this.only(image, imageFields, path)
    if (own.detail == null || details.has(asText(own.detail))) return own
    this.dropped.push(`${path}.detail`)
    return { ...own, detail: undefined }
  }
}

/**
 * OpenRouter's plugin that repairs JSON (openrouter.ai/docs/guides/features/plugins/response-healing); the gateway does that
 * itself (`shared/chat/structured-answers.ts`).
 */
const healingPlugin = 'response-healing'

/** Whether a request has that plugin. */
export function asksForRepair({ plugins }: { plugins?: unknown }): boolean {
  if (!Array.isArray(plugins)) return false
  return plugins.some(one => isObject(one) && one.id === healingPlugin && one.enabled !== false)
}

/** The gateway uses it even where a provider does not support it. */
const routingField = 'prompt_cache_key'
/** Values of `service_tier` that name the priced tier. */
const usualTiers = namesIn('auto default standard standard_only on_demand unspecified')
const tierFields = namesIn('service_tier serviceTier')

/** True when the caller may notice that the field was dropped: its value requests something. */
export function isNoticeable(name: string, value: unknown): boolean {
  if (ownFields.has(name) || name === routingField || name in paidFields || isOwnPlugins(name, value)) return false
  return !isUsualTier(name, value) && asksForSomething(value)
}

/** The names among those of dropped fields that some provider takes in a request of this format. */
export function parametersAmong(kind: DirectKind, dropped: readonly string[]): string[] {
  if (kind === 'messages' || kind === 'responses')
    return dropped.filter(name => memberTables[kind].get(name)?.is === 'sent')
  if (kind === 'generate_content') return dropped.filter(name => generateContentMembers.get(topOf(name))?.is === 'sent')
  return dropped.filter(name => allowedFields[kind].has(name))
}

/** Gemini's settings are members of `generationConfig`. */
function topOf(path: string): string {
  return path.split('.', 1)[0]!
}

/** Whether plugins are OpenRouter's repair of JSON alone, which the gateway does itself, or are switched off. */
function isOwnPlugins(name: string, value: unknown): boolean {
  if (name !== 'plugins' || !Array.isArray(value)) return false
  return value.every(one => isObject(one) && (one.id === healingPlugin || one.enabled === false))
}

function isUsualTier(name: string, value: unknown): boolean {
  return tierFields.has(name) && typeof value === 'string' && usualTiers.has(value.toLowerCase())
}

function asksForSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '') return false
  return typeof value !== 'object' || Object.keys(value).length > 0
}

/**
 * The members of a native request that are not sent: what the table of its format does not send, and what it does not
 * know, unless `passesUnknown`. `dropped`: those whose omission the caller may notice.
 */
export function unsentMembers(
  kind: keyof typeof memberTables,
  body: object,
  passesUnknown = false,
): { removed: readonly string[]; dropped: string[] } {
  const members = memberTables[kind]
  const fields = body as Json
  const removed: string[] = []
  const dropped: string[] = []
  for (const name in fields) {
    const member = members.get(name)
    if (member ? isSent(member, fields[name]) : passesUnknown) continue
    removed.push(name)
    const isNoticed = asksForSomething(fields[name]) && !isUsualTier(name, fields[name])
    if (member?.is !== 'ours' && isNoticed && !isOwnPlugins(name, fields[name])) dropped.push(name)
  }
  return { removed, dropped }
}

/** The top-level fields of a request outside `expected` whose omission the caller may notice. */
export function noticeableFieldsExcept(body: object, expected: ReadonlySet<string>): string[] {
  return fieldsExcept(body, expected, isNoticeable)
}

/** The same on a route that refuses no field of a feature that providers bill apart: such a field is left out like others. */
export function omittedFieldsExcept(body: object, expected: ReadonlySet<string>): string[] {
  return fieldsExcept(body, expected, (name, value) => isNoticeable(name, value) || asksForPaidFeature(name, value))
}

function fieldsExcept(
  body: object,
  expected: ReadonlySet<string>,
  matters: (name: string, value: unknown) => boolean,
): string[] {
  return Object.entries(body).flatMap(([name, value]) => (!expected.has(name) && matters(name, value) ? [name] : []))
}

/** Attaches the dropped fields to a provider request; omitted if there are none. */
export function withDropped<R extends object>(request: R, dropped: readonly string[]): R & { dropped?: string[] } {
  return dropped.length > 0 ? { ...request, dropped: [...new Set(dropped)] } : request
}
