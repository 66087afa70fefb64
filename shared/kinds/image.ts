import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { alsoTaking } from '../base/other-forms.ts'
import type { Usage } from '../base/usage.ts'
import { imageTokens } from '../catalog/image-tokens.ts'
import type { ModelRow } from '../catalog/schema.ts'
import {
  chooseOption,
  common,
  fieldOf,
  fieldsOf,
  listOf,
  notOffered,
  ofOpenRouter,
  type References,
  referenceTo,
  unsupported,
} from './media.ts'
import { refusedField, refusedUnless } from './refused-field.ts'
import { type SyncKindRow, zeroQuantity } from './sync-kind.ts'

export const maxImageReferences = 16
const mib = 1024 * 1024
/** The most that a model takes: OpenAI's edits take images of less than 50 MB. */
export const maxImageBytes = 50 * mib
/** Of models whose row has no `max_reference_mib`. */
const usualReferenceMib = 10
export const imageFormats = ['png', 'jpeg', 'webp'] as const
const tiers = ['512', '1K', '2K', '4K'] as const

const referenceProblem = 'is not taken: send the images in `input_references`.'
const maskProblem = 'is not taken: send the image as `mask`.'
const countProblem = 'is not taken: send the number of images as `n`.'
/** Other APIs' names of the images to draw from, and of their number: Together's, fal's, Replicate's, Stable Diffusion's. */
const otherNames = {
  image: refusedField(referenceProblem),
  image_url: refusedField(referenceProblem),
  image_urls: refusedField(referenceProblem),
  image_base64: refusedField(referenceProblem),
  image_prompt: refusedField(referenceProblem),
  init_image: refusedField(referenceProblem),
  input_image: refusedField(referenceProblem),
  reference_images: refusedField(referenceProblem),
  mask_image: refusedField(maskProblem),
  mask_url: refusedField(maskProblem),
  num_images: refusedUnless(1, countProblem),
  num_outputs: refusedUnless(1, countProblem),
  batch_size: refusedUnless(1, countProblem),
}

/** Together's name of `b64_json` is `base64` (@ai-sdk/togetherai, TogetherAIImageModel). */
const answerForm = alsoTaking(z.enum(['url', 'b64_json']), value => (value === 'base64' ? 'b64_json' : value))

/** Replicate's models call it `jpg` (replicate.com/google/nano-banana, input schema). */
const format = alsoTaking(z.enum(imageFormats), value => (value === 'jpg' ? 'jpeg' : value))
const inCapitals = (value: unknown) =>
  typeof value === 'string' && /^[124]k$/.test(value) ? value.toUpperCase() : value
const resolution = alsoTaking(z.enum(tiers), inCapitals)
/** In pixels also `1024X1024`, and `1024*1024`, as Alibaba names sizes (wavespeed.ai, alibaba/wan-2.6/text-to-image). */
const inPixels = (value: unknown) => (typeof value === 'string' ? value.replace(/^(\d+)[X*](\d+)$/, '$1x$2') : value)
const size = alsoTaking(
  z
    .string()
    .regex(/^(?:auto|\d{2,5}x\d{2,5}|512|[124]K)$/, 'must be `auto`, `WIDTHxHEIGHT`, `512`, `1K`, `2K` or `4K`'),
  value => inPixels(inCapitals(value)),
)
const side = z.int().min(16).max(16_384)

