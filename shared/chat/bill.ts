import { plausibleUsage, type ShownUsage, statesCounts, type Usage } from '../base/usage.ts'
import type { Bill } from '../engine/report.ts'
import type { DirectKind, DirectKinds, OpenAiKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import {
  atServedTier,
  cacheDiscountNano,
  chargeNano,
  marginAt,
  maxStatedTokens,
  upstreamNano,
} from '../routing/pricing.ts'
import type { Waiver } from '../wallet/usage-event.ts'
import type { BilledAnswer, Billing, ChatFormat, ProviderAnswer } from './chat-format.ts'
import {
  type AnswerChoice,
  countUsage,
  type Delivered,
  deliveredByAnswer,
  deliveredByStream,
  dropUndecodableImages,
  exceedsOneToken,
  hasContent,
  includesLostMedia,
  subtractLostMedia,
} from './delivered-output.ts'
import type { AnswerRelay } from './stream-relay.ts'

type CallLimits = Pick<Billing, 'target' | 'features'>
/** Checks what a provider states. */
type Check = (stated: Usage | null | undefined) => Usage | null
/** The parts of a dialect that its bills depend on. */
type BilledFormat<K extends DirectKind> = Pick<ChatFormat<K>, 'countPrompt' | 'countsOutput' | 'countsPromptFirst'>
type CallInfo<K extends DirectKind> = {
  format: BilledFormat<K>
  body: DirectKinds[K]['request']
  upstreamId: string | null
}
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

/**
 * What a provider states it has used; null when that cannot be true, so that the gateway counts. So it does where a translation has
 * put its own estimate, by the length of the texts, into the end of a stream.
 */
export function statedUsage(stated: Usage | null | undefined, { target, features }: CallLimits): Usage | null {
  return stated && !stated.estimated ? plausibleUsage(stated, features && maxStatedTokens(features, target)) : null
}

/**
 * Whether a call is billed as its answer states: `stated` is what was read from its usage, `written` that usage, `billed` the bill
 * once there is one. Otherwise the answer states what is billed instead.
 */
export function isBilledAsStated(
  stated: Usage | null | undefined,
  written: unknown,
  limits: CallLimits,
  billed?: ShownUsage,
): boolean {
  if (stated == null || statedUsage(stated, limits) !== stated || !statesCounts(written)) return false
  if (!billed) return true
  const { prompt_tokens, completion_tokens = 0 } = billed
  return stated.prompt_tokens === prompt_tokens && stated.completion_tokens === completion_tokens
}

function billOf<K extends DirectKind>(
  { target, marginPpm, free, statedTier }: Billing,
  finished: FinishedCall<K>,
  { usage: counted, produced, finishReason }: Outcome,
): Bill {
  const usage = atServedTier(counted, target, statedTier)
  const owedNano = free ? 0 : chargeNano(target, usage, marginPpm)
  const costNano = produced ? owedNano : 0
  const discountNano = costNano > 0 ? cacheDiscountNano(target.deployment, usage, marginAt(target, marginPpm)) : 0
  const shownUsage = presentUsage(finished.format, usage, costNano / 1e9, discountNano / 1e9)
  return {
    target,
    usage,
    shownUsage: withUpstreamCost(shownUsage, target, usage),
    costNano,
    waiver: free || costNano > 0 ? undefined : waiverOf(target, owedNano),
    status: 200,
    errorCode: null,
    finishReason,
    upstreamId: finished.upstreamId,
  }
}

/** Why a live call is not charged. */
function waiverOf({ own }: Target, owedNano: number): Waiver {
  if (owedNano > 0) return 'nothing_produced'
  return own ? 'own_key' : 'no_price'
}

/** A usage with what a call with an own key costs at the provider, as OpenRouter shows it. */
function withUpstreamCost(shown: ShownUsage, target: Target, usage: Usage): ShownUsage {
  if (!target.own) return shown
  return { ...shown, is_byok: true, cost_details: { upstream_inference_cost: upstreamNano(target, usage) / 1e9 } }
}

/** A usage in OpenAI's format. Its details are always complete: clients that read one count expect the others. */
function presentUsage(
  { countsOutput }: Pick<ChatFormat<DirectKind>, 'countsOutput'>,
  usage: Usage,
  costUsd: number,
  cacheDiscountUsd: number,
): ShownUsage {
  const { prompt_tokens, completion_tokens, total_tokens, service_tier: tier, estimated } = usage
  const ours = estimated && { estimated }
  // Embeddings have no completion: OpenAI's own usage object has only two figures.
  if (!countsOutput) return { prompt_tokens, total_tokens, cost: costUsd, ...ours }
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0, ...usage.prompt_tokens_details },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0, ...usage.completion_tokens_details },
    cost: costUsd,
    ...(cacheDiscountUsd !== 0 && { cache_discount: cacheDiscountUsd }),
    ...(tier && tier !== 'standard' && { service_tier: tier }),
    ...ours,
  }
}

