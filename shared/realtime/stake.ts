import { nanoCeilFromPico, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { maxTokenRates } from '../catalog/prices.ts'
import type { Price } from '../catalog/schema.ts'
import { paidByTime, usePico } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'
import type { Content, RealtimeUse, Work } from '../providers/realtime-contract.ts'
import { priceOf } from './prices.ts'

/**
 * Output that may have been made and has not passed: thoughts, what is on its way, what waits for a slow client. So much at once, and more
 * with every second in which nothing of the answer passes. Spoken answers have 20 tokens a second and are made some times faster.
 */
const unseen = { tokens: 200, tokensPerSecond: 200 }
/** The most output of a model that the catalog does not tell of. */
const maxUnknownOutputTokens = 131_072
/** Bytes of text a token: the least in a prompt, the least in the long run of what a model writes, and what is likely. */
const minBytes = { prompt: 1, output: 2 }
const usualBytes = { prompt: 4, output: 4 }

export type StakeOptions = { target: Target; catalog: Catalog; marginPpm: bigint }

/** What the work under way in one session may cost that is not reported yet. */
export class Stake {
  readonly #options: StakeOptions
  readonly #prices = new Map<string, Price>()
  /** How much of a work's output had passed, and since when no more of it. */
  readonly #seen = new WeakMap<Work, { amount: number; atMs: number }>()

  constructor(options: StakeOptions) {
    this.#options = options
  }

  /** The price of the session's model, or of another one that it draws in. */
  price(upstreamModel: string | null): Price {
    const { catalog, target } = this.#options
    if (upstreamModel === null) return target.deployment.price
    let price = this.#prices.get(upstreamModel)
    if (!price) {
      price = priceOf(catalog, target, upstreamModel)
      this.#prices.set(upstreamModel, price)
    }
    return price
  }

  /** Where the session is paid by time, that is all that its own model costs. */
  isFree({ upstreamModel }: Pick<Work, 'upstreamModel'>): boolean {
    return upstreamModel === null && paidByTime(this.price(null))
  }

  /** The most that works may have cost by now, in nano-dollars with margin, rounded up. */
  nano(works: readonly Work[], nowMs: number): number {
    let pico = 0n
    for (const work of works) if (!this.isFree(work)) pico += this.#pico(work, nowMs)
    return pico === 0n ? 0 : Number(nanoCeilFromPico(withMargin(pico, this.#options.marginPpm)))
  }

  /** What a work is charged that its provider never reported: its prompt and what passed of its output, as they are likely to be. */
  estimate(work: Work): RealtimeUse {
    return { upstreamModel: work.upstreamModel, usage: this.#usage(work, usualBytes) }
  }

  #pico(work: Work, nowMs: number): bigint {
    const price = this.price(work.upstreamModel)
    const usage = this.#usage(work, minBytes)
    const seenPico = usePico(price, { usage })
    if (price.unit !== 'token') return seenPico
    const { output } = maxTokenRates(price, { audioOut: work.speaks }, usage.prompt_tokens)
    return seenPico + output * BigInt(this.#unseenTokens(work, usage.completion_tokens, nowMs))
  }

  #unseenTokens(work: Work, seenTokens: number, nowMs: number): number {
    const amount = work.output.textBytes + work.output.textTokens + work.output.audioTokens
    let seen = this.#seen.get(work)
    // A clock that was set back counts from now on.
    if (!seen || seen.amount !== amount || nowMs < seen.atMs) {
      seen = { amount, atMs: nowMs }
      this.#seen.set(work, seen)
    }
    const possible = unseen.tokens + Math.ceil(((nowMs - seen.atMs) * unseen.tokensPerSecond) / 1_000)
    return Math.max(0, Math.min(possible, this.#maxOutputTokens(work) - seenTokens))
  }

  #maxOutputTokens({ upstreamModel, maxOutputTokens }: Work): number {
    const { max_output_tokens: own } = this.#options.target.model
    return maxOutputTokens ?? (upstreamModel === null ? own : null) ?? maxUnknownOutputTokens
  }

  #usage({ upstreamModel, prompt, output }: Work, bytesPerToken: typeof minBytes): Usage {
    const { context_length: contextTokens } = this.#options.target.model
    const input = tokensOf(prompt, bytesPerToken.prompt)
    // No prompt is longer than the model takes: the dearest of it counts.
    let left = upstreamModel === null ? (contextTokens ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY
    const take = (tokens: number) => {
      const taken = Math.min(tokens, left)
      left -= taken
      return taken
    }
    const audio = take(input.audio)
    const images = take(input.images)
    const promptTokens = audio + images + take(input.text)
    const out = tokensOf(output, bytesPerToken.output)
    const completionTokens = out.text + out.audio + out.images
    return {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
      prompt_tokens_details: { audio_tokens: audio, image_tokens: images },
      completion_tokens_details: { audio_tokens: out.audio, image_tokens: out.images },
    }
  }
}

function tokensOf({ textTokens, audioTokens, imageTokens, textBytes }: Content, bytesPerToken: number) {
  return {
    text: Math.ceil(textTokens + textBytes / bytesPerToken),
    audio: Math.ceil(audioTokens),
    images: Math.ceil(imageTokens),
  }
}
