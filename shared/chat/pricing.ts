import type { Config } from '../base/config.ts'
import { nanoCeilFromPico, nanoFromPico, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import { maxTokenRates, tokenCost } from '../catalog/prices.ts'
import type { Deployment } from '../catalog/schema.ts'
import { reasonsBesideLimit } from '../catalog/traits.ts'
import type { Features } from '../kinds/features.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Target } from '../providers/contract.ts'
import type { Bound } from '../wallet/admission.ts'
import { promptTokensBound } from './prompt-bound.ts'

const million = 1_000_000n
/** Output a request is expected to have when nobody said, and the most it is expected to use of what it asked for. */
const usualOutputTokens = 512
const mostOutputTokens = 4_096
/** Reasoning that no limit bounds is reserved for so many tokens at a time. */
export const stretchTokens = 16_384
/** What an image of about a megapixel is counted as. */
const tokensPerImage = 1_290

/** Parts per million added to a provider's price: the margin or surcharge of the kind, less a discount, rounded up. */
export function marginOf(
  { marginPpm, embeddingsSurchargePpm }: Pick<Config, 'marginPpm' | 'embeddingsSurchargePpm'>,
  kind: DirectKind,
  discountPpm: bigint,
): bigint {
  const ownPpm = kind === 'embedding' ? embeddingsSurchargePpm : marginPpm
  return ((million + ownPpm) * (million - discountPpm) + million - 1n) / million - million
}

/**
 * What a finished call is charged, in nano-dollars: the provider's price plus margin, rounded once. What the provider says that
 * the call cost is the least of it, before margin and without discount.
 */
export function chargeNano(deployment: Deployment, usage: Usage, marginPpm: bigint): number {
  if (deployment.price.unit !== 'token') return 0
  const { price } = deployment
  const costPico = (usage.parts ?? [usage]).reduce((sum, part) => sum + tokenCost(price, part), 0n)
  const ownPico = withMargin(costPico, marginPpm)
  const statedPico = withMargin(BigInt(usage.provider_cost_nano ?? 0) * 1_000n, marginPpm > 0n ? marginPpm : 0n)
  return Number(nanoFromPico(ownPico > statedPico ? ownPico : statedPico))
}

function dearestRates({ deployment }: Target, { inputs, outputs, media }: Features, promptTokens: number) {
  const audioIn = inputs.audio || media.earlierSounds > 0
  const modalities = { audioIn, imageIn: inputs.image, audioOut: outputs.audio, imageOut: outputs.image }
  return deployment.price.unit === 'token'
    ? maxTokenRates(deployment.price, modalities, promptTokens)
    : { input: 0n, output: 0n }
}

/** The most that one output token of a request can cost at a target, over all its choices: pico-dollars with margin. */
export function maxPicoPerOutputToken(target: Target, features: Features, marginPpm: bigint): number {
  const { output } = dearestRates(target, features, promptTokensBound(features, target))
  return Number(withMargin(output * BigInt(features.choices), marginPpm))
}

/** The most a request can cost over all targets it may be sent to: what the admission reserves. */
export function boundOf(targets: readonly Target[], features: Features, marginPpm: bigint): Bound {
  let fixedNano = 0
  let picoPerOutputToken = 0
  let outputTokens = features.maxTokens ?? 0
  let stretchNano = 0
  for (const target of targets) {
    const promptTokens = promptTokensBound(features, target)
    const { input, output } = dearestRates(target, features, promptTokens)
    fixedNano = Math.max(fixedNano, Number(nanoCeilFromPico(withMargin(input * BigInt(promptTokens), marginPpm))))
    const pico = Number(withMargin(output * BigInt(features.choices), marginPpm))
    picoPerOutputToken = Math.max(picoPerOutputToken, pico)
    if (reasonsBesideLimit(target)) stretchNano = Math.max(stretchNano, Math.ceil((stretchTokens * pico) / 1_000))
    if (features.maxTokens === null) outputTokens = Math.max(outputTokens, target.model.max_output_tokens ?? 8_192)
  }
  // A chat template may add a token or two after the limit; better reserved than missing.
  fixedNano += stretchNano
  if (features.maxTokens !== 0) fixedNano += Math.ceil((2 * picoPerOutputToken) / 1000)
  const estimatedTokens =
    features.promptTokensEstimate + Math.min(features.maxTokens ?? usualOutputTokens, 100_000) * features.choices
  return { estimatedTokens, fixedNano, picoPerOutputToken, outputTokens, explicit: features.maxTokens !== null }
}

/** Output tokens each choice of a request will probably have. */
export function expectedOutputTokens({ maxTokens }: Features): number {
  return Math.min(maxTokens ?? usualOutputTokens, mostOutputTokens)
}

/** What a request will probably cost at a target, in nano-dollars: for routing, never for billing. */
export function estimateNano(target: Target, features: Features, marginPpm: bigint): number {
  const prompt = features.promptTokensEstimate
  const text = expectedOutputTokens(features) * features.choices
  const images = features.outputs.image ? tokensPerImage * features.choices : 0
  const usage = {
    prompt_tokens: prompt,
    completion_tokens: text + images,
    total_tokens: prompt + text + images,
    completion_tokens_details: { image_tokens: images },
  }
  return chargeNano(target.deployment, usage, marginPpm)
}