/** `POST /v1/images`: OpenAI's fields, and OpenRouter's `aspect_ratio`, `resolution` and `input_references`. */
export const imageRequest = z
  .looseObject({
    ...otherNames,
    ...ofOpenRouter,
    model: common.model,
    prompt: z.string().min(1).max(32_000).describe('What to draw, or what to change.'),
    n: z.int().min(1).max(10).nullish().meta({ default: 1, description: 'How many images.' }),
    size: size
      .nullish()
      .describe('`auto`, `WIDTHxHEIGHT` in pixels, or `512`, `1K`, `2K`, `4K`; without it, the model’s own.'),
    width: side.nullish().describe('In pixels, with `height`: Together’s form of `size`.'),
    height: side.nullish().describe('In pixels, with `width`.'),
    aspect_ratio: z
      .string()
      .regex(/^(?:auto|\d{1,2}:\d{1,2})$/, 'must be `auto` or like `16:9`')
      .nullish()
      .describe('`auto`, or like `16:9`; not beside a `size` in pixels.'),
    resolution: resolution.nullish().describe('Not beside a `size` in pixels.'),
    quality: z
      .enum(['auto', 'low', 'medium', 'high', 'xhigh', 'max', 'standard', 'hd'])
      .nullish()
      .describe(
        'One of the model’s own; without it, the model’s choice. `standard` and `hd` are `medium` and `high` where the model has these, and named in `x-gateway-adjusted`.',
      ),
    background: z.enum(['auto', 'transparent', 'opaque']).nullish().describe('A JPEG cannot be transparent.'),
    output_format: format.nullish().describe('Without it, the model’s own.'),
    output_compression: z
      .int()
      .min(0)
      .max(100)
      .nullish()
      .describe('In percent, for jpeg and webp; 100 is taken for any format.'),
    style: z
      .enum(['vivid', 'natural'])
      .nullish()
      .describe('Of older models: of no effect, and named in `x-gateway-dropped`.'),
    response_format: answerForm
      .nullish()
      .meta({ default: 'b64_json', description: 'Whether each image comes as an address or in base64.' }),
    input_references: z
      .array(referenceTo('image'))
      .min(1)
      .max(maxImageReferences)
      .optional()
      .describe('Images to edit or to draw from.'),
    images: z
      .array(referenceTo('image'))
      .min(1)
      .max(maxImageReferences)
      .optional()
      .describe('OpenAI’s name of `input_references` in JSON.'),
    mask: referenceTo('image').optional().describe('A PNG whose transparent area is edited.'),
    input_fidelity: z
      .enum(['high', 'low'])
      .nullish()
      .describe(
        'How closely the images that are edited are kept to, where the model lets it be chosen. Its only value is of no effect, and named in `x-gateway-dropped`.',
      ),
    moderation: z.enum(['auto', 'low']).nullish().describe('How strict the provider’s content filter is.'),
    seed: z
      .int()
      .min(0)
      .max(4_294_967_295)
      .nullish()
      .describe('For images that can be repeated: the seed of the first, from which the others count on.'),
    user: z.string().max(512).optional().describe('An id of your end user, for the providers’ abuse monitoring.'),
    safety_identifier: z.string().max(512).nullish().describe('Like `user`, for OpenAI’s abuse detection.'),
    stream: z.boolean().nullish().meta({
      default: false,
      description:
        'Send an `image_generation.completed` or `image_edit.completed` event for each image, previews and keep-alives before.',
    }),
    partial_images: z
      .int()
      .min(0)
      .max(3)
      .nullish()
      .describe(
        'With `stream`, the maximum number of previews of each image, where the model’s row has `partial_images`.',
      ),
  })
  .meta({ id: 'CreateImageRequest' })
export type ImageRequest = z.infer<typeof imageRequest>

/** Adapter input of images; the references are passed separately as `input_references.<n>` and `mask`. */
export type ImageInput = {
  prompt: string
  n: number
  /** In pixels; null = the model's default, or derived from the resolution and the ratio. */
  size: { width: number; height: number } | null
  resolution: (typeof tiers)[number] | null
  aspectRatio: string | null
  /** As the model's row lists it. */
  quality: string | null
  background: 'transparent' | 'opaque' | null
  /** null = the model's default. */
  format: (typeof imageFormats)[number] | null
  compression: number | null
  seed: number | null
  references: number
  masked: boolean
  fidelity: 'high' | 'low' | null
  moderation: 'auto' | 'low' | null
  user: string | null
  safetyIdentifier: string | null
  /** Number of previews requested of each image. */
  previews: number
}

/** An image as returned by the provider; its type is detected from its bytes. */
export type ProviderImage = ({ url: string } | { bytes: Uint8Array }) & { revisedPrompt: string | null }
/** Settings that were used, if the provider reports them. */
export type ImageSettings = { quality?: string; background?: string }
/** `usage` is the provider's count for all images of this call. */
export type ImageOutput = { images: ProviderImage[]; usage: Usage | null; settings?: ImageSettings }

/** A partial image from the provider. */
export type ImagePreview = { base64: string; index: number; size: string | null; settings: ImageSettings }
/** Receives a preview; resolves when the client can accept more. */
export type OnPreview = (preview: ImagePreview) => Promise<void>

