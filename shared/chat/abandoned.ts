import type { Usage } from '../base/usage.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import { counted, type Delivered, deliveredBy, deliveredIn } from './delivered.ts'
import { maxMediaTokens, promptTokensBound, withinContext } from './prompt-bound.ts'
import type { Relay } from './relay.ts'

/** How fast a model is taken to write where nothing faster was observed. */
const minTokensPerSecond = 100

/** A call that was cut while its provider worked. */
export type Abandoned<K extends DirectKind> = {
  kind: K
  body: DirectKinds[K]['request']
  features: Features
  target: Target
  /** Since the provider had the request. */
  elapsedMs: number
  /** As observed at the target lately; null = not known. */
  tokensPerSecond: number | null
  /** The most output tokens the provider was allowed, over all choices. */
  maxOutputTokens: number
  /** What the client got, and what the provider counted by then. */
  delivered: Delivered
  reported: Usage | null
  /** Whether there is output that nobody saw: reasoning, or an answer that would have come whole. */
  hidesOutput: boolean
}

/** What a call had brought when it was cut; `relay` null = its answer would have come whole. */
export async function broughtBy(relay: Relay | null): Promise<Pick<Abandoned<DirectKind>, 'delivered' | 'reported'>> {
  if (!relay) return { delivered: deliveredIn([], 0), reported: null }
  const verdicts = await Promise.all(relay.tally.images ?? [])
  return { delivered: deliveredBy(relay.tally, verdicts), reported: relay.reported }
}

/**
 * An estimate of what an abandoned call used. Prompt: the provider's own count if it said one, else our tokenizer's count of the
 * text and the bound of everything else. Output: what was delivered; where some of it is hidden, at least what the model writes
 * in the time that passed, up to the request's limit.
 */
export async function abandonedUsage<K extends DirectKind>(call: Abandoned<K>): Promise<Usage> {
  const { kind, body, features, target, delivered, reported } = call
  const estimate = await counted(kind, body, delivered)
  const { images, sound } = maxMediaTokens(features.media, target)
  const { audio_tokens = 0, image_tokens = 0 } = estimate.prompt_tokens_details ?? {}
  const textTokens = estimate.prompt_tokens - audio_tokens - image_tokens
  const bound = {
    prompt_tokens: promptTokensBound(
      { textTokensBound: textTokens, media: features.media, prompts: features.prompts },
      target,
    ),
    prompt_tokens_details: {
      audio_tokens: withinContext(sound, target),
      image_tokens: Number.isFinite(images) ? images : withinContext(images, target),
    },
  }
  const prompt = reported && reported.prompt_tokens > 0 ? promptOf(reported) : bound
  const completion_tokens = Math.max(estimate.completion_tokens, reported?.completion_tokens ?? 0, hiddenTokens(call))
  const { completion_tokens_details } = estimate
  return {
    ...prompt,
    completion_tokens,
    total_tokens: prompt.prompt_tokens + completion_tokens,
    ...(completion_tokens_details && { completion_tokens_details }),
    estimated: true,
  }
}

function promptOf({ prompt_tokens, prompt_tokens_details }: Usage) {
  return { prompt_tokens, ...(prompt_tokens_details && { prompt_tokens_details }) }
}

function hiddenTokens<K extends DirectKind>(call: Abandoned<K>): number {
  const { hidesOutput, elapsedMs, tokensPerSecond, maxOutputTokens } = call
  if (!hidesOutput) return 0
  const perSecond = Math.max(tokensPerSecond ?? 0, minTokensPerSecond)
  return Math.min(Math.ceil((elapsedMs / 1_000) * perSecond), maxOutputTokens)
}
