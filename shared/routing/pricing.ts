import type { Config } from '../base/config.ts'
import { GatewayError } from '../base/errors.ts'
import { nanoCeilFromPico, nanoFromPico, withMargin } from '../base/money.ts'
import { type ServiceTier, serviceTierOf } from '../base/service-tier.ts'
import type { Usage } from '../base/usage.ts'
import { imageTokens } from '../catalog/image-tokens.ts'
import {
  largerRates,
  maxTokenRates,
  type PriceSteps,
  priceAt,
  stepsOf,
  type TokenPrice,
  tokenCost,
  webSearchCost,
} from '../catalog/prices.ts'
import type { Deployment } from '../catalog/schema.ts'
import {
  billsDocumentText,
  hasWebSearchPrice,
  maxAudioTokensPerSecond,
  maxImageTokens,
  maxPageTokens,
  maxPromptTokens,
  reasonsBesideLimit,
  servesResponses,
} from '../catalog/traits.ts'
import type { Policy } from '../keys/policy.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { ReservationFactors } from '../providers/reservation-factors.ts'
import type { MaxCost, Reservation } from '../wallet/admission.ts'
import { type Features, type PromptMedia, type WebSearches, webSearchesOf } from './features.ts'
import type { OutputHistory } from './output-history.ts'

const million = 1_000_000n
/** Assumed output when the request sets no limit, and the maximum assumed output when it does. */
const usualOutputTokens = 512
const maxOutputTokens = 4_096
/** Unbounded reasoning is reserved in increments of this many tokens. */
export const reasoningExtensionTokens = 16_384

type Margins = Pick<Config, 'marginPpm' | 'embeddingsSurchargePpm'>

/** Parts per million added to a provider's price, before a discount: the surcharge of embeddings, or the margin of all else. */
export function listMarginPpm({ marginPpm, embeddingsSurchargePpm }: Margins, isEmbedding: boolean): bigint {
  return isEmbedding ? embeddingsSurchargePpm : marginPpm
}

/** Parts per million added to a provider's price: the margin or surcharge of the kind, less a discount, rounded up. */
export function marginOf(margins: Margins, kind: DirectKind, discountPpm: bigint): bigint {
  const kindPpm = listMarginPpm(margins, kind === 'embedding')
  return ((million + kindPpm) * (million - discountPpm) + million - 1n) / million - million
}

/** What is charged at a target beyond the provider's price: with own keys only the fee, which has no discount. */
export function marginAt({ own }: Pick<PricedTarget, 'own'>, marginPpm: bigint): bigint {
  return own ? own.marginPpm : marginPpm
}

/**
 * The charge of a finished call in nano-dollars, rounded once: what the provider states that it cost, else its price, plus margin.
 * A discount never takes a charge below a stated cost. Of a call of several requests, each counts by itself.
 */
export function chargeNano({ deployment, own }: PricedTarget, usage: Usage, generalPpm: bigint): number {
  if (deployment.price.unit !== 'token') return 0
  const { price } = deployment
  const marginPpm = marginAt({ own }, generalPpm)
  if (!usage.provider_cost_nano) return Number(nanoFromPico(withMargin(listedPico(price, usage), marginPpm)))
  let pricedPico = 0n
  let statedPico = 0n
  for (const part of usage.parts ?? [usage]) {
    if (part.provider_cost_nano) statedPico += BigInt(part.provider_cost_nano) * 1_000n
    else pricedPico += listedPico(price, part)
  }
  const statedMarginPpm = own || marginPpm > 0n ? marginPpm : 0n
  return Number(nanoFromPico(withMargin(pricedPico, marginPpm) + withMargin(statedPico, statedMarginPpm)))
}

type PricedTarget = Pick<Target, 'deployment'> & { own?: { marginPpm: bigint } | undefined }

/** What a call with own keys costs at the provider, in nano-dollars: what the provider states, else by its price list. */
export function upstreamNano({ deployment }: PricedTarget, usage: Usage): number {
  return chargeNano({ deployment }, usage, 0n)
}

/** What a call costs at the prices of the catalog, in nano-dollars before margin. */
export function listedNano({ price }: Deployment, usage: Usage): number {
  return price.unit === 'token' ? Number(nanoFromPico(listedPico(price, usage))) : 0
}

