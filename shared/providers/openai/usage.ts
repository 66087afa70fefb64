import type { Usage } from '../../base/usage.ts'
import type { ProviderRow } from '../../catalog/schema.ts'
import { isObject, type Json } from './json.ts'

/** A token count: a finite number, never negative; undefined for anything else. */
export function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? Math.ceil(value) : undefined
}

/** The named counts of a details object, none above the whole they are part of; undefined when it names none. */
function details<K extends string>(
  json: unknown,
  names: readonly K[],
  whole: number,
): { [P in K]?: number } | undefined {
  if (!isObject(json)) return undefined
  let parts: { [P in K]?: number } | undefined
  for (const name of names) {
    const tokens = count(json[name])
    if (tokens === undefined) continue
    parts ??= {}
    parts[name] = Math.min(tokens, whole)
  }
  return parts
}

const promptParts = [
  'cached_tokens',
  'cache_write_tokens',
  'audio_tokens',
  'cached_audio_tokens',
  'image_tokens',
] as const
const completionParts = ['reasoning_tokens', 'audio_tokens', 'image_tokens'] as const

/**
 * An upstream's `usage` object as ours, in tokens. A missing side is derived from the total; undefined when that is not
 * possible, so that the caller counts by itself. What a provider says that it cost is read by `extrasOf`.
 */
export function normaliseUsage(json: unknown): Usage | undefined {
  if (!isObject(json)) return undefined
  const total = count(json.total_tokens)
  const givenPrompt = count(json.prompt_tokens)
  const givenCompletion = count(json.completion_tokens)
  const prompt = givenPrompt ?? rest(total, givenCompletion)
  let completion = givenCompletion ?? rest(total, givenPrompt)
  if (prompt === undefined || completion === undefined) return undefined

  // xAI counts reasoning beside `completion_tokens`, OpenAI inside it: only the total tells them apart.
  const reasoning = isObject(json.completion_tokens_details)
    ? count(json.completion_tokens_details.reasoning_tokens)
    : 0
  if (reasoning && total === prompt + completion + reasoning) completion += reasoning

  const usage: Usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  const promptDetails = details(json.prompt_tokens_details, promptParts, prompt)
  const completionDetails = details(json.completion_tokens_details, completionParts, completion)
  if (promptDetails) usage.prompt_tokens_details = promptDetails
  if (completionDetails) usage.completion_tokens_details = completionDetails

  // DeepSeek names its cache hits differently.
  const cacheHits = count(json.prompt_cache_hit_tokens)
  if (cacheHits !== undefined && promptDetails?.cached_tokens === undefined) {
    usage.prompt_tokens_details = { ...promptDetails, cached_tokens: Math.min(cacheHits, prompt) }
  }
  return usage
}

/** Beyond this a stated cost is taken for a mistake: no single call comes near it. */
const maxStatedUsd = 10_000
const nanoPerUsd = 1e9
/** xAI counts in ticks: ten thousand million are a dollar. */
const ticksPerUsd = 1e10

/** What the provider says that a call cost, in nano-dollars: in the field of `usage` that its quirk `cost_field` names. */
function statedCostNano(usage: Json, { quirks }: ProviderRow): number | undefined {
  const field = quirks?.cost_field
  if (typeof field !== 'string') return undefined
  const stated = amount(usage[field])
  if (stated === undefined) return undefined
  const usd = field === 'cost_in_usd_ticks' ? stated / ticksPerUsd : stated
  // With a key of the operator's own at the provider behind it, `cost` is only what was charged for passing the call on.
  const behind = usage.is_byok === true && isObject(usage.cost_details) && usage.cost_details.upstream_inference_cost
  const whole = usd + (amount(behind) ?? 0)
  return whole <= maxStatedUsd ? Math.round(whole * nanoPerUsd) : undefined
}

function amount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}

/** Counters of `usage` for work that is paid for apart, at xAI and OpenRouter. */
const paidWork = ['num_sources_used', 'num_server_side_tools_used', 'server_tool_use', 'server_side_tool_usage_details']
const dearTiers: ReadonlySet<unknown> = new Set(['priority', 'fast'])

type Extras = Pick<Usage, 'provider_cost_nano' | 'unpriced'>
/** Given for an answer that says nothing beside its tokens, which is the usual one. */
export const noExtras: Extras = Object.freeze({})

/** What an answer or chunk says of its cost beside its tokens: the stated cost, and work for which the catalog has no price. */
export function extrasOf(json: Json, provider: ProviderRow): Extras {
  const { usage, service_tier } = json
  if (!isObject(usage)) return noExtras
  const cost = statedCostNano(usage, provider)
  let unpriced: string[] | undefined
  for (const name of paidWork) {
    if (!isUsed(usage[name])) continue
    unpriced ??= []
    unpriced.push(name)
  }
  if (dearTiers.has(service_tier)) unpriced = [...(unpriced ?? []), `service_tier ${service_tier}`]
  if (cost === undefined && unpriced === undefined) return noExtras
  return { ...(cost !== undefined && { provider_cost_nano: cost }), ...(unpriced && { unpriced }) }
}

function isUsed(counter: unknown): boolean {
  if (isObject(counter)) return Object.values(counter).some(isUsed)
  return typeof counter === 'number' && counter > 0
}

function rest(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined ? undefined : Math.max(0, total - part)
}
