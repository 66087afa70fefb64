import type { Usage } from '../../../base/usage.ts'
import { imageTokens } from '../../../catalog/image-tokens.ts'
import { semaphore } from '../../../io/semaphore.ts'
import type { ImageInput, ImageOutput } from '../../../kinds/image.ts'
import { tokenizer } from '../../../kinds/tokenizer.ts'
import type { SyncCall } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'

const usualSide = 1_024
const sideOfTier = { '512': 512, '1K': 1_024, '2K': 2_048, '4K': 4_096 }
/** Sides derived from a ratio are multiples of it, as models have them. */
const step = 8
/** WebP's limit. */
const maxSide = 16_383
const maxPixels = 17_000_000

/** Squares on a background, each image in its own colour, exactly in the requested size. */
export async function images({ input, target, onPreview }: SyncCall<'image'>): Promise<ImageOutput> {
  const size = sizeOf(input)
  const results: ImageOutput['images'] = []
  for (let i = 0; i < input.n; i++)
    results.push({ bytes: await drawing(() => draw(input, size, i)), revisedPrompt: null })
  const preview = input.previews > 0 ? (await drawing(() => draw(input, size, 0))).toString('base64') : ''
  for (let index = 0; index < input.previews; index++)
    await onPreview?.({ base64: preview, index, size: `${size.width}x${size.height}`, settings: {} })
  const isPaidByToken = target.deployment.price.unit === 'token'
  return { images: results, usage: isPaidByToken ? await usageOf(input, size) : null }
}

/** One at a time per process: a large image takes up to 150 MB. */
const drawing = semaphore(1)

type Size = { width: number; height: number }

/** Throws a ProviderError for an image that cannot be drawn. */
function sizeOf({ size, resolution, aspectRatio }: ImageInput): Size {
  const { width, height } = size ?? sizeOfTier(resolution ? sideOfTier[resolution] : usualSide, aspectRatio ?? '1:1')
  const isPossible = Math.min(width, height) >= 1 && Math.max(width, height) <= maxSide && width * height <= maxPixels
  if (isPossible) return { width, height }
  throw new ProviderError('invalid_request', 'The sandbox cannot draw an image of this size.', {
    status: 400,
    param: size ? 'size' : 'aspect_ratio',
  })
}

/** A tier is the side of a square with the same number of pixels. */
function sizeOfTier(side: number, aspectRatio: string): Size {
  const [wide, high] = aspectRatio.split(':').map(Number) as [number, number]
  const sideOf = (ratio: number) => Math.round((side * Math.sqrt(ratio)) / step) * step
  return { width: sideOf(wide / high), height: sideOf(high / wide) }
}

async function draw({ format, compression, background, seed }: ImageInput, size: Size, i: number): Promise<Buffer> {
  const { default: sharp } = await import('sharp')
  const plain = ({ width, height }: Size, background: string) => ({ width, height, channels: 4 as const, background })
  const side = Math.ceil(Math.min(size.width, size.height) / 2)
  const square = plain({ width: side, height: side }, `hsl(${((seed ?? 0) + i * 36) % 360}, 60%, 50%)`)
  const isTransparent = background === 'transparent'
  const ground = plain(size, isTransparent ? 'transparent' : 'whitesmoke')
  const image = sharp({ create: ground }).composite([{ input: { create: square } }])
  if (!isTransparent) image.removeAlpha()
  const quality = compression === null ? {} : { quality: Math.max(1, compression) }
  if (format === 'jpeg') return image.jpeg(quality).toBuffer()
  if (format === 'webp') return image.webp(quality).toBuffer()
  return image.png().toBuffer()
}

async function usageOf(
  { prompt, n, references, masked, previews }: ImageInput,
  { width, height }: Size,
): Promise<Usage> {
  const text = (await tokenizer()).count(prompt)
  const inputTokens = (references + Number(masked)) * imageTokens.sandbox.reference
  const outputTokens =
    n * (Math.ceil((width * height * imageTokens.sandbox.perMegapixel) / 1e6) + previews * imageTokens.preview)
  return {
    prompt_tokens: text + inputTokens,
    completion_tokens: outputTokens,
    total_tokens: text + inputTokens + outputTokens,
    prompt_tokens_details: { image_tokens: inputTokens },
    completion_tokens_details: { image_tokens: outputTokens },
  }
}