/**
 * What the provider's cache saved of a charge, in nano-dollars: the price of the same tokens without a cache, less theirs.
 * Negative where writing cost more than reading saved. At the prices of the catalog, also where the provider states a cost.
 */
export function cacheDiscountNano({ price }: Deployment, usage: Usage, marginPpm: bigint): number {
  const { cached_tokens: read, cache_write_tokens: written } = usage.prompt_tokens_details ?? {}
  if (price.unit !== 'token' || (!read && !written)) return 0
  const nano = (one: Usage) => Number(nanoFromPico(withMargin(listedPico(price, one), marginPpm)))
  return nano(withoutCache(usage)) - nano(usage)
}

function withoutCache({ prompt_tokens_details: details = {}, parts, ...usage }: Usage): Usage {
  const { audio_tokens, image_tokens } = details
  const input = { ...(audio_tokens && { audio_tokens }), ...(image_tokens && { image_tokens }) }
  return { ...usage, prompt_tokens_details: input, ...(parts && { parts: parts.map(withoutCache) }) }
}

function listedPico(price: TokenPrice, usage: Usage): bigint {
  const searchPico = webSearchCost(price, usage.web_searches ?? 0)
  const prices = priceAt(price, usage.service_tier)
  return (usage.parts ?? [usage]).reduce((sum, part) => sum + tokenCost(prices, part), searchPico)
}

/** What the number of searches of the web depends on. */
type Searching = Pick<Features, 'webSearches' | 'textTokensBound' | 'disablesSearch'>
type Bounded = Searching & Pick<Features, 'media' | 'prompts' | 'toolReads'>

type Stated = Searching & Pick<Features, 'media' | 'prompts' | 'choices' | 'toolReads' | 'extendsPrompt'>

/** Used for models of unknown context length. */
const maxContextTokens = 2_000_000
const unknown = Number.POSITIVE_INFINITY

/** The maximum tokens billed for the images, audio and documents of a prompt; infinite when unknown. */
type MediaTokens = { images: number; sound: number; documents: number }
const noTokens: Readonly<MediaTokens> = { images: 0, sound: 0, documents: 0 }

export function maxMediaTokens(media: PromptMedia, target: Target): Readonly<MediaTokens> {
  if (isText(media)) return noTokens
  const { images, soundMs, earlierSounds, documents } = media
  const times = (count: number, perUnit: number | null) => (count === 0 ? 0 : Math.ceil(count * (perUnit ?? unknown)))
  const sound = soundMs === null ? unknown : times(soundMs / 1_000, maxAudioTokensPerSecond(target))
  // An earlier answer cannot exceed the model's output limit.
  const earlier = times(earlierSounds, target.model.max_output_tokens)
  const pages = documents === null ? unknown : times(documents.pages, maxPageTokens(target))
  const text = documents && billsDocumentText(target) ? documents.textBytes : 0
  return { images: times(images, maxImageTokens(target)), sound: sound + earlier, documents: pages + text }
}

/** Whether a prompt has nothing but text, as most have. */
function isText({ images, soundMs, earlierSounds, documents }: PromptMedia): boolean {
  return images === 0 && soundMs === 0 && earlierSounds === 0 && documents?.pages === 0 && documents.textBytes === 0
}

/** Limits a number of tokens to the model's context, per prompt: longer prompts are rejected. */
export function withinContext(tokens: number, target: Target, prompts = 1): number {
  return Math.min(tokens, (maxPromptTokens(target) ?? maxContextTokens) * prompts)
}

/** The most rounds of its own tools that a provider runs in one request. */
const maxToolRounds = 10

/**
 * The most tokens that a provider can truthfully state for a request: each prompt, each choice and each round of the
 * provider's own tools can fill the context. Images may be billed as more.
 */
export function maxStatedTokens(features: Stated, target: Target): { prompt: number; completion: number } {
  const { media, prompts, choices, toolReads = 0, extendsPrompt } = features
  const { images } = maxMediaTokens(media, target)
  const rounds = 1 + toolReads + (webSearchesAt(target, features)?.max ?? 0) + (extendsPrompt ? maxToolRounds : 0)
  const context = withinContext(unknown, target, rounds)
  const more = Number.isFinite(images) ? images : 0
  return { prompt: context * Math.max(prompts, choices) + more, completion: context * Math.max(choices, 1) + more }
}

