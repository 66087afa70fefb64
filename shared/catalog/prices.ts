import { type PicoPerUnit, picoPerUnit, usdPerUnit, withMargin } from '../base/money.ts'
import { type ServiceTier, serviceTiers } from '../base/service-tier.ts'
import type { Usage } from '../base/usage.ts'
import type { Price } from './schema.ts'

export type TokenPrice = Extract<Price, { unit: 'token' }>
/** The prices of the tokens of one service tier. */
type TierPrice = Omit<TokenPrice, 'unit' | 'tiers' | 'web_search'>
type TokenPrices = Omit<TierPrice, 'above'>

/** The price of one token of each class, in pico-dollars; classes without a price of their own use their fallback's. */
type Rates = {
  input: PicoPerUnit
  cachedInput: PicoPerUnit
  cacheWrite: PicoPerUnit
  cacheWrite1h: PicoPerUnit
  audioInput: PicoPerUnit
  cachedAudioInput: PicoPerUnit
  imageInput: PicoPerUnit
  output: PicoPerUnit
  audioOutput: PicoPerUnit
  imageOutput: PicoPerUnit
}

/** Rates as floating-point numbers, for estimates: what a decision reads of every price in the catalog. */
type EstimateRates = { input: number; output: number; imageOutput: number }

type Step = { rates: Rates; estimate: EstimateRates }
/** By the length of the prompt. */
export type PriceSteps = { base: Step; above: (Step & { tokens: number }) | null }

/** Caches parsed decimal strings per price: this runs several times on every call. */
const stepsByPrice = new WeakMap<TierPrice, PriceSteps>()

function ratesOf(prices: TokenPrices): Rates {
  const perMillion = (usd: string) => picoPerUnit(usd, 1_000_000)
  const input = perMillion(prices.input)
  const output = perMillion(prices.output)
  const or = (usd: string | undefined, fallback: PicoPerUnit) => (usd === undefined ? fallback : perMillion(usd))
  const audioInput = or(prices.audio_input, input)
  const cacheWrite = or(prices.cache_write, input)
  return {
    input,
    cachedInput: or(prices.cached_input, input),
    cacheWrite,
    cacheWrite1h: or(prices.cache_write_1h, cacheWrite),
    audioInput,
    // Cached audio without a listed price gets no discount: the text discount would be below cost.
    cachedAudioInput: or(prices.cached_audio_input, audioInput),
    imageInput: or(prices.image_input, input),
    output,
    audioOutput: or(prices.audio_output, output),
    imageOutput: or(prices.image_output, output),
  }
}

function stepOf(prices: TokenPrices): Step {
  const rates = ratesOf(prices)
  const { input, output, imageOutput } = rates
  return { rates, estimate: { input: Number(input), output: Number(output), imageOutput: Number(imageOutput) } }
}

/** The parsed prices of a tier. */
export function stepsOf(price: TierPrice): PriceSteps {
  let steps = stepsByPrice.get(price)
  if (!steps) {
    const above = price.above && { tokens: price.above.tokens, ...stepOf(price.above) }
    steps = { base: stepOf(price), above: above ?? null }
    stepsByPrice.set(price, steps)
  }
  return steps
}

/** The prices of a tier; those of the standard one where it has none. */
export function priceAt(price: TokenPrice, tier: ServiceTier | 'standard' | undefined): TierPrice {
  return (tier && tier !== 'standard' && price.tiers?.[tier]) || price
}

/**
 * The rates of a whole call with `promptTokens` prompt tokens: those of the upper step if the prompt exceeds its
 * threshold.
 */
export function tokenRates(price: TierPrice, promptTokens: number): Rates {
  return stepFor(price, promptTokens).rates
}

function stepFor(price: TierPrice, promptTokens: number): Step {
  const { base, above } = stepsOf(price)
  return above && promptTokens > above.tokens ? above : base
}

/**
 * The provider cost of a call, in pico-dollars before margin. Every token is counted once: each class takes its tokens
 * from the remaining ones, in the order cached, cache-write, audio, image, and the rest is text. (A cached image or
 * audio token is reported both as cached and as its modality.) Reasoning tokens are ordinary output.
 */
