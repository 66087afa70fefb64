import { nanoCeilFromPico, withMargin } from '../base/money.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { Usage } from '../base/usage.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { maxTokenRates } from '../catalog/prices.ts'
import type { Price } from '../catalog/schema.ts'
import { isPricedByTime, usageCostPico } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'
import type { Content, PendingWork } from '../providers/realtime-contract.ts'
import { priceOf } from './prices.ts'

/**
 * Output that may exist but has not passed: reasoning, data in transit, data buffered for a slow client. A fixed
 * amount, growing with every second without output of the response. Spoken answers have 20 tokens per second and are
 * generated several times faster.
 */
const unseenOutput = { tokens: 200, tokensPerSecond: 200 }
/** Maximum output of a model without a limit in the catalog. */
const maxUnknownOutputTokens = 131_072
/** Bytes of text per token: the minimum in a prompt, the minimum in long model output, and the usual values. */
const minBytes = { prompt: 1, output: 2 }
const usualBytes = { prompt: 4, output: 4 }

type UnreportedCostOptions = { target: Target; catalog: Catalog; marginPpm: bigint }

/** The possible cost of a session's work in progress that the provider has not reported yet. */
export class UnreportedCost {
  readonly #options: UnreportedCostOptions
  readonly #prices = new Map<string, Price>()
  /** The output of a work so far, and the time of its last progress. */
  readonly #progress = new WeakMap<PendingWork, { amount: number; atMs: MonotonicMs }>()

  constructor(options: UnreportedCostOptions) {
    this.#options = options
  }

  /** The price of the session's model, or of another model that it uses. */
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

  /** If the session is paid by time, its own model costs nothing else. */
  isFree({ upstreamModel }: Pick<PendingWork, 'upstreamModel'>): boolean {
    return upstreamModel === null && isPricedByTime(this.price(null))
  }

  /** The maximum cost of works so far, in nano-dollars with margin, rounded up. */
  nano(works: readonly PendingWork[], nowMs: MonotonicMs): number {
    let pico = 0n
    for (const work of works) if (!this.isFree(work)) pico += this.#pico(work, nowMs)
    return pico === 0n ? 0 : Number(nanoCeilFromPico(withMargin(pico, this.#options.marginPpm)))
  }

  /** The charge of work that the provider never reported: its estimated prompt and its delivered output. */
  estimate(work: PendingWork): { upstreamModel: string | null; usage: Usage } {
    return { upstreamModel: work.upstreamModel, usage: this.#usage(work, usualBytes) }
  }

  #pico(work: PendingWork, nowMs: MonotonicMs): bigint {
    const price = this.price(work.upstreamModel)
    const usage = this.#usage(work, minBytes)
    const seenPico = usageCostPico(price, { usage })
    if (price.unit !== 'token') return seenPico
    const { output } = maxTokenRates(price, { audioOut: work.hasAudioOutput }, usage.prompt_tokens)
    return seenPico + output * BigInt(this.#unseenTokens(work, usage.completion_tokens, nowMs))
  }

  #unseenTokens(work: PendingWork, seenTokens: number, nowMs: MonotonicMs): number {
    const amount = work.output.textBytes + work.output.textTokens + work.output.audioTokens
    let progress = this.#progress.get(work)
    if (!progress || progress.amount !== amount) {
      progress = { amount, atMs: nowMs }
      this.#progress.set(work, progress)
    }
    const possible =
      unseenOutput.tokens + Math.ceil((elapsedMs(progress.atMs, nowMs) * unseenOutput.tokensPerSecond) / 1_000)
    return Math.max(0, Math.min(possible, this.#maxOutputTokens(work) - seenTokens))
  }

  #maxOutputTokens({ upstreamModel, maxOutputTokens }: PendingWork): number {
    const { max_output_tokens: modelLimit } = this.#options.target.model
    return maxOutputTokens ?? (upstreamModel === null ? modelLimit : null) ?? maxUnknownOutputTokens
  }

  #usage({ upstreamModel, prompt, output }: PendingWork, bytesPerToken: typeof minBytes): Usage {
    const { context_length: contextTokens } = this.#options.target.model
    const input = tokensOf(prompt, bytesPerToken.prompt)
    // No prompt exceeds the model's context: its most expensive tokens count first.
    let left = upstreamModel === null ? (contextTokens ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY
    const take = (tokens: number) => {
      const taken = Math.min(tokens, left)
      left -= taken
      return taken
    }
    const audio = take(input.audio)
    const images = take(input.images)
    const promptTokens = audio + images + take(input.text)
    const completion = tokensOf(output, bytesPerToken.output)
    const completionTokens = completion.text + completion.audio + completion.images
    return {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
      prompt_tokens_details: { audio_tokens: audio, image_tokens: images },
      completion_tokens_details: { audio_tokens: completion.audio, image_tokens: completion.images },
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