/**
 * The maximum prompt tokens that a target can bill for a request. Text has at most as many tokens as bytes; what
 * neither the limits of `shared/catalog/traits.ts` nor the measured sizes bound is bounded by the model's context.
 * Images may be billed as more tokens than they occupy in the context (the model's image price is then expressed in
 * tokens). The results of web searches have no bound; counted is what they usually add. Those of fetched pages and MCP
 * servers are chosen by the caller, so each reading of them counts as a whole context.
 */
export function promptTokensBound(features: Bounded, target: Target): number {
  const { textTokensBound, media, prompts, toolReads = 0 } = features
  const searches = webSearchesAt(target, features)
  const { images, sound, documents } = maxMediaTokens(media, target)
  const others = withinContext(
    textTokensBound + sound + documents + (searches?.promptTokens ?? 0),
    target,
    prompts + (searches?.max ?? 0),
  )
  const read = Number.isFinite(images) ? others + images : withinContext(images, target)
  return read + withinContext(unknown, target, toolReads)
}

/** The web searches that a target may make: its own, or those that the request asks for, all or none (null). */
function webSearchesAt(target: Target, features: Searching): WebSearches | null {
  const { webSearches: asked } = features
  const own = ownSearches(target, features)
  if (own !== null) return webSearchesOf(own, features.textTokensBound, false)?.webSearches ?? null
  if (asked === undefined || !hasWebSearchPrice(target.deployment)) return null
  return asked.nativeOnly && !servesResponses(target) ? null : asked
}

/** The most searches of a model that searches by itself; null for others. */
export function ownSearches(
  { deployment }: Target,
  { disablesSearch }: Pick<Features, 'disablesSearch'>,
): number | null {
  const own = deployment.traits?.web_searches
  return own === undefined ? null : disablesSearch ? 0 : own
}

/** Whether a target may read more than the request, so that no bound covers its prompt. */
export function mayExtendPrompt(target: Target, features: Searching & Pick<Features, 'extendsPrompt'>): boolean {
  return features.extendsPrompt === true || webSearchesAt(target, features) !== null
}

function maxRates({ deployment, tier }: Target, { inputs, outputs, media, cache1h }: Features, promptTokens: number) {
  const { price } = deployment
  if (price.unit !== 'token') return { input: 0n, output: 0n }
  const audioIn = inputs.audio || media.earlierSounds > 0
  const used = { audioIn, imageIn: inputs.image, audioOut: outputs.audio, imageOut: outputs.image, cache1h }
  const standard = maxTokenRates(price, used, promptTokens)
  if (!tier) return standard
  // A provider may serve a request at the standard tier instead.
  return largerRates(standard, maxTokenRates(priceAt(price, tier), used, promptTokens))
}

/** The maximum cost of one output token at a target, over all choices: pico-dollars with margin. */
export function maxPicoPerOutputToken(target: Target, features: Features, marginPpm: bigint): number {
  const { output } = maxRates(target, features, promptTokensBound(features, target))
  return Number(withMargin(output * BigInt(features.choices), marginAt(target, marginPpm)))
}

