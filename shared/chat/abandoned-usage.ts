import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { Usage } from '../base/usage.ts'
import { clientLeft, noOutcome, type RunServices } from '../engine/base-run.ts'
import type { Bill } from '../engine/report.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import { type Features, webSearchesOf } from '../routing/features.ts'
import { atServedTier, chargeNano, maxMediaTokens, promptTokensBound, withinContext } from '../routing/pricing.ts'
import type { Reservation } from '../wallet/admission.ts'
import { statedUsage } from './bill.ts'
import type { ChatFormat } from './chat-format.ts'
import { countUsage, type Delivered, deliveredByAnswer, deliveredByStream, hasContent } from './delivered-output.ts'
import type { ChatRunInput } from './run-input.ts'
import type { AnswerRelay } from './stream-relay.ts'

/** Assumed output speed of a model when no higher one was observed. */
const minTokensPerSecond = 100

/** A call that was aborted while its provider was working. */
type AbandonedCall<K extends DirectKind> = {
  format: Pick<ChatFormat<K>, 'countPrompt'>
  body: DirectKinds[K]['request']
  features: Features
  target: Target
  /** Time since the provider received the request. */
  elapsedMs: number
  /** Recently observed speed of the target; null = unknown. */
  tokensPerSecond: number | null
  /** Maximum output tokens allowed, over all choices. */
  maxOutputTokens: number
  /** What the client received, and the provider's last reported usage. */
  delivered: Delivered
  reported: Usage | null
  /** Whether there is output that was not streamed: reasoning, or a buffered answer. */
  hidesOutput: boolean
  /** The most searches that the model may have made unseen. */
  searches: number
}

/** Reads what a call had delivered when it was aborted; `relay` null = its answer was not streamed. */
async function readDelivered(
  relay: AnswerRelay | null,
): Promise<Pick<AbandonedCall<DirectKind>, 'delivered' | 'reported'>> {
  if (!relay) return { delivered: deliveredByAnswer([], 0), reported: null }
  const verdicts = await Promise.all(relay.output.images ?? [])
  return { delivered: deliveredByStream(relay.output, verdicts), reported: relay.reported }
}

/**
 * Estimates the usage of an abandoned call. Prompt: the provider's count if reported, else our tokenizer's count of the
 * text and the upper bound of everything else. Output: what has come; if part of it is hidden, at least what the
 * model produces in the elapsed time, up to the request's limit. Searches: those that were seen; all that are reserved where
 * nothing was seen of an answer whose model searches first.
 */
export async function estimateAbandonedUsage<K extends DirectKind>(abandoned: AbandonedCall<K>): Promise<Usage> {
  const { format, body, features, target, delivered } = abandoned
  const reported = statedUsage(abandoned.reported, abandoned)
  const estimate = await countUsage(format.countPrompt(body), delivered)
  const web_searches = estimate.web_searches ?? (hasContent(delivered) ? 0 : abandoned.searches)
  const { images, sound } = maxMediaTokens(features.media, target)
  const { audio_tokens = 0, image_tokens = 0 } = estimate.prompt_tokens_details ?? {}
  const textTokens = estimate.prompt_tokens - audio_tokens - image_tokens
  const searchesItself = abandoned.searches > 0 ? webSearchesOf(web_searches, textTokens, false) : null
  const readByOwnSearches = searchesItself?.webSearches.promptTokens ?? 0
  const read = { textTokensBound: textTokens, media: features.media, prompts: features.prompts }
  const bound = {
    // No more than with all searches, which is what was reserved.
    prompt_tokens: Math.min(
      promptTokensBound({ ...read, disablesSearch: true }, target) + readByOwnSearches,
      promptTokensBound({ ...read, ...(features.disablesSearch && { disablesSearch: true }) }, target),
    ),
    prompt_tokens_details: {
      audio_tokens: withinContext(sound, target),
      image_tokens: Number.isFinite(images) ? images : withinContext(images, target),
    },
  }
  const prompt = reported && reported.prompt_tokens > 0 ? promptOf(reported) : bound
  const completion_tokens = Math.max(
    estimate.completion_tokens + (delivered.withheldTokens ?? 0),
    reported?.completion_tokens ?? 0,
    hiddenTokens(abandoned),
  )
  const { completion_tokens_details } = estimate
  return {
    ...prompt,
    completion_tokens,
    total_tokens: prompt.prompt_tokens + completion_tokens,
    ...(completion_tokens_details && { completion_tokens_details }),
    ...(web_searches > 0 && { web_searches }),
    ...(reported?.service_tier && { service_tier: reported.service_tier }),
    estimated: true,
  }
}

function promptOf({ prompt_tokens, prompt_tokens_details }: Usage) {
  return { prompt_tokens, ...(prompt_tokens_details && { prompt_tokens_details }) }
}

function hiddenTokens<K extends DirectKind>(abandoned: AbandonedCall<K>): number {
  const { hidesOutput, elapsedMs, tokensPerSecond, maxOutputTokens } = abandoned
  if (!hidesOutput) return 0
  const perSecond = Math.max(tokensPerSecond ?? 0, minTokensPerSecond)
  return Math.min(Math.ceil((elapsedMs / 1_000) * perSecond), maxOutputTokens)
}

/** A call that was aborted after its provider had received it. */
type AbortedCall = {
  target: Target
  reservation: Reservation
  marginPpm: bigint
  /** When the provider received the request. */
  sentMs: MonotonicMs
  /** Whether the model reasons unseen. */
  reasons: boolean
  /** The most searches that it makes by itself. */
  searches: number
  /** What it delivered; null = it was not streamed. */
  relay: AnswerRelay | null
  /** The service tier that its headers stated. */
  statedTier?: Usage['service_tier'] | undefined
}

/** The estimated bill of an aborted call. */
export async function billAborted<K extends DirectKind>(
  services: Pick<RunServices, 'monotonic' | 'upstreams'>,
  format: ChatFormat<K>,
  { body, features }: ChatRunInput<K>,
  { target, reservation, marginPpm, sentMs, reasons, searches, relay, statedTier }: AbortedCall,
): Promise<Bill> {
  const estimate = await estimateAbandonedUsage({
    format,
    body,
    features,
    target,
    elapsedMs: elapsedMs(sentMs, services.monotonic.now()),
    tokensPerSecond: services.upstreams.figures(target).tokensPerSecond,
    maxOutputTokens: reservation.outputTokens * features.choices,
    ...(await readDelivered(relay)),
    hidesOutput: relay === null || reasons,
    searches,
  })
  const usage = atServedTier(estimate, target, statedTier)
  const costNano = chargeNano(target, usage, marginPpm)
  return { ...noOutcome, ...clientLeft, target, usage, shownUsage: { ...usage, cost: costNano / 1e9 }, costNano }
}

/** The bill of a call that is not charged. */
export function unbilled(target: Target): Bill {
  return { ...noOutcome, ...clientLeft, target, shownUsage: noOutcome.usage }
}
