import { hasWebSearchPrice, servesResponses } from '../catalog/traits.ts'
import type { Target } from '../providers/contract.ts'

/** The web searches that a request asks for. */
export type WebSearches = {
  /** The most searches. */
  max: number
  /** Prompt tokens that they usually add: the provider reads the prompt again after each, with all results. */
  promptTokens: number
  /** Whether only native targets make them: others drop the tool of Responses. */
  nativeOnly: boolean
}

type Asked = { webSearches?: WebSearches }

/** Tokens that the results of one search usually add to the prompt. */
const resultTokens = 5_000

/** The searches of a request, whose prompt is read again after each as `promptTokens`; null for none. */
export function webSearchesOf(max: number, promptTokens: number, nativeOnly: boolean): Asked | null {
  if (max === 0) return null
  return { webSearches: { max, promptTokens: promptTokens * max + (resultTokens * max * (max + 1)) / 2, nativeOnly } }
}

/** Those of the web searches `asked` for that a target may make: all or none (null). */
export function webSearchesAt(target: Target, asked: WebSearches | undefined): WebSearches | null {
  if (asked === undefined || !hasWebSearchPrice(target.deployment)) return null
  return asked.nativeOnly && !servesResponses(target) ? null : asked
}

/** Whether a target may read more than the request, so that no bound covers its prompt. */
export function mayExtendPrompt(
  target: Target,
  { extendsPrompt, webSearches }: Asked & { extendsPrompt?: boolean },
): boolean {
  return extendsPrompt === true || webSearchesAt(target, webSearches) !== null
}
