import { createHash } from 'node:crypto'
import { GatewayError } from '../base/errors.ts'
import { withMargin } from '../base/money.ts'
import { formatNames } from '../base/names.ts'
import { imageTokens } from '../catalog/image-tokens.ts'
import openRouterNames from '../catalog/openrouter-names.json' with { type: 'json' }
import { priceAt, tokenRates } from '../catalog/prices.ts'
import type { KeyProviderPreferences, ProviderPreferences } from '../catalog/provider-preferences.ts'
import { namesProvider, valueFor } from '../catalog/regions.ts'
import type { Price } from '../catalog/schema.ts'
import { collectsData, maxImageTokens, quantizationOf, retainsNothing } from '../catalog/traits.ts'
import type { Target } from '../providers/contract.ts'
import type { Figures } from '../providers/health.ts'
import type { Features } from './features.ts'
import { usual } from './score.ts'

/** The ranking of providers, and for `auto` of models. `score`: by quality, price and live figures. */
export type Sort = 'score' | 'price' | 'speed' | 'latency'

/** Whose preferences exclude a provider. */
export type Owner = 'key' | 'request'

/** Why preferences exclude a target: the member of `provider`, and the fact. */
export type Exclusion = { owner: Owner; member: string; why: string }

/** One object `provider`, as decisions read it. Names of providers are in their canonical form, and may be any beginning. */
type Restriction = {
  owner: Owner
  given: KeyProviderPreferences
  order: readonly string[] | null
  only: readonly string[] | null
  ignore: readonly string[] | null
  quantizations: ReadonlySet<string> | null
  weights: ReadonlyMap<string, number> | null
}

/**
 * The preferences of one decision. Each of the objects excludes targets by itself, so that a request can only tighten what its
 * key's policy allows; order and ranking are those of the request, else of the policy.
 */
export type Preferences = {
  restrictions: readonly Restriction[]
  order: readonly string[] | null
  sort: Sort | null
  /** Whether the providers of all models of the request are ranked together. */
  joinsModels: boolean
  /** Who wants only providers that take every parameter of the request; null = nobody. */
  requiresParameters: Owner | null
  /** False when only one provider of each model may be tried. */
  fallsBack: boolean
  /** False when `auto` may try one target only. */
  autoFallsBack: boolean
  /** The shares of providers by their canonical names, of the key's policy; null = none. */
  weights: ReadonlyMap<string, number> | null
  /** Thresholds; targets beyond them are tried last. Null = none. */
  maxFirstByteMs: number | null
  minTokensPerSecond: number | null
}

/** What is known of a request when its preferences are applied; `null` of a request for media. */
type PricedRequest = { features: Features | null; marginPpm: bigint }

/**
 * The canonical form of a provider's name: OpenRouter writes them as `Amazon Bedrock`, `amazon-bedrock`, `openai` or
 * `amazon-bedrock/us-east-1`.
 */
function canonicalName(name: string): string {
  const [family = '', ...rest] = name
    .toLowerCase()
    .replace(/[\s._-]+/g, '')
    .split('/')
  return [(openRouterNames as Record<string, string>)[family] ?? family, ...rest].join('/')
}

const ofPolicies = new WeakMap<ProviderPreferences, Restriction>()

/** The preferences of a request under a key's policy; null when neither has any. */
export function preferencesOf(
  policy: KeyProviderPreferences | null,
  request: ProviderPreferences | undefined,
): Preferences | null {
  if (!policy && !request) return null
  const restrictions: Restriction[] = []
  if (policy) {
    let restriction = ofPolicies.get(policy)
    if (!restriction) ofPolicies.set(policy, (restriction = restrictionOf('key', policy)))
    restrictions.push(restriction)
  }
  if (request) restrictions.push(restrictionOf('request', request))
  const given = restrictions.map(one => one.given)
  const sort = request?.sort ?? policy?.sort
  return {
    restrictions,
    order: restrictions.findLast(({ order }) => order)?.order ?? null,
    sort: sortOf(sort),
    joinsModels: typeof sort === 'object' && sort.partition === 'none',
    requiresParameters: restrictions.find(one => one.given.require_parameters)?.owner ?? null,
    fallsBack: !given.some(one => one.allow_fallbacks === false && !one.order),
    autoFallsBack: !given.some(one => one.allow_fallbacks === false),
    weights: restrictions[0]!.weights,
    maxFirstByteMs: smallest(given.flatMap(one => thresholdsOf(one.preferred_max_latency)).map(s => s * 1_000)),
    minTokensPerSecond: largest(given.flatMap(one => thresholdsOf(one.preferred_min_throughput))),
  }
}

