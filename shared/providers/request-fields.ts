import type { ChatRequest } from '../kinds/chat.ts'
import type { DirectKind } from '../kinds/index.ts'
import { paidFields } from '../kinds/paid-fields.ts'

type Json = Record<string, unknown>
/** A request without what no provider may get, and the names of what was taken out. */
export type Cleaned<Body> = { body: Body; dropped: readonly string[] }

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

/** Read by the gateway itself: they never reach a provider, and are not dropped either. */
export const ownFields = words('mode models provider metadata')

/**
 * The top-level fields that may be sent to a provider that speaks our dialect: none of them has a price beside that of the
 * tokens. Whatever is not listed is dropped, so that a field that a provider comes to charge for is not sent unpriced.
 */
export const allowedFields: Record<DirectKind, ReadonlySet<string>> = {
  chat: words(`
    model messages stream stream_options max_tokens max_completion_tokens min_tokens n stop stop_token_ids seed random_seed
    temperature top_p top_k top_a min_p typical_p frequency_penalty presence_penalty repetition_penalty length_penalty
    logprobs top_logprobs logit_bias ignore_eos skip_special_tokens
    tools tool_choice parallel_tool_calls functions function_call
    response_format structured_outputs guided_json guided_regex guided_choice guided_grammar modalities audio prediction
    reasoning reasoning_effort reasoning_format include_reasoning thinking enable_thinking thinking_budget chat_template_kwargs
    verbosity user safety_identifier prompt_cache_key prompt_mode safe_prompt`),
  completion: words(`
    model prompt suffix echo stream stream_options max_tokens min_tokens n best_of stop stop_token_ids seed
    temperature top_p top_k min_p typical_p frequency_penalty presence_penalty repetition_penalty length_penalty
    logprobs logit_bias ignore_eos skip_special_tokens guided_json guided_regex guided_choice guided_grammar
    user prompt_cache_key`),
  embedding: words('model input dimensions encoding_format input_type truncate output_dimension output_dtype user'),
}

const messageFields = words(`
  role content name refusal audio tool_calls tool_call_id function_call prefix partial
  reasoning reasoning_content reasoning_details cache_control`)
const partFields = words('type text refusal image_url input_audio file cache_control')
const imageFields = words('url detail')
const soundFields = words('data format')
const fileFields = words('file_data filename')
const toolFields = words('type function custom cache_control')
const markFields = words('type ttl')
const details = words('auto low high original')
const optionFields: [name: string, allowed: ReadonlySet<string>][] = [
  ['stream_options', words('include_usage include_obfuscation')],
  ['reasoning', words('effort max_tokens exclude enabled summary')],
]
/** The lifetime that the price row's `cache_write` is for. */
const pricedTtl = '5m'

/**
 * A chat request without what could cost extra below its top level: unknown fields of messages, parts and tools, image details
 * that no rule is known for, and cache marks of another lifetime than the priced one, which then last that long. `takesCacheMarks`: the
 * provider knows cache marks at all. What needs no change is the same object as before.
 */
export function cleanChat(body: ChatRequest, takesCacheMarks: boolean): Cleaned<ChatRequest> {
  const cleaner = new Cleaner(takesCacheMarks)
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
  readonly #takesCacheMarks: boolean

  constructor(takesCacheMarks: boolean) {
    this.#takesCacheMarks = takesCacheMarks
  }

  list<T extends Json>(values: readonly T[], clean: (value: T) => Json): readonly Json[] {
    let changed: Json[] | null = null
    for (let index = 0; index < values.length; index++) {
      const value = values[index]!
      const cleaned = clean(value)
      if (cleaned === value) continue
      changed ??= [...values]
      changed[index] = cleaned
    }
    return changed ?? values
  }

  message(message: Json): Json {
    const own = this.marked(message, messageFields, 'messages')
    if (!Array.isArray(own.content)) return own
    const content = this.list(own.content, part => this.#part(part))
    return content === own.content ? own : { ...own, content }
  }

  /** The object with only these fields; a cache mark among them is made one that has a price. */
  marked(value: Json, allowed: ReadonlySet<string>, path: string): Json {
    const own = this.only(value, allowed, path)
    if (!isObject(own.cache_control)) return own
    const cache_control = this.mark(own.cache_control, path)
    return cache_control === own.cache_control ? own : { ...own, cache_control }
  }

  mark(mark: Json, path: string): Json | undefined {
    const name = path ? `${path}.cache_control` : 'cache_control'
    if (!this.#takesCacheMarks) {
      this.dropped.push(name)
      return undefined
    }
    const own = this.only(mark, markFields, name)
    if (own.ttl === undefined || own.ttl === pricedTtl) return own
    this.dropped.push(`${name}.ttl`)
    return { ...own, ttl: undefined }
  }

  only(value: Json, allowed: ReadonlySet<string>, path: string): Json {
    let cleaned: Json | null = null
    for (const name in value) {
      if (value[name] === undefined || allowed.has(name)) continue
      cleaned ??= { ...value }
      if (asksForSomething(value[name])) this.dropped.push(`${path}.${name}`)
      cleaned[name] = undefined
    }
    return cleaned ?? value
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
      const cleaned = this.only(inner, allowed, `${path}.${name}`)
      return cleaned === inner ? own : { ...own, [name]: cleaned }
    }
    return own
  }

  #image(image: Json): Json {
    const path = 'messages.content.image_url'
    const own = this.only(image, imageFields, path)
    if (own.detail == null || details.has(String(own.detail))) return own
    this.dropped.push(`${path}.detail`)
    return { ...own, detail: undefined }
  }
}

/** Of use to the gateway even where a provider does not know it. */
const routingField = 'prompt_cache_key'
/** Values of `service_tier` that name the tier whose price the catalog has. */
const usualTiers = words('auto default standard standard_only on_demand')

/** True of a field whose absence the caller may notice: it has a value that asks for something. */
export function isMissed(name: string, value: unknown): boolean {
  if (ownFields.has(name) || name === routingField || name in paidFields) return false
  if (name === 'service_tier' && usualTiers.has(String(value))) return false
  return asksForSomething(value)
}

function asksForSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '') return false
  return typeof value !== 'object' || Object.keys(value).length > 0
}

/** The top-level fields of a request that are not among those `taken`, as far as somebody may miss them. */
export function fieldsBeside(body: object, taken: ReadonlySet<string>): string[] {
  return Object.entries(body).flatMap(([name, value]) => (!taken.has(name) && isMissed(name, value) ? [name] : []))
}

/** Marks a request to a provider with what was dropped from it; nothing is said where nothing was. */
export function withDropped<R extends object>(request: R, dropped: readonly string[]): R & { dropped?: string[] } {
  return dropped.length > 0 ? { ...request, dropped: [...new Set(dropped)] } : request
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