type Outcome = { usage: Usage; produced: boolean; finishReason: string | null }

/** The outcome of a call; synchronous when the provider's usage suffices, which is the usual case. */
function resolveOutcome<K extends DirectKind>(finished: FinishedCall<K>, check: Check): Outcome | Promise<Outcome> {
  if ('relay' in finished) return streamOutcome(finished, check)
  if (finished.answer.data) return embeddingOutcome(finished, check)
  const { format, body, answer, lostImages } = finished
  const choices = (answer.choices ?? []) as AnswerChoice[]
  const finishReason = choices[0]?.finish_reason ?? null
  const stated = check(answer.usage as Usage | undefined)
  // The usual case: none of what the provider states was lost, so that the answer need not be looked through.
  const isWhole = stated !== null && stated.prompt_tokens > 0 && stated.completion_tokens > 0
  if (isWhole && lostImages === 0 && !stated.completion_tokens_details?.audio_tokens)
    return { usage: stated, produced: true, finishReason }
  const delivered = deliveredByAnswer(choices, lostImages)
  const reported = lacksOutput(stated, delivered) ? null : stated
  const produced = (reported?.completion_tokens ?? 0) > 0 || hasContent(delivered)
  const outcomeOf = (usage: Usage) => ({ usage, produced, finishReason })
  if (!reported) return countOutput(stated, delivered, format, body).then(outcomeOf)
  if (includesLostMedia(reported, delivered)) return subtractLostMedia(reported, delivered).then(outcomeOf)
  return produced && lacksPrompt(reported)
    ? withCountedPrompt(reported, format, body).then(outcomeOf)
    : outcomeOf(reported)
}

/** Whether no token is stated for an output that has more than may be one. */
function lacksOutput(stated: Usage | null, delivered: Delivered): boolean {
  return stated?.completion_tokens === 0 && exceedsOneToken(delivered)
}

/** No prompt is empty, but some servers state only those tokens that they had not cached. */
function lacksPrompt({ prompt_tokens }: Usage): boolean {
  return prompt_tokens === 0
}

/** A usage with our count of the output, and of the prompt unless that is stated. */
async function countOutput<K extends DirectKind>(
  stated: Usage | null,
  delivered: Delivered,
  { countPrompt }: BilledFormat<K>,
  body: DirectKinds[K]['request'],
): Promise<Usage> {
  if (!stated?.prompt_tokens) return countUsage(countPrompt(body), delivered)
  // What is stated of the output, and of the cost of all, is not of this output.
  const { provider_cost_nano: _cost, parts: _parts, completion_tokens_details: _output, ...others } = stated
  const { prompt_tokens, prompt_tokens_details } = stated
  const prompt = { prompt_tokens, ...(prompt_tokens_details && { prompt_tokens_details }) }
  return { ...others, ...(await countUsage(Promise.resolve(prompt), delivered)) }
}

/** A usage with our count of the prompt. */
async function withCountedPrompt<K extends DirectKind>(
  stated: Usage,
  { countPrompt }: BilledFormat<K>,
  body: DirectKinds[K]['request'],
): Promise<Usage> {
  const { prompt_tokens } = await countPrompt(body)
  return { ...stated, prompt_tokens, total_tokens: prompt_tokens + stated.completion_tokens, estimated: true }
}

async function embeddingOutcome<K extends DirectKind>(
  { format, body, answer }: FinishedAnswer<K>,
  check: Check,
): Promise<Outcome> {
  const stated = answer.usage as { prompt_tokens: number; total_tokens: number } | undefined
  const reported = check(stated && { completion_tokens: 0, ...stated })
  const usage = reported?.prompt_tokens
    ? reported
    : await countUsage(format.countPrompt(body), deliveredByAnswer([], 0))
  return { usage, produced: true, finishReason: null }
}

