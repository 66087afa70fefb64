import type { Usage } from '../../base/usage.ts'
import { isObject } from './json.ts'

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
  const parts: { [P in K]?: number } = {}
  for (const name of names) {
    const tokens = count(json[name])
    if (tokens !== undefined) parts[name] = Math.min(tokens, whole)
  }
  return Object.keys(parts).length > 0 ? parts : undefined
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
 * possible, so that the caller counts by itself. The provider's own `cost` is left out: ours is what we charge.
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

function rest(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined ? undefined : Math.max(0, total - part)
}