export const image: SyncKindRow<ImageRequest, ImageInput> = {
  idPrefix: 'img',
  path: '/v1/images',
  modelsPath: '/v1/images/models',
  type: 'image',
  request: imageRequest,
  references: body => [
    ...fieldsOf('input_references', referencesIn(body), 'image').map(field => ({ ...field, maxBytes: maxImageBytes })),
    ...fieldOf('mask', body.mask, 'image'),
  ],
  input(body, model, staged) {
    const references = referencesIn(body)?.length ?? 0
    const n = body.n ?? 1
    checkReferences(body, model, references)
    checkSizes(model, staged)
    const max = model.kind?.max_n ?? 10
    if (n > max) throw unsupported(model, 'n', max === 1 ? 'gives one image at a time' : `gives at most ${max} images`)
    const format = body.output_format ?? null
    const background = body.background === 'auto' ? null : (body.background ?? null)
    if (background === 'transparent' && format === 'jpeg')
      throw new GatewayError('invalid_request', 'A JPEG cannot be transparent.', { param: 'background' })
    const isCompressed = format === 'jpeg' || format === 'webp'
    const compression = body.output_compression ?? null
    if (compression !== null && compression < 100 && !isCompressed)
      throw new GatewayError('invalid_request', 'Only jpeg and webp are compressed.', { param: 'output_compression' })
    return {
      prompt: body.prompt,
      n,
      ...sizeOf(body, model),
      quality: qualityOf(body, model),
      background,
      format,
      compression: isCompressed ? compression : null,
      seed: body.seed ?? null,
      references,
      masked: body.mask !== undefined,
      fidelity: fidelityOf(body, model),
      moderation: body.moderation ?? null,
      user: body.user ?? null,
      safetyIdentifier: body.safety_identifier ?? null,
      previews: body.stream && model.kind?.partial_images === true ? (body.partial_images ?? 0) : 0,
    }
  },
  fieldsWithoutEffect({ style, input_fidelity, quality }, model) {
    const hasFixedFidelity = model.kind?.input_fidelity !== undefined && input_fidelity != null
    const fields = { style: style != null, input_fidelity: hasFixedFidelity, quality: isOnlyQuality(quality, model) }
    return Object.entries(fields).flatMap(([name, isWithout]) => (isWithout ? [name] : []))
  },
  adjustedFields: ({ quality }, model) => (translatedQuality(quality, model) === null ? [] : ['quality']),
  maxQuantity(input, model) {
    const images = input.n * (maxImageTokens(input, model) + input.previews * imageTokens.preview)
    // Images with previews are requested one by one.
    const calls = input.previews > 0 ? input.n : 1
    const promptTokens = calls * (Buffer.byteLength(input.prompt) + tokensPerPrompt)
    const referenceTokens = calls * (input.references + Number(input.masked)) * imageTokens.referenceBound
    const usage = {
      prompt_tokens: promptTokens + referenceTokens,
      completion_tokens: images,
      total_tokens: promptTokens + referenceTokens + images,
      prompt_tokens_details: { image_tokens: referenceTokens },
      completion_tokens_details: { image_tokens: images },
    }
    return { ...zeroQuantity, usage, pieces: input.n, size: sizeName(input) }
  },
}

/** The images under either name. Throws 400 for both. */
function referencesIn({ input_references, images }: ImageRequest): string[] | undefined {
  if (input_references && images)
    throw new GatewayError('invalid_request', 'Send either `images` or `input_references`.', { param: 'images' })
  return input_references ?? images
}

/** Throws 413 for an image that is larger than the model takes. */
function checkSizes(model: ModelRow, staged: References | null): void {
  const maxMib = model.kind?.max_reference_mib ?? usualReferenceMib
  for (const [param, { bytes }] of Object.entries(staged ?? {}))
    if (bytes > maxMib * mib)
      throw new GatewayError('file_too_large', `${model.id} takes images of at most ${maxMib} MiB.`, { param })
}

function checkReferences(body: ImageRequest, model: ModelRow, references: number): void {
  if (references > 0 && !model.input_modalities.includes('image'))
    throw unsupported(model, 'input_references', 'takes no images')
  if (references === 0 && model.kind?.references_required)
    throw unsupported(model, 'input_references', 'needs at least one image')
  const max = model.kind?.max_references ?? maxImageReferences
  if (references > max) throw unsupported(model, 'input_references', `takes at most ${max} images`)
  if (body.mask === undefined) return
  if (!model.kind?.mask) throw unsupported(model, 'mask', 'takes no `mask`')
  if (references === 0)
    throw new GatewayError('missing_field', 'A `mask` needs the image that it is for.', { param: 'input_references' })
}

function qualityOf({ quality }: ImageRequest, model: ModelRow): string | null {
  if (quality == null || quality === 'auto' || isOnlyQuality(quality, model)) return null
  return translatedQuality(quality, model) ?? chooseOption(model, 'qualities', 'quality', quality)
}