function restrictionOf(owner: Owner, given: KeyProviderPreferences): Restriction {
  const { order, only, ignore, quantizations, weights } = given
  return {
    owner,
    given,
    order: order?.map(canonicalName) ?? null,
    only: only?.map(canonicalName) ?? null,
    ignore: ignore?.map(canonicalName) ?? null,
    quantizations: quantizations ? new Set(quantizations) : null,
    weights: weights ? new Map(Object.entries(weights).map(([name, weight]) => [canonicalName(name), weight])) : null,
  }
}

/** `exacto` is the gateway's own order. */
function sortOf(sort: ProviderPreferences['sort']): Sort | null {
  const by = typeof sort === 'object' ? sort.by : sort
  if (by == null) return null
  return by === 'price' ? 'price' : by === 'throughput' ? 'speed' : by === 'latency' ? 'latency' : 'score'
}

type Threshold = NonNullable<ProviderPreferences['preferred_max_latency']>

/** Means are known, not percentiles: they stand for each of these. */
function thresholdsOf(threshold: Threshold | undefined): number[] {
  if (typeof threshold === 'number') return [threshold]
  return Object.values(threshold ?? {}).filter(value => value != null)
}

const smallest = (values: number[]) => (values.length > 0 ? Math.min(...values) : null)
const largest = (values: number[]) => (values.length > 0 ? Math.max(...values) : null)

/** The place of a provider in the order of the preferences; null for one that is not in it. */
export function placeOf({ order }: Preferences, name: string): number | null {
  if (!order) return null
  const provider = canonicalName(name)
  const place = order.findIndex(one => namesProvider(one, provider))
  return place < 0 ? null : place
}

/** Whether a target misses a threshold of the preferences; unknown figures count as usual ones. */
export function missesThreshold(
  { maxFirstByteMs, minTokensPerSecond }: Preferences,
  { firstByteMs, tokensPerSecond }: Figures,
): boolean {
  if (maxFirstByteMs !== null && (firstByteMs ?? usual.firstByteMs) > maxFirstByteMs) return true
  return minTokensPerSecond !== null && (tokensPerSecond ?? usual.tokensPerSecond) < minTokensPerSecond
}

/** A provider that was drawn by weight, and its share in percent of those that could be drawn. */
export type Arm = { provider: string; percent: number }

/**
 * Draws a provider by weight, the same one for the same seed. Each has its own number of the seed (weighted rendezvous
 * hashing), so when one cannot be drawn, only its requests move. Null when none has a weight.
 */
export function drawArm(names: readonly string[], weights: ReadonlyMap<string, number>, seed: string): Arm | null {
  const keys = names.map(provider => valueFor(canonicalName(provider), name => (weights.has(name) ? name : undefined)))
  const choices = names.flatMap((name, index) => {
    const key = keys[index]
    // The regions of a cloud share the weight of its name.
    return key === undefined ? [] : { name, weight: weights.get(key)! / keys.filter(one => one === key).length }
  })
  const drawn = drawWeighted(choices, seed)
  return drawn && { provider: drawn.name, percent: drawn.percent }
}