async function streamOutcome<K extends DirectKind>(
  { format, body, relay, broken }: FinishedStream<K>,
  check: Check,
): Promise<Outcome> {
  const verdicts = relay.output.images ? await Promise.all(relay.output.images) : []
  const delivered = deliveredByStream(relay.output, verdicts)
  const given = check(relay.usage)
  const stated = lacksOutput(given, delivered) ? null : given
  const reported = stated && includesLostMedia(stated, delivered) ? await subtractLostMedia(stated, delivered) : stated
  // For a broken stream, the delivered text decides: an early usage may not include it.
  const counts = !broken && delivered.lostImages === 0 && (reported?.completion_tokens ?? 0) > 0
  const produced = counts || hasContent(delivered)
  const statesPrompt = format.countsPromptFirst || relay.reported?.completion_tokens === 0
  const early = statesPrompt ? check(relay.reported) : null
  const counted = reported ?? (produced ? await countOutput(early, delivered, format, body) : zero)
  const usage = produced && lacksPrompt(counted) ? await withCountedPrompt(counted, format, body) : counted
  return { usage, produced, finishReason: relay.finishReason }
}

const zero: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

type AnswerFields = {
  id?: string
  model: string
  system_fingerprint?: unknown
  usage?: unknown
  provider?: string
  choices?: unknown
  data?: unknown
}

/**
 * Bills a complete answer with choices or vectors, and shows it with our id, our name of the model and our usage: the
 * `billAnswer` of OpenAI's older endpoints.
 */
export async function billChoices<K extends OpenAiKind>(
  this: ChatFormat<K>,
  { adapter, call, json, id }: ProviderAnswer<K>,
  terms: Omit<Billing, 'target'>,
): Promise<BilledAnswer> {
  const { target, body } = call
  // The adapter's result is a new object for this call, except below its first level.
  const answer: AnswerFields = understood(() => adapter.answer(json, call))
  const lostImages = hasImages(answer) ? await dropUndecodableImages(answer) : 0
  // A modified list must not be copied from the received text.
  if (lostImages > 0) answer.choices = [...(answer.choices as unknown[])]
  const upstreamId = answer.id ?? null
  const billing = bill({ target, ...terms }, { format: this, body, answer, lostImages, upstreamId })
  const billed = billing instanceof Promise ? await billing : billing
  const upstreamModel = answer.model || null
  // Mistral's clients read it in embeddings, where OpenAI has none (mistralai, EmbeddingResponse).
  if (!adapter.native || answer.id === undefined) answer.id = id
  answer.model = target.model.id
  if (this.countsOutput) answer.system_fingerprint ??= null
  answer.provider = target.provider.name
  answer.usage = billed.shownUsage
  return { billed, shown: answer, upstreamModel }
}

/** Whether an answer has images. */
function hasImages({ choices }: AnswerFields): boolean {
  if (!Array.isArray(choices)) return false
  for (const { message } of choices) if (Array.isArray(message?.images) && message.images.length > 0) return true
  return false
}

type ReadAnswer = { usage: Usage | null | undefined; texts: readonly string[]; finishReason: string | null | undefined }

/**
 * Bills a complete answer of a dialect whose answers have an id of the provider's: a native one is shown as it was received,
 * a translated one with our id and name of the model, either with the usage that is billed. `read`: what its bill needs;
 * `write`: a usage in the dialect.
 */
export async function billMessage<K extends 'messages' | 'responses'>(
  format: BilledFormat<K>,
  { adapter, call, json, id }: ProviderAnswer<K>,
  terms: Omit<Billing, 'target'>,
  read: (answer: DirectKinds[K]['answer']) => ReadAnswer,
  write: (usage: ShownUsage) => object,
): Promise<BilledAnswer> {
  const { target, body } = call
  const answer: DirectKinds[K]['answer'] = understood(() => adapter.answer(json, call))
  const { usage, texts, finishReason } = read(answer)
  const choices = [{ finish_reason: finishReason, message: { content: texts.join('') } }]
  const upstreamId = adapter.native ? answer.id : null
  const billing = { target, ...terms }
  const billed = await bill(billing, { format, body, answer: { usage, choices }, lostImages: 0, upstreamId })
  const isBilled = isBilledAsStated(usage, answer.usage, billing, billed.usage)
  const stated: DirectKinds[K]['answer'] = isBilled ? answer : { ...answer, usage: write(billed.usage) }
  const shown = adapter.native ? stated : { ...stated, id, model: target.model.id }
  return { billed, shown, upstreamModel: answer.model || null }
}

/** What `read` returns. Throws a ProviderError if it fails on an unexpected form: then the answer is malformed. */
export function understood<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw misreadError(error)
  }
}

/** An error that was thrown while an answer was read: a ProviderError for one of its form, which is malformed; else itself. */
export function misreadError(error: unknown): unknown {
  // Of a list with more entries than a function takes arguments, or an event that is too long.
  if (!(error instanceof TypeError || error instanceof RangeError)) return error
  return new ProviderError('invalid_response', 'The provider’s answer is not understood.', { cause: error })
}
