import { isDataUri } from '../../../base/data-uri.ts'
import { isObject } from '../../../base/is-object.ts'
import type { Usage } from '../../../base/usage.ts'
import { type ImageOutput, type ProviderImage, sizeName } from '../../../kinds/image.ts'
import { listOf, unsupported } from '../../../kinds/media.ts'
import type { FormPart, ProviderConnection, ProviderDownload, SyncAdapter } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { mapErrorParam } from '../../toolkit/error-param.ts'
import {
  invalidResponse,
  type Json,
  readList,
  readNumber,
  readOptionalAmount,
  readOptionalLink,
  readOptionalText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'
import { fileAt } from '../../toolkit/model-output.ts'
import { normaliseUsage } from './answer.ts'
import { eventsUntil, textOf } from './audio.ts'
import { type ImageCall, type ImageDialect, refuseFields } from './image-dialect.ts'
import { openrouterImages } from './openrouter-images.ts'

/** Images of the highest quality take minutes, and no byte is sent before. */
const firstByteMs = 180_000
const maxBytes = 64 * 1024 * 1024
const maxImages = 10

/**
 * Images in OpenAI's format (`/images/generations` and `/images/edits`) or in OpenRouter's (`/images`), as the
 * provider's quirk `images` says. The deployment traits `transparency` and `fidelity`, if false, mark models without
 * transparent backgrounds and without `input_fidelity`; `most_images` is the maximum per call.
 */
export const image: SyncAdapter<'image'> = {
  maxPieces: ({ deployment }) => deployment.traits?.most_images ?? maxImages,
  async make(call, connection) {
    const dialect = dialectOf(connection)
    refuseTraits(call)
    const request = await dialect.request(call)
    const { signal } = call
    const sent = { method: 'POST', ...request, signal, firstByteMs, maxBytes } as const
    const events = call.input.previews > 0 ? dialect.events?.(call) : undefined
    const json = events
      ? await withPreviews(call, events, await mapErrorParam(dialect.fields, connection.stream(sent)))
      : (await mapErrorParam(dialect.fields, connection.send(sent))).json
    return { images: imagesIn(json), usage: usageIn(dialect.usage(json)), ...settingsIn(json) }
  },
}

const openaiImages: ImageDialect = {
  fields: {
    partial_images: 'partial_images',
    stream: 'stream',
    safety_identifier: 'safety_identifier',
    prompt: 'prompt',
    n: 'n',
    size: 'size',
    quality: 'quality',
    background: 'background',
    user: 'user',
    output_format: 'output_format',
    output_compression: 'output_compression',
    moderation: 'moderation',
    image: 'input_references',
    'image[]': 'input_references',
    mask: 'mask',
    input_fidelity: 'input_fidelity',
  },
  async request(call) {
    const { input, sources } = call
    const edits = input.references > 0
    refuseFields(call, {
      seed: input.seed !== null,
      input_fidelity: !edits && input.fidelity !== null,
    })
    assertImageTypes(call)
    const fields = fieldsOf(call)
    if (!edits) return { path: '/images/generations', json: fields }
    const values = Object.entries(fields).map(([name, value]) => ({ name, value: String(value) }))
    const images = sourcesIn(sources, 'input_references')
    const name = images.length > 1 ? 'image[]' : 'image'
    const mask = sources.get('mask')
    const files: FormPart[] = images.map(file => ({ name, file }))
    return { path: '/images/edits', parts: [...values, ...files, ...(mask ? [{ name: 'mask', file: mask }] : [])] }
  },
  events({ input }) {
    const name = input.references > 0 ? 'image_edit' : 'image_generation'
    return { preview: `${name}.partial_image`, last: `${name}.completed` }
  },
  usage(answer) {
    const usage = valueAt(answer, 'usage')
    if (!isObject(usage)) return null
    return {
      prompt_tokens: usage.input_tokens,
      prompt_tokens_details: usage.input_tokens_details,
      completion_tokens: usage.output_tokens,
      completion_tokens_details: usage.output_tokens_details,
      total_tokens: usage.total_tokens,
    }
  },
}

const dialects: Record<string, ImageDialect> = { openai: openaiImages, openrouter: openrouterImages }

function dialectOf({ provider }: ProviderConnection): ImageDialect {
  const dialect = dialects[provider.quirks?.images ?? '']
  if (!dialect) throw new ProviderError('model_unavailable', 'The provider has no images.', { unsent: true })
  return dialect
}

function refuseTraits({ input, target: { model, deployment } }: ImageCall): void {
  const { transparency, fidelity } = deployment.traits ?? {}
  if (input.background === 'transparent' && transparency === false)
    throw unsupported(model, 'background', 'draws no transparent background')
  if (input.fidelity !== null && fidelity === false)
    throw unsupported(model, 'input_fidelity', 'takes no `input_fidelity`')
}

const takenTypes: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/webp'])

/** Throws 400 for a file of a type that OpenAI does not accept. */
function assertImageTypes({ sources, target: { model, provider } }: ImageCall): void {
  for (const [field, { contentType }] of sources)
    if (field === 'mask' ? contentType !== 'image/png' : !takenTypes.has(contentType))
      throw unsupported(model, field, `at ${provider.name} takes no ${contentType} here`)
}

/** The fields of both OpenAI endpoints. A gpt-image model returns no URLs, so there is no `response_format`. */
function fieldsOf(call: ImageCall): Record<string, string | number | boolean> {
  const { input, target } = call
  const formFields = {
    model: target.deployment.upstream_model,
    prompt: input.prompt,
    n: input.n === 1 ? null : input.n,
    size: input.size ? sizeName(input) : shapeOf(call),
    quality: input.quality,
    background: input.background,
    output_format: input.format,
    output_compression: input.compression,
    moderation: input.moderation,
    input_fidelity: input.fidelity,
    user: input.user,
    safety_identifier: input.safetyIdentifier,
    ...(input.previews > 0 && { stream: true, partial_images: input.previews }),
  }
  return Object.fromEntries(Object.entries(formFields).filter(([, value]) => value !== null)) as Record<string, string>
}

/** The shorter side of each tier. */
const sideOfTier = { '512': 512, '1K': 1024, '2K': 2048, '4K': 4096 }
/** OpenAI's limits for custom sizes. */
const multipleOf = 16
const maxRatio = 3
const maxSide = 3840
const minPixels = 655_360
const maxPixels = 3840 * 2160

/**
 * The size in pixels of a tier and a ratio, if exactly one matches: of the sizes that the model lists, or of any within
 * OpenAI's limits; null = the model's default. Throws 400 if there is none.
 */
function shapeOf({ input, target: { model, provider } }: ImageCall): string | null {
  const { resolution, aspectRatio, references } = input
  if (resolution === null && aspectRatio === null) return null
  // By default an edit has the shape of its first image.
  if (aspectRatio === null && references > 0)
    throw unsupported(model, 'resolution', `at ${provider.name} needs an \`aspect_ratio\` beside the \`resolution\``)
  const [across = 1, down = 1] = (aspectRatio ?? '1:1').split(':').map(Number)
  const side = sideOfTier[resolution ?? '1K']
  const shorter = Math.min(across, down)
  const [width, height] = [(side * across) / shorter, (side * down) / shorter]
  const size = `${width}x${height}`
  const sizes = listOf(model, 'sizes')
  if (sizes.length > 0 ? sizes.includes(size) : isDrawn(width, height)) return size
  const param = aspectRatio === null ? 'resolution' : 'aspect_ratio'
  const problem = `has no size of exactly ${aspectRatio ?? '1:1'} at ${resolution ?? '1K'}; send a \`size\` in pixels`
  throw unsupported(model, param, `at ${provider.name} ${problem}`)
}

function isDrawn(width: number, height: number): boolean {
  const [shorter, longer] = width < height ? [width, height] : [height, width]
  const isWhole = width % multipleOf === 0 && height % multipleOf === 0
  const pixels = width * height
  return isWhole && longer <= maxSide && longer <= shorter * maxRatio && pixels >= minPixels && pixels <= maxPixels
}

/** Reads a streamed response and forwards each preview: the last event has the image. */
async function withPreviews(
  { onPreview, input }: ImageCall,
  { preview, last }: { preview: string; last: string },
  { stream }: ProviderDownload,
): Promise<Json> {
  let previews = 0
  for await (const event of eventsUntil(last, stream)) {
    if (event.type === last) return { ...event, data: [event] }
    if (event.type !== preview) continue
    if (++previews > input.previews) throw invalidResponse('it has more previews than were asked for')
    const base64 = textOf(event, 'b64_json')
    const index = readNumber(event, 'partial_image_index')
    await onPreview?.({
      base64,
      index,
      size: readOptionalText(event, 'size'),
      settings: settingsIn(event).settings ?? {},
    })
  }
  throw invalidResponse('it has no image')
}

/** The quality and background that a response reports. */
function settingsIn(json: unknown): Pick<ImageOutput, 'settings'> {
  const [quality, background] = [readOptionalText(json, 'quality'), readOptionalText(json, 'background')]
  if (quality === null && background === null) return {}
  return { settings: { ...(quality !== null && { quality }), ...(background !== null && { background }) } }
}

/**
 * The images of a response; entries without one are skipped. Throws a ProviderError `invalid_response` if none is left.
 */
function imagesIn(json: unknown): ImageOutput['images'] {
  const images = readList(json, 'data').flatMap(entry => imageIn(entry))
  if (images.length === 0) throw invalidResponse('it has no image')
  return images
}

/** Servers of the dialect have `data:` URIs in either member (api.modelverse.cn for flux.1-dev). */
function imageIn(entry: unknown): ProviderImage[] {
  const revisedPrompt = readOptionalText(entry, 'revised_prompt')
  const base64 = readOptionalText(entry, 'b64_json')
  if (base64 !== null && !isDataUri(base64)) return [{ bytes: Buffer.from(base64, 'base64'), revisedPrompt }]
  const url = base64 ?? readOptionalLink(entry, 'url')
  return url === null ? [] : [{ ...fileAt(url), revisedPrompt }]
}

/** Where the provider does not separate image output from text and reasoning, all other output counts as image. */
function usageIn(json: unknown): Usage | null {
  const usage = normaliseUsage(json)
  if (!usage) return null
  const details = usage.completion_tokens_details
  if (details?.image_tokens !== undefined) return usage
  const textTokens = readOptionalAmount(json, 'completion_tokens_details.text_tokens') ?? details?.reasoning_tokens ?? 0
  const imageTokens = Math.max(0, usage.completion_tokens - Math.ceil(textTokens))
  return { ...usage, completion_tokens_details: { ...details, image_tokens: imageTokens } }
}