/** Draws one of several names by weight, as `drawArm` does. */
export function drawWeighted(
  choices: readonly { name: string; weight: number }[],
  seed: string,
): { name: string; percent: number } | null {
  let drawn: { name: string; weight: number; distance: number } | null = null
  let total = 0
  for (const { name, weight } of choices) {
    if (weight === 0) continue
    total += weight
    const distance = -Math.log(fractionOf(`${seed}\n${name}`)) / weight
    if (!drawn || distance < drawn.distance) drawn = { name, weight, distance }
  }
  return drawn && { name: drawn.name, percent: Math.round((drawn.weight / total) * 10_000) / 100 }
}

const hashBytes = 6

/** A number above 0 and up to 1 that is determined by a text and evenly distributed. */
function fractionOf(text: string): number {
  return (createHash('sha256').update(text).digest().readUIntBE(0, hashBytes) + 1) / 2 ** (8 * hashBytes)
}

/** Why preferences exclude a target, the key's first; null when they do not. Facts that are not known exclude it. */
export function exclusionOf({ restrictions }: Preferences, target: Target, request: PricedRequest): Exclusion | null {
  for (const restriction of restrictions) {
    const found = excludedBy(restriction, target, request)
    if (found) return { owner: restriction.owner, member: found[0], why: found[1] }
  }
  return null
}

/** The targets that preferences leave; those that they exclude are added to `excluded`, by provider. */
export function permittedBy(
  preferences: Preferences | null,
  targets: Target[],
  request: PricedRequest,
  excluded: Map<string, Exclusion>,
): Target[] {
  if (!preferences) return targets
  return targets.filter(target => {
    const exclusion = exclusionOf(preferences, target, request)
    if (exclusion) excluded.set(target.provider.name, exclusion)
    return exclusion === null
  })
}

/** An exclusion in words, as `/v1/route` shows it. */
export function exclusionText({ owner, member, why }: Exclusion): string {
  const whose = owner === 'key' ? 'the key’s' : 'the request’s'
  return isByName(member)
    ? `excluded by ${whose} provider preferences`
    : `excluded by ${whose} provider preferences (${member}): ${why}`
}

/** Whether a member of the preferences names providers, rather than facts. */
export function isByName(member: string): boolean {
  return member === 'only' || member === 'ignore' || member === 'order'
}

type Found = [member: string, why: string]

function excludedBy(restriction: Restriction, target: Target, request: PricedRequest): Found | null {
  const { given, order, only, ignore, quantizations } = restriction
  const name = canonicalName(target.provider.name)
  const isIn = (list: readonly string[]) => list.some(one => namesProvider(one, name))
  if (only && !isIn(only)) return ['only', 'not among them']
  if (ignore && isIn(ignore)) return ['ignore', 'among them']
  if (given.allow_fallbacks === false && order && !isIn(order)) return ['order', 'not among them']
  if (given.data_collection === 'deny') {
    const collects = collectsData(target)
    if (collects !== false)
      return ['data_collection', collects ? 'it may keep requests or train on them' : 'its terms are not known']
  }
  if (given.zdr) {
    const nothing = retainsNothing(target)
    if (!nothing) return ['zdr', nothing === false ? 'it retains requests for a time' : 'its retention is not known']
  }
  if (given.enforce_distillable_text && !target.model.distillable)
    return [
      'enforce_distillable_text',
      target.model.distillable === false ? 'its maker forbids it' : 'what its maker allows is not known',
    ]
  if (quantizations) {
    const precision = quantizationOf(target)
    if (!quantizations.has(precision ?? 'unknown'))
      return ['quantizations', precision ? `its weights are ${precision}` : 'the precision of its weights is not known']
  }
  return given.max_price ? dearerThan(given.max_price, target, request) : null
}

type MaxPrice = NonNullable<ProviderPreferences['max_price']>

