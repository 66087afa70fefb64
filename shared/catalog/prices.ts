import { type PicoPerUnit, picoPerUnit, usdPerUnit, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import type { Price } from './schema.ts'

export type TokenPrice = Extract<Price, { unit: 'token' }>
type TokenPrices = Omit<TokenPrice, 'unit' | 'above'>

/** What one token of each class costs, in pico-dollars; classes the provider does not price apart have their fallback's rate. */
export type Rates = {
  input: PicoPerUnit
  cachedInput: PicoPerUnit
  cacheWrite: PicoPerUnit
  audioInput: PicoPerUnit
  cachedAudioInput: PicoPerUnit
  imageInput: PicoPerUnit
  output: PicoPerUnit
  audioOutput: PicoPerUnit
  imageOutput: PicoPerUnit
}

type Tiers = { base: Rates; above: { tokens: number; rates: Rates } | null }

/** Decimal strings are parsed once per price: this runs several times on every call. */
const parsed = new WeakMap<TokenPrice, Tiers>()

function ratesOf(prices: TokenPrices): Rates {
  const perMillion = (usd: string) => picoPerUnit(usd, 1_000_000)
  const input = perMillion(prices.input)
  const output = perMillion(prices.output)
  const or = (usd: string | undefined, fallback: PicoPerUnit) => (usd === undefined ? fallback : perMillion(usd))
  const audioInput = or(prices.audio_input, input)
  return {
    input,
    cachedInput: or(prices.cached_input, input),
    cacheWrite: or(prices.cache_write, input),
    audioInput,
    // Without a price of its own cached audio gets no discount: the text discount would be below cost.
    cachedAudioInput: or(prices.cached_audio_input, audioInput),
    imageInput: or(prices.image_input, input),
    output,
    audioOutput: or(prices.audio_output, output),
    imageOutput: or(prices.image_output, output),
  }
}

function tiersOf(price: TokenPrice): Tiers {
  let tiers = parsed.get(price)
  if (!tiers) {
    const above = price.above && { tokens: price.above.tokens, rates: ratesOf(price.above) }
    tiers = { base: ratesOf(price), above: above ?? null }
    parsed.set(price, tiers)
  }
  return tiers
}

/** The rates of a whole call whose prompt has `promptTokens` tokens: the upper tier's once the prompt is longer than its bound. */
export function tokenRates(price: TokenPrice, promptTokens: number): Rates {
  const { base, above } = tiersOf(price)
  return above && promptTokens > above.tokens ? above.rates : base
}

/**
 * What a call costs us, in pico-dollars before margin. Every token is counted once: each class takes its tokens from
 * those that are left, in the order cached, cache-write, audio, image, and what remains is text. (A cached image or
 * audio token is reported as cached and as its modality.) Reasoning tokens are ordinary output.
 */
export function tokenCost(price: TokenPrice, usage: Usage): bigint {
  const rates = tokenRates(price, usage.prompt_tokens)
  const cost = new Split(usage.prompt_tokens)
  const input = usage.prompt_tokens_details
  if (input) {
    const cachedAudio = input.cached_audio_tokens ?? 0
    cost.take(cachedAudio, rates.cachedAudioInput)
    cost.take((input.cached_tokens ?? 0) - cachedAudio, rates.cachedInput)
    cost.take(input.cache_write_tokens ?? 0, rates.cacheWrite)
    cost.take((input.audio_tokens ?? 0) - cachedAudio, rates.audioInput)
    cost.take(input.image_tokens ?? 0, rates.imageInput)
  }
  cost.rest(rates.input, usage.completion_tokens)
  const output = usage.completion_tokens_details
  if (output) {
    cost.take(output.audio_tokens ?? 0, rates.audioOutput)
    cost.take(output.image_tokens ?? 0, rates.imageOutput)
  }
  cost.rest(rates.output, 0)
  return cost.pico
}

/** What a length costs us, in pico-dollars before margin: rounded up, and to the millisecond. */
export function lengthCost(
  { unit, usd }: Pick<Extract<Price, { unit: 'second' | 'minute' }>, 'unit' | 'usd'>,
  ms: bigint,
): bigint {
  const msPerUnit = unit === 'second' ? 1_000n : 60_000n
  return (picoPerUnit(usd) * ms + msPerUnit - 1n) / msPerUnit
}

/** A sum over token classes, each taking its tokens from those that are left. */
class Split {
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

  /** Prices what is left, and goes on with the tokens of the next side. */
  rest(rate: PicoPerUnit, next: number): void {
    this.take(this.#left, rate)
    this.#left = Math.max(0, next)
  }
}

/** Which modalities beside text a call can use. */
export type Modalities = { audioIn?: boolean; imageIn?: boolean; audioOut?: boolean; imageOut?: boolean }

/**
 * The dearest rates a call can meet, for reservations: pico-dollars per prompt token and per completion token, over all
 * classes that are in play and over both tiers. A prompt known to be short is bounded more tightly by `promptTokens`,
 * the most it can have.
 */
export function maxTokenRates(
  price: TokenPrice,
  modalities: Modalities = {},
  promptTokens = Number.POSITIVE_INFINITY,
): { input: PicoPerUnit; output: PicoPerUnit } {
  const { base, above } = tiersOf(price)
  let input = 0n
  let output = 0n
  for (const rates of above && promptTokens > above.tokens ? [base, above.rates] : [base]) {
    input = max(input, rates.input, rates.cachedInput, rates.cacheWrite)
    output = max(output, rates.output)
    if (modalities.audioIn) input = max(input, rates.audioInput, rates.cachedAudioInput)
    if (modalities.imageIn) input = max(input, rates.imageInput)
    if (modalities.audioOut) output = max(output, rates.audioOutput)
    if (modalities.imageOut) output = max(output, rates.imageOutput)
  }
  return { input, output }
}

function max(...values: bigint[]): bigint {
  let largest = 0n
  for (const value of values) if (value > largest) largest = value
  return largest
}

const tokenKeys = {
  prompt: 'input',
  completion: 'output',
  input_cache_read: 'cached_input',
  input_cache_write: 'cache_write',
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
  flat: 'per_request',
  credit: 'per_credit',
} as const

/** Prices of their own by resolution, size or option. */
function variantsOf(price: Exclude<Price, { unit: 'token' }>): Record<string, string> {
  if (price.unit === 'second') return price.by_resolution ?? {}
  if (price.unit === 'image') return price.by_size ?? {}
  if (price.unit === 'minute') return price.added_by_option ?? {}
  return price.unit === 'flat' ? (price.by_option ?? {}) : {}
}

/**
 * What a client pays, for `GET /v1/models`: decimal strings in USD per token or other unit, margin included. Token prices
 * are those below the upper tier; only classes the provider prices apart are listed. What a resolution, size or option costs
 * has it at the end of its name, e.g. `per_second_1080p`; an option of `per_minute` is added to it.
 */
export function publicPricing(price: Price, marginPpm: bigint): Record<string, string> {
  const charged = (usd: string, per: 1 | 1_000_000) => usdPerUnit(withMargin(picoPerUnit(usd, per), marginPpm))
  if (price.unit !== 'token') {
    const key = unitKeys[price.unit]
    const variants = Object.entries(variantsOf(price)).map(([name, usd]) => [`${key}_${name}`, charged(usd, 1)])
    return {
      [key]: charged(price.usd, price.unit === 'character' ? 1_000_000 : 1),
      ...Object.fromEntries(variants),
    }
  }
  const listed: Record<string, string> = {}
  for (const [key, field] of Object.entries(tokenKeys)) {
    const usd = price[field]
    if (usd !== undefined) listed[key] = charged(usd, 1_000_000)
  }
  return listed
}