export function tokenCost(price: TierPrice, usage: Usage): bigint {
  const rates = tokenRates(price, usage.prompt_tokens)
  const cost = new TokenSplit(usage.prompt_tokens)
  const input = usage.prompt_tokens_details
  if (input) {
    const cachedAudio = input.cached_audio_tokens ?? 0
    cost.take(cachedAudio, rates.cachedAudioInput)
    cost.take((input.cached_tokens ?? 0) - cachedAudio, rates.cachedInput)
    const writtenFor1h = Math.min(input.cache_write_1h_tokens ?? 0, input.cache_write_tokens ?? 0)
    cost.take(writtenFor1h, rates.cacheWrite1h)
    cost.take((input.cache_write_tokens ?? 0) - writtenFor1h, rates.cacheWrite)
    cost.take((input.audio_tokens ?? 0) - cachedAudio, rates.audioInput)
    cost.take(input.image_tokens ?? 0, rates.imageInput)
  }
  cost.takeRest(rates.input, usage.completion_tokens)
  const output = usage.completion_tokens_details
  if (output) {
    cost.take(output.audio_tokens ?? 0, rates.audioOutput)
    cost.take(output.image_tokens ?? 0, rates.imageOutput)
  }
  cost.takeRest(rates.output, 0)
  return cost.pico
}

/** The provider cost of searches of the web, in pico-dollars before margin. */
export function webSearchCost({ web_search }: TokenPrice, searches: number): bigint {
  return web_search === undefined || searches === 0 ? 0n : picoPerUnit(web_search) * BigInt(searches)
}

/** The provider cost of a duration, in pico-dollars before margin: counted in milliseconds, rounded up. */
export function lengthCost(
  { unit, usd }: Pick<Extract<Price, { unit: 'second' | 'minute' }>, 'unit' | 'usd'>,
  ms: bigint,
): bigint {
  const msPerUnit = unit === 'second' ? 1_000n : 60_000n
  return (picoPerUnit(usd) * ms + msPerUnit - 1n) / msPerUnit
}

/** Sums the cost over token classes, each taking its tokens from the remaining ones. */
class TokenSplit {
  pico = 0n
  #left: number

  constructor(tokens: number) {
    this.#left = Math.max(0, tokens)
  }