/** The maximum cost of a request over all its targets, which the admission reserves. */
export function maxCostOf(targets: readonly Target[], features: Features, generalPpm: bigint): MaxCost {
  let fixedNano = 0
  let picoPerOutputToken = 0
  let outputTokens = features.maxTokens ?? 0
  let extensionNano = 0
  for (const target of targets) {
    const marginPpm = marginAt(target, generalPpm)
    const promptTokens = promptTokensBound(features, target)
    const { input, output } = maxRates(target, features, promptTokens)
    const outputPico = output * BigInt(features.choices)
    const predictedPico = outputPico * BigInt(features.predictedTokens ?? 0)
    const fixedPico = input * BigInt(promptTokens) + predictedPico + searchPico(target, features)
    fixedNano = Math.max(fixedNano, Number(nanoCeilFromPico(withMargin(fixedPico, marginPpm))))
    const pico = Number(withMargin(outputPico, marginPpm))
    picoPerOutputToken = Math.max(picoPerOutputToken, pico)
    if (reasonsBesideLimit(target))
      extensionNano = Math.max(extensionNano, Math.ceil((reasoningExtensionTokens * pico) / 1_000))
    if (features.maxTokens === null) outputTokens = Math.max(outputTokens, target.model.max_output_tokens ?? 8_192)
  }
  // A chat template may add a token or two after the limit; they are reserved as well.
  fixedNano += extensionNano
  if (features.maxTokens !== 0) fixedNano += Math.ceil((2 * picoPerOutputToken) / 1000)
  const estimatedTokens =
    features.promptTokensEstimate + Math.min(features.maxTokens ?? usualOutputTokens, 100_000) * features.choices
  const explicit = features.maxTokens !== null
  const minTokens = explicit ? outputTokens : 1
  const cost = { fixedNano, picoPerOutputToken, outputTokens }
  return { estimatedTokens, ...cost, explicit, minTokens, likelyTokens: 0, factor: 1 }
}

/** A wallet that cannot pay an explicit limit lowers it, but not below this number of tokens. */
const minLimitTokens = 4_096

/** What the reservation of a chat run depends on beside its targets. `bulk`: null for a live request. */
type ChatRun = { bulk: object | null; features: Features; stream: boolean }

/** What earlier requests have shown. */
type Learned = { outputHistory: OutputHistory; reservationFactors: Pick<ReservationFactors, 'any' | 'of'> }

/**
 * The maximum cost of a chat run at its targets. Unlike bulk work, a live request with a large limit is served by a
 * small wallet: the limit is lowered to what the wallet can pay, and a stream reserves the output that is likely, and
 * the rest while it runs. docs/decisions/likely-output.md
 */
export function maxCostOfRun(
  { outputHistory, reservationFactors }: Learned,
  { keyId, organisationId }: Pick<Policy, 'keyId' | 'organisationId'>,
  run: ChatRun,
  targets: readonly Target[],
  marginPpm: bigint,
): MaxCost {
  const maxCost = maxCostOf(targets, run.features, marginPpm)
  if (reservationFactors.any) maxCost.factor = reservationFactors.of(organisationId, targets)
  if (run.bulk !== null || maxCost.outputTokens <= minLimitTokens) return maxCost
  if (maxCost.explicit) maxCost.minTokens = minLimitTokens
  if (isExtensible(run)) maxCost.likelyTokens = outputHistory.likelyTokens(keyId, targets[0]!.model.id)
  return maxCost
}

/**
 * Whether output of a chat run can be reserved while it is delivered. The tokens of sound and images cannot be told from
 * what was delivered. A small limit is reserved as a whole.
 */
export function isExtensible({ bulk, features: { maxTokens, outputs }, stream }: ChatRun): boolean {
  const isLarge = maxTokens === null || maxTokens > minLimitTokens
  return stream && isLarge && bulk === null && !outputs.audio && !outputs.image
}

/** Whether a reservation covers all that a call to a target can cost, so that nothing is reserved while it runs. */
export function coversCall(
  { reservedTokens, outputTokens }: Pick<Reservation, 'reservedTokens' | 'outputTokens'>,
  target: Target,
  features: Features,
): boolean {
  return reservedTokens === outputTokens && !reasonsBesideLimit(target) && !mayExtendPrompt(target, features)
}

/** The maximum provider cost of a request's web searches at a target, in pico-dollars. */
function searchPico(target: Target, features: Features): bigint {
  const { price } = target.deployment
  const { max } = webSearchesAt(target, features) ?? { max: 0 }
  return price.unit === 'token' ? webSearchCost(price, max) : 0n
}

/** What a request is estimated to use at any target. */
export type ExpectedUse = {
  promptTokens: number
  /** Output tokens of one choice, and of all. */
  choiceTokens: number
  outputTokens: number
  imageTokens: number
  /** Nano-dollars charged per pico-dollar of the provider. */
  nanoPerPico: number
}

