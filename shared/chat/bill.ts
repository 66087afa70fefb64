import { plausibleUsage, type ShownUsage, type Usage } from '../base/usage.ts'
import type { Bill } from '../engine/report.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Features } from '../routing/features.ts'
import { cacheDiscountNano, chargeNano } from '../routing/pricing.ts'
import { maxStatedTokens } from '../routing/prompt-bound.ts'
import {
  type AnswerChoice,
  countUsage,
  deliveredByAnswer,
  deliveredByStream,
  hasContent,
  includesLostMedia,
  subtractLostMedia,
} from './delivered.ts'
import type { AnswerRelay } from './stream-relay.ts'

/**
 * Target and margin of a call, and the features that bound its usage; without them, it is bounded by what no request
 * uses. `free` for test keys.
 */
export type Billing = { target: Target; features?: Features; marginPpm: bigint; free: boolean }
type CallLimits = Pick<Billing, 'target' | 'features'>
/** Checks what a provider states. */
type Check = (stated: Usage | null | undefined) => Usage | null
type CallInfo<K extends DirectKind> = { kind: K; body: DirectKinds[K]['request']; upstreamId: string | null }
type FinishedAnswer<K extends DirectKind> = CallInfo<K> & {
  answer: { usage?: unknown; choices?: unknown; data?: unknown }
  lostImages: number
}
type FinishedStream<K extends DirectKind> = CallInfo<K> & { relay: AnswerRelay; broken: boolean }
type FinishedCall<K extends DirectKind> = FinishedAnswer<K> | FinishedStream<K>

/**
 * The bill of a finished call: the provider's usage, or our estimate if it reported none. A generation without output
 * is not billed.
 */
export function bill<K extends DirectKind>(billing: Billing, finished: FinishedCall<K>): Bill | Promise<Bill> {
  const resolved = resolveOutcome(finished, stated => statedUsage(stated, billing))
  return resolved instanceof Promise
    ? resolved.then(outcome => billOf(billing, finished, outcome))
    : billOf(billing, finished, resolved)
}

/** What a provider states it has used; null when that cannot be true, so that the gateway counts. */
export function statedUsage(stated: Usage | null | undefined, { target, features }: CallLimits): Usage | null {
  return stated ? plausibleUsage(stated, features && maxStatedTokens(features, target)) : null
}

function billOf<K extends DirectKind>(
  { target, marginPpm, free }: Billing,
  finished: FinishedCall<K>,
  { usage, produced, finishReason }: Outcome,
): Bill {
  const owedNano = free ? 0 : chargeNano(target.deployment, usage, marginPpm)
  const costNano = produced ? owedNano : 0
  const discountNano = costNano > 0 ? cacheDiscountNano(target.deployment, usage, marginPpm) : 0
  return {
    target,
    usage,
    shownUsage: presentUsage(finished.kind, usage, costNano / 1e9, discountNano / 1e9),
    costNano,
    waiver: free || costNano > 0 ? undefined : owedNano > 0 ? 'nothing_produced' : 'no_price',
    status: 200,
    errorCode: null,
    finishReason,
    upstreamId: finished.upstreamId,
  }
}

/** A usage in OpenAI's format. Its details are always complete: clients that read one count expect the others. */
function presentUsage(kind: DirectKind, usage: Usage, costUsd: number, cacheDiscountUsd: number): ShownUsage {
  const { prompt_tokens, completion_tokens, total_tokens, estimated } = usage
  const ours = estimated && { estimated }
  // Embeddings have no completion: OpenAI's own usage object has only two figures.
  if (kind === 'embedding') return { prompt_tokens, total_tokens, cost: costUsd, ...ours }
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0, ...usage.prompt_tokens_details },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, ...usage.completion_tokens_details },
    cost: costUsd,
    ...(cacheDiscountUsd !== 0 && { cache_discount: cacheDiscountUsd }),
    ...ours,
  }
}

type Outcome = { usage: Usage; produced: boolean; finishReason: string | null }

/** The outcome of a call; synchronous when the provider's usage suffices, which is the usual case. */
function resolveOutcome<K extends DirectKind>(finished: FinishedCall<K>, check: Check): Outcome | Promise<Outcome> {
  if ('relay' in finished) return streamOutcome(finished, check)
  if (finished.answer.data) return embeddingOutcome(finished, check)
  const { kind, body, answer, lostImages } = finished
  const choices = (answer.choices ?? []) as AnswerChoice[]
  const delivered = deliveredByAnswer(choices, lostImages)
  const outcomeOf = (usage: Usage) => ({
    usage,
    produced: usage.completion_tokens > 0 || hasContent(delivered),
    finishReason: choices[0]?.finish_reason ?? null,
  })
  const reported = check(answer.usage as Usage | undefined)
  if (!reported) return countUsage(kind, body, delivered).then(outcomeOf)
  return includesLostMedia(reported, delivered)
    ? subtractLostMedia(reported, delivered).then(outcomeOf)
    : outcomeOf(reported)
}

async function embeddingOutcome<K extends DirectKind>(
  { kind, body, answer }: FinishedAnswer<K>,
  check: Check,
): Promise<Outcome> {
  const stated = answer.usage as { prompt_tokens: number; total_tokens: number } | undefined
  const reported = check(stated && { completion_tokens: 0, ...stated })
  const usage = reported ?? (await countUsage(kind, body, deliveredByAnswer([], 0)))
  return { usage, produced: true, finishReason: null }
}

async function streamOutcome<K extends DirectKind>(
  { kind, body, relay, broken }: FinishedStream<K>,
  check: Check,
): Promise<Outcome> {
  const verdicts = relay.tally.images ? await Promise.all(relay.tally.images) : []
  const delivered = deliveredByStream(relay.tally, verdicts)
  const stated = check(relay.usage)
  const reported = stated && includesLostMedia(stated, delivered) ? await subtractLostMedia(stated, delivered) : stated
  // For a broken stream, the delivered text decides: an early usage may not include it.
  const counts = !broken && delivered.lostImages === 0 && (reported?.completion_tokens ?? 0) > 0
  const produced = counts || hasContent(delivered)
  const usage =
    reported ?? (produced ? withPrompt(await countUsage(kind, body, delivered), kind, check(relay.reported)) : zero)
  return { usage, produced, finishReason: relay.finishReason }
}

/** An estimate with the provider's own count of the prompt, which a Messages stream begins with. */
function withPrompt(estimate: Usage, kind: DirectKind, reported: Usage | null): Usage {
  if (kind !== 'messages' || !reported) return estimate
  const { prompt_tokens, prompt_tokens_details } = reported
  const total_tokens = prompt_tokens + estimate.completion_tokens
  return { ...estimate, prompt_tokens, total_tokens, ...(prompt_tokens_details && { prompt_tokens_details }) }
}

const zero: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