  take(tokens: number, rate: PicoPerUnit): void {
    const taken = Math.min(this.#left, tokens)
    if (taken <= 0) return
    this.#left -= taken
    this.pico += BigInt(taken) * rate
  }

  /** Prices the remaining tokens, then starts with `next` tokens of the other side. */
  takeRest(rate: PicoPerUnit, next: number): void {
    this.take(this.#left, rate)
    this.#left = Math.max(0, next)
  }
}

/**
 * The classes beside text that a call can use. `cache1h`: whether it may write to a cache that lives for one hour; called only
 * where such writes cost more.
 */
type UsedClasses = {
  audioIn?: boolean
  imageIn?: boolean
  audioOut?: boolean
  imageOut?: boolean
  cache1h?: () => boolean
}

/** Per prompt token and per completion token. */
type MaxRates = { input: PicoPerUnit; output: PicoPerUnit }

/**
 * The maximum rates of a call, for reservations: pico-dollars per prompt token and per completion token, over all
 * classes in use and both steps. `promptTokens`, an upper bound of the prompt, makes the result tighter for short
 * prompts.
 */
export function maxTokenRates(
  price: TierPrice,
  used: UsedClasses = {},
  promptTokens = Number.POSITIVE_INFINITY,
): MaxRates {
  const { base, above } = stepsOf(price)
  const lower = maxRatesOf(base.rates, used)
  if (!above || promptTokens <= above.tokens) return lower
  return largerRates(lower, maxRatesOf(above.rates, used))
}

/** The larger rate of each side. */
export function largerRates(a: MaxRates, b: MaxRates): MaxRates {
  return { input: larger(a.input, b.input), output: larger(a.output, b.output) }
}

/** The maximum rates over the classes in use. Every request computes them for each of its targets. */
function maxRatesOf(rates: Rates, used: UsedClasses): MaxRates {
  let input = larger(larger(rates.input, rates.cachedInput), rates.cacheWrite)
  let { output } = rates
  if (rates.cacheWrite1h > input && used.cache1h?.()) input = rates.cacheWrite1h
  if (used.audioIn) input = larger(larger(input, rates.audioInput), rates.cachedAudioInput)
  if (used.imageIn) input = larger(input, rates.imageInput)
  if (used.audioOut) output = larger(output, rates.audioOutput)
  if (used.imageOut) output = larger(output, rates.imageOutput)
  return { input, output }
}

function larger(a: PicoPerUnit, b: PicoPerUnit): PicoPerUnit {
  return a > b ? a : b
}

const tokenKeys = {
  prompt: 'input',
  completion: 'output',
  input_cache_read: 'cached_input',
  input_cache_write: 'cache_write',
  input_cache_write_1h: 'cache_write_1h',
  audio: 'audio_input',
  input_audio_cache: 'cached_audio_input',
  image: 'image_input',
  audio_output: 'audio_output',
  image_output: 'image_output',
} as const satisfies Record<string, keyof TokenPrices>

const unitKeys = {
  character: 'per_character',
  image: 'per_image',
  second: 'per_second',
  minute: 'per_minute',
  page: 'per_page',
  flat: 'per_request',
  credit: 'per_credit',
} as const

/** Separate prices by resolution, size or option. */
function variantsOf(price: Exclude<Price, { unit: 'token' }>): Record<string, string> {
  if (price.unit === 'second') return price.by_resolution ?? {}
  if (price.unit === 'image') return price.by_size ?? {}
  if (price.unit === 'minute') return price.added_by_option ?? {}
  if (price.unit === 'page') return price.annotated === undefined ? {} : { annotated: price.annotated }
  return price.unit === 'flat' ? (price.by_option ?? {}) : {}
}

/**
 * The prices charged to clients, for `GET /v1/models`: decimal strings in USD per token or other unit, margin included.
 * Token prices are those of short prompts; only classes with a price of their own are listed. Prices by resolution,
 * size, option or service tier have it as a suffix of their name, e.g. `per_second_1080p` or `prompt_flex`; an option of
 * `per_minute` is a surcharge. A page that is read and annotated costs `per_page` and `per_page_annotated`.
 * `minimum_per_request` is what the shortest sound costs.
 */
export function publicPricing(price: Price, marginPpm: bigint): Record<string, string> {
  const charged = (usd: string, per: 1 | 1_000_000) => usdPerUnit(withMargin(picoPerUnit(usd, per), marginPpm))
  if (price.unit !== 'token') {
    const key = unitKeys[price.unit]
    const variants = Object.entries(variantsOf(price)).map(([name, usd]) => [`${key}_${name}`, charged(usd, 1)])
    return {
      [key]: charged(price.usd, price.unit === 'character' ? 1_000_000 : 1),
      ...Object.fromEntries(variants),
      ...minimumOf(price, marginPpm),
    }
  }
  const listed: Record<string, string> = {}
  const list = (prices: TokenPrices, suffix: string) => {
    for (const [key, field] of Object.entries(tokenKeys)) {
      const usd = prices[field]
      if (usd !== undefined) listed[`${key}${suffix}`] = charged(usd, 1_000_000)
    }
  }
  list(price, '')
  for (const tier of serviceTiers) if (price.tiers?.[tier]) list(price.tiers[tier], `_${tier}`)
  if (price.web_search !== undefined) listed.web_search = charged(price.web_search, 1)
  return listed
}

function minimumOf(price: Price, marginPpm: bigint): Record<string, string> {
  if (price.unit !== 'minute' || price.min_seconds === undefined) return {}
  const pico = lengthCost(price, BigInt(price.min_seconds) * 1_000n)
  return { minimum_per_request: usdPerUnit(withMargin(pico, marginPpm)) }
}