export function expectedUse(
  { promptTokensEstimate, maxTokens, choices, outputs }: Features,
  marginPpm: bigint,
): ExpectedUse {
  const choiceTokens = Math.min(maxTokens ?? usualOutputTokens, maxOutputTokens)
  return {
    promptTokens: promptTokensEstimate,
    choiceTokens,
    outputTokens: choiceTokens * choices,
    imageTokens: outputs.image ? imageTokens.outputEstimate * choices : 0,
    nanoPerPico: nanoPerPico(marginPpm),
  }
}

function nanoPerPico(marginPpm: bigint): number {
  return (1 + Number(marginPpm) / 1e6) / 1_000
}

/** The prices that costs at a target are estimated by; null where it has none by the token. */
export function priceStepsAt({ deployment: { price }, tier }: Target): PriceSteps | null {
  return price.unit === 'token' ? stepsOf(priceAt(price, tier)) : null
}

/**
 * The estimated cost of a request at a target, by its `prices`, in nano-dollars: for routing, never for billing. It is computed with
 * floating-point numbers, since `auto` does so for every target of the catalog.
 */
export function estimateNano(prices: PriceSteps | null, own: Target['own'], use: ExpectedUse): number {
  if (!prices) return 0
  const { above } = prices
  const rates = above && use.promptTokens > above.tokens ? above.estimate : prices.base.estimate
  const pico = use.promptTokens * rates.input + use.outputTokens * rates.output + use.imageTokens * rates.imageOutput
  return Math.round(pico * (own ? nanoPerPico(own.marginPpm) : use.nanoPerPico))
}

/** The kinds whose requests name a tier, and the members that do: Google's API takes both spellings. */
const tierFields: Partial<Record<DirectKind, readonly string[]>> = {
  chat: ['service_tier'],
  responses: ['service_tier'],
  generate_content: ['serviceTier', 'service_tier'],
}

/** The features of an interactive request, with the tier that it asks for. Delayed work has prices of its own, and no tier. */
export function withServiceTier(kind: DirectKind, body: object, features: Features): Features {
  const fields = tierFields[kind]
  if (!fields) return features
  let tier: ServiceTier | undefined
  for (const name of fields) {
    const value = (body as Record<string, unknown>)[name]
    if (value) tier ??= serviceTierOf(value)
  }
  return tier ? { ...features, tier } : features
}

/** Asserts that a key may ask for a request's tier. Throws 403. */
export function assertTierAllowed({ deniedTiers }: Pick<Policy, 'deniedTiers'>, { tier }: Features): void {
  if (!tier || !deniedTiers?.has(tier)) return
  const message = `This key may not use the service tier \`${tier}\`. Leave \`service_tier\` out.`
  throw new GatewayError('service_tier_not_allowed', message, { param: 'service_tier' })
}

/** A model at a provider as the target of a request: with the request's tier, if the provider has a price for it. */
export function targetOf(target: Target, { tier }: Features): Target {
  const { price } = target.deployment
  return tier && price.unit === 'token' && price.tiers?.[tier] ? { ...target, tier } : target
}

/**
 * The options that serve the tier of a request, if any does: a request is not moved to another tier by failover. If none does,
 * all of them: the tier is dropped.
 */
export function keepTier<O extends { target: Target }>(options: O[], { tier }: Features): O[] {
  if (!tier) return options
  const tiered = options.filter(({ target }) => target.tier)
  return tiered.length > 0 && tiered.length < options.length ? tiered : options
}

/** The members of a request that were dropped, without the tier where its target serves it. */
export function withoutServedTier(dropped: readonly string[], { tier }: Target): readonly string[] {
  return tier ? dropped.filter(name => name !== 'service_tier' && name !== 'serviceTier') : dropped
}

/**
 * A usage with the tier by which it is billed: what the answer or its header states, as providers serve at the standard tier what
 * exceeds another one; else the tier that was asked for. A third tier was not reserved: it counts as standard, and is noted.
 */
export function atServedTier(usage: Usage, { tier: asked }: Target, header?: Usage['service_tier']): Usage {
  const { service_tier: stated = header, unpriced = [] } = usage
  if (stated === 'standard' || (stated === undefined && asked === undefined)) return usage
  if (stated === undefined || stated === asked) return { ...usage, service_tier: asked! }
  const standard: Usage = { ...usage, service_tier: 'standard' }
  return stated === 'priority' ? { ...standard, unpriced: [...unpriced, 'service_tier priority'] } : standard
}