/**
 * DALL·E 3's words in those of its successors, which refuse them: "Invalid value: 'standard'. Supported values are: 'low', 'medium',
 * 'high', and 'auto'." (griptape-ai/griptape-nodes-engine#1031, whose default it is, as it is LangChain's DallEAPIWrapper's).
 */
const successorQualities = new Map<unknown, string>([
  ['standard', 'medium'],
  ['hd', 'high'],
])

/** The model's own word for a quality in DALL·E's; null if it is none of them, or the model has it. */
function translatedQuality(quality: ImageRequest['quality'], model: ModelRow): string | null {
  const offered = listOf(model, 'qualities')
  const word = successorQualities.get(quality)
  return word !== undefined && offered.includes(word) && !offered.includes(quality!) ? word : null
}

/** Whether DALL·E's usual quality is asked of a model that has no choice. */
function isOnlyQuality(quality: ImageRequest['quality'], model: ModelRow): boolean {
  return quality === 'standard' && listOf(model, 'qualities').length === 0
}

/**
 * null = the model's only fidelity, or its default. gpt-image-2 always works at high fidelity and refuses the field
 * (pydantic/pydantic-ai#5413, ayunis-core/ayunis-core#1279), which clients of earlier models send.
 */
function fidelityOf({ input_fidelity }: ImageRequest, model: ModelRow): ImageInput['fidelity'] {
  const only = model.kind?.input_fidelity
  if (only === undefined) return input_fidelity ?? null
  if (input_fidelity != null && input_fidelity !== only)
    throw unsupported(model, 'input_fidelity', notOffered('input_fidelity', [only]))
  return null
}

/** The `size` of a request, which Together's clients send as two numbers (`ImageGenerateParams` of together-ai). */
function namedSize({ size, width, height }: ImageRequest): string | null {
  if (width == null && height == null) return size ?? null
  const isPair = width != null && height != null
  const both = `${width}x${height}`
  if (isPair && (size == null || size === 'auto' || size === both)) return both
  const problem = isPair ? 'is not taken beside another `size`.' : 'needs `width` and `height`, or `size` alone.'
  throw new GatewayError('invalid_request', `The size of the image ${problem}`, {
    param: isPair || height == null ? 'width' : 'height',
  })
}

function sizeOf(request: ImageRequest, model: ModelRow): Pick<ImageInput, 'size' | 'resolution' | 'aspectRatio'> {
  const { resolution, aspect_ratio } = request
  const size = namedSize(request)
  const [, width, height] = /^(\d+)x(\d+)$/.exec(size ?? '') ?? []
  const tier = resolution ?? tiers.find(name => name === size) ?? null
  const ratio = aspect_ratio === 'auto' ? null : (aspect_ratio ?? null)
  if (width && (tier || ratio))
    throw new GatewayError('invalid_request', 'Send either a `size` in pixels or a resolution and an aspect ratio.', {
      param: resolution ? 'resolution' : 'aspect_ratio',
    })
  const offered = listOf(model, 'sizes')
  if (width && offered.length > 0 && !offered.includes(size!))
    throw unsupported(model, request.width == null ? 'size' : 'width', notOffered('size', offered))
  if (tier && listOf(model, 'resolutions').length > 0)
    chooseOption(model, 'resolutions', resolution ? 'resolution' : 'size', tier)
  if (ratio && listOf(model, 'aspect_ratios').length > 0) chooseOption(model, 'aspect_ratios', 'aspect_ratio', ratio)
  return { size: width ? { width: Number(width), height: Number(height) } : null, resolution: tier, aspectRatio: ratio }
}

/** The name of a size as used in prices. */
export function sizeName({ size, resolution }: Pick<ImageInput, 'size' | 'resolution'>): string | null {
  return size ? `${size.width}x${size.height}` : resolution
}

/** Token allowance around a prompt. */
const tokensPerPrompt = 1_000
const defaultPixels = 1536 * 1024
const pixelsByTier = { '512': 512 ** 2, '1K': 1024 ** 2, '2K': 2048 ** 2, '4K': 4096 ** 2 }

function maxImageTokens({ size, resolution }: ImageInput, model: ModelRow): number {
  const pixels = size ? size.width * size.height : resolution ? pixelsByTier[resolution] : defaultPixels
  const tokens = Math.ceil(imageTokens.outputBound * Math.max(1, pixels / defaultPixels))
  return Math.min(tokens, model.max_output_tokens ?? Number.POSITIVE_INFINITY)
}
