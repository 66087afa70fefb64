import type { Usage } from '../../base/usage.ts'
import type { ImageInput, ImageOutput } from '../../kinds/image.ts'
import { choice, listOf, unsupported } from '../../kinds/media.ts'
import { type InstantAdapter, type InstantCall, ProviderError, type Source } from '../contract.ts'
import { sourcesIn } from '../sources.ts'
import { finishReason, isBlocked, usageOf } from './answer.ts'
import { type AnswerPart, type Generated, readGenerated } from './wire.ts'

const firstByteMs = 180_000
const mostBytes = 64 * 1024 * 1024
/** A request holds 100 MB at most (blog.google, “Increased file size limits”): so many bytes of images in base64. */
const mostInlineBytes = 72_000_000
const mostSeed = 2 ** 31 - 1
const takenTypes = new Set(['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif'])

/** The shorter side of each tier's square. */
const tiers: ReadonlyMap<number, string> = new Map([
  [512, '512'],
  [1024, '1K'],
  [2048, '2K'],
  [4096, '4K'],
])
/** What every model draws when nothing is said. */
const usualTier = '1K'

/** Gemini's image models (`generateContent`): one image a call, drawn from words and from the references beside them. */
export const image: InstantAdapter<'image'> = {
  mostPieces: () => 1,
  async make(call, line): Promise<ImageOutput> {
    const json = await requestOf(call)
    const path = `/v1beta/models/${call.target.deployment.upstream_model}:generateContent`
    const { signal } = call
    const answer = await line.send({ method: 'POST', path, json, signal, firstByteMs, mostBytes })
    return imagesOf(readGenerated(answer.json))
  },
}

async function requestOf(call: InstantCall<'image'>): Promise<object> {
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

/** What Gemini has no word for. The kind of file is the model's choice. */
function refuseUnsupported({ input, sources, target: { model } }: InstantCall<'image'>): void {
  const refused: [boolean, param: string, what: string][] = [
    [input.quality !== null, 'quality', 'takes no `quality`'],
    [input.background === 'transparent', 'background', 'draws no transparent background'],
    [input.format !== null, 'output_format', 'takes no `output_format`'],
    [input.masked, 'mask', 'takes no `mask`'],
    [input.fidelity !== null, 'input_fidelity', 'takes no `input_fidelity`'],
    [input.moderation === 'low', 'moderation', 'takes no `moderation`'],
    [(input.seed ?? 0) > mostSeed, 'seed', `takes a seed of at most ${mostSeed}`],
  ]
  const inlineBytes = [...sources.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  if (inlineBytes > mostInlineBytes)
    throw unsupported(model, 'input_references', 'takes at most 72 MB of images at this provider')
  const fault = refused.find(([isRefused]) => isRefused)
  if (fault) throw unsupported(model, fault[1], `${fault[2]} at this provider`)
  for (const [field, { contentType }] of sources)
    if (!takenTypes.has(contentType)) throw unsupported(model, field, `takes no ${contentType} at this provider`)
}

/**
 * `imageConfig`, without what is usual. A size in pixels names a shape: its shorter side a tier, its sides' ratio one of the
 * model's. What Gemini draws of such a shape has about as many pixels as the tier's square, so other sides than 1:1 differ.
 */
function shapeOf({ input, target: { model } }: InstantCall<'image'>) {
  const { size, aspectRatio, resolution } = input
  const offered = listOf(model, 'aspect_ratios')
  const ratio = size ? ratioOf(size) : aspectRatio
  const tier = size ? (tiers.get(Math.min(size.width, size.height)) ?? null) : resolution
  if (size && (tier === null || !offered.includes(ratio!)))
    throw unsupported(model, 'size', `takes no size of ${size.width}x${size.height} at this provider`)
  if (size && tier !== null) choice(model, 'resolutions', 'size', tier)
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
  const drawn = (candidate?.content?.parts ?? []).flatMap(part => drawnIn(part))
  if (drawn.length > 0) {
    const images = drawn.map(bytes => ({ bytes, revisedPrompt: null }))
    return { images, usage: imageUsage(usageOf(generated.usageMetadata)) }
  }
  const reason = candidate?.finishReason
  if (reason !== undefined && finishReason(reason, { produced: false, called: false }) === 'content_filter')
    throw new ProviderError('content_filter', `Gemini drew nothing: ${reason}.`)
  throw new ProviderError('invalid_response', 'Gemini answered without an image.')
}

/** An image among the thoughts is a draft. */
function drawnIn({ thought, inlineData }: AnswerPart): Buffer[] {
  return !thought && inlineData?.mimeType.startsWith('image/') ? [Buffer.from(inlineData.data, 'base64')] : []
}

/** Where Gemini does not tell what was drawn from what was written, all but its thoughts was drawn. */
function imageUsage(usage: Usage | undefined): Usage | null {
  if (!usage) return null
  const details = usage.completion_tokens_details
  if (details?.image_tokens !== undefined) return usage
  const drawn = usage.completion_tokens - (details?.reasoning_tokens ?? 0)
  return { ...usage, completion_tokens_details: { ...details, image_tokens: drawn } }
}