/** The first price of a target above its maximum, with the margin of this service. */
function dearerThan(max: MaxPrice, target: Target, request: PricedRequest): Found | null {
  const prices = comparedPrices(target, request)
  for (const member of ['prompt', 'completion', 'request', 'image', 'audio'] as const) {
    const limit = max[member]
    const usd = prices[member]
    if (limit === undefined || usd === undefined) continue
    if (usd === null) return [`max_price.${member}`, 'this price is not known']
    if (usd > Number(limit)) return [`max_price.${member}`, `it is $${usd}`]
  }
  return null
}

/** Prices in USD in the units of `max_price`: absent = nothing of the kind is charged, null = not known. */
type ComparedPrices = { [Member in keyof MaxPrice]?: number | null }

function comparedPrices(target: Target, { features, ...priced }: PricedRequest): ComparedPrices {
  const marginPpm = target.own?.marginPpm ?? priced.marginPpm
  const { price } = target.deployment
  if (price.unit !== 'token') return unitPrices(price, marginPpm)
  const { input, output, audioInput, audioOutput, imageInput, imageOutput } = tokenRates(
    priceAt(price, target.tier),
    features?.maxPromptEstimate ?? 0,
  )
  const perMillion = (pico: bigint) => Number(withMargin(pico, marginPpm)) / 1e6
  const prices: ComparedPrices = { prompt: perMillion(input), completion: perMillion(output) }
  const { inputs, outputs } = features ?? {
    inputs: { image: false, audio: false },
    outputs: { image: true, audio: true },
  }
  const images: (number | null)[] = []
  if (inputs.image) {
    const tokens = maxImageTokens(target)
    images.push(tokens === null ? null : (tokens * perMillion(imageInput)) / 1e6)
  }
  if (outputs.image) images.push((imageTokens.outputBound * perMillion(imageOutput)) / 1e6)
  if (images.length > 0) prices.image = images.includes(null) ? null : Math.max(...(images as number[]))
  const sounds = [...(inputs.audio ? [audioInput] : []), ...(outputs.audio ? [audioOutput] : [])]
  if (sounds.length > 0) prices.audio = Math.max(...sounds.map(perMillion))
  return prices
}

/** The prices of media. Where they depend on options of the request, the highest counts. */
function unitPrices(price: Exclude<Price, { unit: 'token' }>, marginPpm: bigint): ComparedPrices {
  const usd = Number(price.usd) * (1 + Number(marginPpm) / 1e6)
  const charged = (options: Record<string, string> = {}) =>
    Object.values(options).map(one => Number(one) * (1 + Number(marginPpm) / 1e6))
  switch (price.unit) {
    case 'character':
      return { prompt: usd }
    case 'image':
      return { image: Math.max(usd, ...charged(price.by_size)) }
    case 'flat':
      return { request: Math.max(usd, ...charged(price.by_option)) }
    case 'credit':
      return { request: usd * price.max_credits }
    case 'minute':
      return { audio: charged(price.added_by_option).reduce((sum, one) => sum + one, usd) }
    case 'second':
    case 'page':
      return {}
  }
}

/**
 * The error of a request whose preferences exclude every provider that could serve it, by provider. A key that excludes them
 * all by itself is not allowed to use the model; otherwise the request can be changed.
 */
export function allExcludedError(all: readonly [provider: string, Exclusion][]): GatewayError {
  const isOfKey = all.every(([, { owner }]) => owner === 'key')
  const byMember = Map.groupBy(all, ([, { owner, member }]) => `${owner} ${member}`)
  const facts = [...byMember.values()].map(group => {
    const { owner, member, why } = group[0]![1]
    const names = formatNames(group.map(([name]) => name))
    return `${owner === 'key' ? 'the key’s ' : ''}\`provider.${member}\` excludes ${names}${isByName(member) ? '' : ` (${why})`}`
  })
  const whose = isOfKey ? 'The preferences in `provider` of this key’s policy' : 'The preferences in `provider`'
  const message = `${whose} exclude every provider of this request: ${facts.join('; ')}.`
  return isOfKey
    ? new GatewayError('model_not_allowed', message, { param: 'model' })
    : new GatewayError('invalid_request', message, { param: 'provider' })
}
