import type { Usage } from '../../../base/usage.ts'
import type { ImageInput, ImageOutput } from '../../../kinds/image.ts'
import { chooseOption, listOf, unsupported } from '../../../kinds/media.ts'
import type { Source, SyncAdapter, SyncCall } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'
import { finishReason, isBlocked, piecesOf, usageOf } from './answer.ts'
import { type AnswerPart, type Candidate, type Generated, readGenerated } from './wire.ts'

const firstByteMs = 180_000
const maxBytes = 64 * 1024 * 1024
/** A request holds at most 100 MB (blog.google, “Increased file size limits”): this many image bytes in base64. */
const maxInlineBytes = 72_000_000
const maxSeed = 2 ** 31 - 1
const maxSaidCharacters = 1_000
const takenTypes = new Set(['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif'])

/** The shorter side of each tier's square. */
const tiers: ReadonlyMap<number, string> = new Map([
  [512, '512'],
  [1024, '1K'],
  [2048, '2K'],
  [4096, '4K'],
])
/** The default of every model. */
const usualTier = '1K'

/** Gemini's image models (`generateContent`): one image per call, from text and references. */
export const image = {
  maxPieces: () => 1,
  async make(call, connection): Promise<ImageOutput> {
    const json = await requestOf(call)
    const path = `/v1beta/models/${call.target.deployment.upstream_model}:generateContent`
    const { signal } = call
    const answer = await connection.send({ method: 'POST', path, json, signal, firstByteMs, maxBytes })
    return imagesOf(readGenerated(answer.json))
  },
} satisfies SyncAdapter<'image'>

async function requestOf(call: SyncCall<'image'>): Promise<object> {
  const { input, sources } = call
  refuseUnsupported(call)
  const imageConfig = shapeOf(call)
  const references = await Promise.all(sourcesIn(sources, 'input_references').map(source => inline(source)))
  return {
    contents: [{ role: 'user', parts: [{ text: input.prompt }, ...references] }],
    generationConfig: {
      responseModalities: ['TEXT', 'IMAGE'],
      ...(imageConfig && { imageConfig }),
      ...(input.seed !== null && { seed: input.seed }),
    },
  }
}

async function inline(source: Source) {
  return { inlineData: { mimeType: source.contentType, data: await source.base64() } }
}

/** Rejects what Gemini cannot express. The model chooses the file format. */
function refuseUnsupported({ input, sources, target: { model } }: SyncCall<'image'>): void {
  const unsupportedFields: [boolean, param: string, what: string][] = [
    [input.quality !== null, 'quality', 'takes no `quality`'],
    [input.background === 'transparent', 'background', 'draws no transparent background'],
    [input.format !== null, 'output_format', 'takes no `output_format`'],
    [input.masked, 'mask', 'takes no `mask`'],
    [input.fidelity !== null, 'input_fidelity', 'takes no `input_fidelity`'],
    [input.moderation === 'low', 'moderation', 'takes no `moderation`'],
    [(input.seed ?? 0) > maxSeed, 'seed', `takes a seed of at most ${maxSeed}`],
  ]
  const inlineBytes = [...sources.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  if (inlineBytes > maxInlineBytes)
    throw unsupported(model, 'input_references', 'takes at most 72 MB of images at this provider')
  const match = unsupportedFields.find(([isSet]) => isSet)
  if (match) throw unsupported(model, match[1], `${match[2]} at this provider`)
  for (const [field, { contentType }] of sources)
    if (!takenTypes.has(contentType)) throw unsupported(model, field, `takes no ${contentType} at this provider`)
}

/**
 * `imageConfig` without defaults. A size in pixels maps to a shape: its shorter side to a tier, its ratio to one of the
 * model's. Gemini draws about as many pixels as the tier's square has, so sides other than 1:1 differ.
 */
function shapeOf({ input, target: { model } }: SyncCall<'image'>) {
  const { size, aspectRatio, resolution } = input
  const offered = listOf(model, 'aspect_ratios')
  const ratio = size ? ratioOf(size) : aspectRatio
  const tier = size ? (tiers.get(Math.min(size.width, size.height)) ?? null) : resolution
  if (size && (tier === null || !offered.includes(ratio!)))
    throw unsupported(model, 'size', `takes no size of ${size.width}x${size.height} at this provider`)
  if (size && tier !== null) chooseOption(model, 'resolutions', 'size', tier)
  const imageSize = tier === usualTier ? null : tier
  if (ratio === null && imageSize === null) return null
  return { ...(ratio !== null && { aspectRatio: ratio }), ...(imageSize !== null && { imageSize }) }
}

function ratioOf({ width, height }: NonNullable<ImageInput['size']>): string {
  const divisor = greatestDivisor(width, height)
  return `${width / divisor}:${height / divisor}`
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b)
}

function imagesOf(generated: Generated): ImageOutput {
  if (isBlocked(generated)) throw new ProviderError('content_filter', 'Gemini refused the prompt.')
  const [candidate] = generated.candidates ?? []
  const output = (candidate?.content?.parts ?? []).flatMap(part => imagesIn(part))
  if (output.length > 0) {
    const images = output.map(bytes => ({ bytes, revisedPrompt: null }))
    return { images, usage: imageUsage(usageOf(generated.usageMetadata)) }
  }
  if (candidate) refuseWithout(candidate)
  throw new ProviderError('invalid_response', 'Gemini answered without an image.')
}

/**
 * Throws for a complete answer without an image, which is the model's answer to this prompt: another region, or a second
 * request, gives no image either. Google says why in `finishMessage`, the model in its text.
 */
function refuseWithout({ content, finishReason: reason, finishMessage }: Candidate): void {
  if (reason === undefined) return
  const said = finishMessage || piecesOf(content?.parts).text
  const isFiltered = finishReason(reason, { produced: false, called: false }) === 'content_filter'
  if (isFiltered || (reason === 'STOP' && said))
    throw new ProviderError(
      'content_filter',
      `Gemini drew nothing: ${said.slice(0, maxSaidCharacters) || `${reason}.`}`,
    )
}

/** An image in the thoughts is a draft. */
function imagesIn({ thought, inlineData }: AnswerPart): Buffer[] {
  return !thought && inlineData?.mimeType.startsWith('image/') ? [Buffer.from(inlineData.data, 'base64')] : []
}

/** Where Gemini does not separate image from text output, all output but its thoughts counts as image. */
function imageUsage(usage: Usage | undefined): Usage | null {
  if (!usage) return null
  const details = usage.completion_tokens_details
  if (details?.image_tokens !== undefined) return usage
  const imageTokens = usage.completion_tokens - (details?.reasoning_tokens ?? 0)
  return { ...usage, completion_tokens_details: { ...details, image_tokens: imageTokens } }
}
