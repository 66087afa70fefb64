import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import type { Usage } from '../base/usage.ts'
import { openProviderFile } from '../files/provider-files.ts'
import { limitBytes } from '../io/bytes.ts'
import type { SlotOwner } from '../io/fair-slots.ts'
import { canDecode, examineImage, type ImageFacts, imageLimits } from '../io/media/images.ts'
import { extensionOf } from '../io/media/media-type.ts'
import {
  type ImagePreview,
  type ImageRequest,
  type ImageSettings,
  type OnPreview,
  type ProviderImage,
  sizeName,
} from '../kinds/image.ts'
import type { References } from '../kinds/media.ts'
import { type Quantity, zeroQuantity } from '../kinds/sync-kind.ts'
import type { Platform } from '../platform.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { type Delivery, type DeliveryResult, statedTokens, waitForDrain } from './delivery.ts'
import { failedEvent, formatNamedEvent, lastEvent } from './events.ts'
import { performWork } from './work.ts'

/** Ten images of this size in base64 fit into one answer. */
const maxBytes = 32 * 1024 * 1024
/** Queue limit for request images; provider images wait without limit. */
const maxImagesWaiting = 100
/** Tokens of an image of one megapixel, if a provider paid by the token reports no usage. */
const usualTokens = 1_290

type Image = ImageFacts & { bytes: Uint8Array; revisedPrompt: string | null }

/**
 * Generates images, drops undecodable ones, and delivers the rest: in one answer, or one event each after their
 * previews. Throws a ProviderError if nothing was sent to the client yet, `invalid_response` when no image can be
 * decoded.
 */
export async function deliverImages(
  delivery: Delivery<'image'>,
  { stream, response_format }: Pick<ImageRequest, 'stream' | 'response_format'>,
): Promise<DeliveryResult> {
  const { client, work } = delivery
  let hasBegun = false
  const sendPreview = async (preview: ImagePreview) => {
    if (client.gone) return
    if (!hasBegun) delivery.onFirstByte()
    hasBegun = true
    if (!delivery.send(previewEvent(delivery, preview))) await waitForDrain(delivery)
  }
  try {
    const generated = await generateImages(delivery, sendPreview)
    if (!hasBegun) delivery.onFirstByte()
    return await answer(delivery, generated, stream === true, response_format ?? 'b64_json')
  } catch (error) {
    // Either nothing was sent yet or the client has disconnected: the caller handles the error.
    if (!hasBegun || !(error instanceof ProviderError) || work.call.signal.aborted) throw error
    delivery.send(failedEvent(delivery.failureOf(error)))
    client.end()
    return { quantity: zeroQuantity, error }
  }
}

type GeneratedImages = { images: Image[]; usage: Usage | null; settings: ImageSettings; lostCount: number }

async function answer(
  delivery: Delivery<'image'>,
  { images, usage, settings, lostCount }: GeneratedImages,
  stream: boolean,
  format: 'url' | 'b64_json',
): Promise<DeliveryResult> {
  const quantity = quantityOf(delivery, images.length, lostCount, usage)
  if (delivery.client.gone && stream) return { quantity, error: null }
  const costNano = delivery.costNano(quantity)
  const data = await Promise.all(images.map(image => presentImage(delivery, image, format)))
  const { target } = delivery.work.call
  const about = {
    model: target.model.id,
    provider: target.provider.name,
    usage: { ...(usage && shownUsage(quantity.usage)), cost: costNano / 1e9 },
  }
  const created = Math.floor(delivery.startedMs / 1000)
  const shown = images.map(({ contentType, width, height }) => ({
    size: `${width}x${height}`,
    ...shownSettings(delivery, settings),
    output_format: contentType.replace('image/', ''),
  }))
  if (stream) {
    const type = typeOf(delivery, 'completed')
    for (const [i, image] of data.entries())
      delivery.send(
        formatNamedEvent({ type, created_at: created, ...image, ...shown[i], ...(i === data.length - 1 && about) }),
      )
    delivery.send(lastEvent)
    delivery.client.end()
  } else delivery.client.answer(delivery.headers(costNano), JSON.stringify({ created, ...shown[0], data, ...about }))
  return { quantity, error: null }
}

function previewEvent(delivery: Delivery<'image'>, { base64, index, size, settings }: ImagePreview): string {
  const { input, startedMs } = delivery
  return formatNamedEvent({
    type: typeOf(delivery, 'partial_image'),
    created_at: Math.floor(startedMs / 1000),
    b64_json: base64,
    partial_image_index: index,
    size: size ?? sizeName(input) ?? 'auto',
    ...shownSettings(delivery, settings),
    output_format: input.format ?? 'png',
  })
}

function typeOf({ input }: Delivery<'image'>, what: 'partial_image' | 'completed'): string {
  return `${input.references > 0 ? 'image_edit' : 'image_generation'}.${what}`
}

/** The settings reported by the provider, else the requested ones. */
function shownSettings({ input }: Delivery<'image'>, { quality, background }: ImageSettings) {
  return { quality: quality ?? input.quality ?? 'auto', background: background ?? input.background ?? 'auto' }
}

/** Checks the images that a request references. Throws 400 naming the field of one that cannot be decoded, and 503. */
export async function checkPictures(services: Platform, references: References, owner: SlotOwner): Promise<void> {
  for (const [field, reference] of Object.entries(references)) {
    if (!canDecode(reference.contentType)) continue
    const read = async () => {
      const stored = await services.blobs.read(reference.storageKey)
      return stored ? buffer(stored.stream) : Buffer.alloc(0)
    }
    if (await examineImage(read, maxImagesWaiting, owner)) continue
    const problem = `The image cannot be decoded, or is too large to be: ${imageLimits}.`
    throw new GatewayError('invalid_request', problem, { param: field })
  }
}

/**
 * Generates all images of a request, in as many calls as the provider needs. A failed call does not discard the images
 * of the others.
 */
async function generateImages({ services, work }: Delivery<'image'>, onPreview: OnPreview): Promise<GeneratedImages> {
  const { call, adapter, connection } = work
  const { n, previews } = call.input
  const max = previews > 0 ? 1 : (adapter.maxPieces?.(call.target) ?? n)
  const counts = Array.from({ length: Math.ceil(n / max) }, (_, i) => Math.min(max, n - i * max))
  const calls = await Promise.allSettled(
    counts.map(async (count, i) => {
      const input = { ...call.input, n: count, seed: seedAt(i * max, call.input.seed) }
      const output = await performWork<'image'>({ ...work, call: { ...call, onPreview, input } })
      const examinations = await Promise.allSettled(output.images.slice(0, count).map(image => examine(image)))
      const unfetched = examinations.find(result => result.status === 'rejected')
      if (unfetched && examinations.every(result => result.status === 'rejected')) throw unfetched.reason
      // An image that cannot be fetched counts as undecodable.
      return {
        images: examinations.map(result => (result.status === 'fulfilled' ? result.value : null)),
        usage: statedTokens(output.usage),
        settings: output.settings,
      }
    }),
  )
  const answers = calls.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
  const images = answers.flatMap(answer => answer.images)
  const decodable = images.filter(image => image !== null)
  if (decodable.length === 0) {
    const failed = calls.find(result => result.status === 'rejected')
    throw failed?.reason ?? new ProviderError('invalid_response', 'The provider’s answer has no image.')
  }
  const usages = answers.map(answer => answer.usage)
  const usage = usages.includes(null) ? null : (usages as Usage[]).reduce(plus)
  const settings = answers.find(answer => answer.settings)?.settings ?? {}
  return { images: decodable, usage, settings, lostCount: images.length - decodable.length }

  async function examine(image: ProviderImage): Promise<Image | null> {
    const bytes = 'bytes' in image ? image.bytes : await download(image.url)
    if (bytes.length > maxBytes) return null
    const facts = await examineImage(bytes)
    return facts && { ...facts, bytes, revisedPrompt: image.revisedPrompt }
  }

  async function download(url: string): Promise<Uint8Array> {
    const { body } = await openProviderFile(services, connection, url, call.signal)
    const tooLarge = () => new ProviderError('invalid_response', 'The provider’s image is larger than 32 MiB.')
    return buffer(Readable.from(limitBytes(body, maxBytes, tooLarge)))
  }
}

/**
 * The seed of the call for the image at this position. The same seed in every call would give equal images, each charged
 * (fal-ai/fal#1022). It stays below 2^31 if the request's seed does, as Gemini takes no larger ones.
 */
function seedAt(position: number, seed: number | null): number | null {
  if (seed === null) return null
  const limit = seed < 2 ** 31 ? 2 ** 31 : 2 ** 32
  return (seed + position) % limit
}

/** The billed quantity, without undecodable images and their share of the tokens. */
function quantityOf(
  { input }: Delivery<'image'>,
  decodable: number,
  lostCount: number,
  counted: Usage | null,
): Quantity {
  const images = counted?.completion_tokens ?? usualTokens * (decodable + lostCount)
  const billed = lostCount === 0 ? images : Math.ceil((images * decodable) / (decodable + lostCount))
  const usage: Usage = counted
    ? {
        ...counted,
        completion_tokens: billed,
        total_tokens: counted.prompt_tokens + billed,
        ...(lostCount > 0 && { completion_tokens_details: { image_tokens: billed } }),
      }
    : {
        prompt_tokens: 0,
        completion_tokens: billed,
        total_tokens: billed,
        completion_tokens_details: { image_tokens: billed },
        estimated: true,
      }
  return { ...zeroQuantity, usage, pieces: decodable, size: sizeName(input) }
}

function plus(a: Usage, b: Usage): Usage {
  const sum = (x = 0, y = 0) => x + y
  return {
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    completion_tokens: a.completion_tokens + b.completion_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    prompt_tokens_details: {
      image_tokens: sum(a.prompt_tokens_details?.image_tokens, b.prompt_tokens_details?.image_tokens),
      cached_tokens: sum(a.prompt_tokens_details?.cached_tokens, b.prompt_tokens_details?.cached_tokens),
    },
    completion_tokens_details: {
      image_tokens: sum(a.completion_tokens_details?.image_tokens, b.completion_tokens_details?.image_tokens),
    },
  }
}

/** Token usage in the format of OpenAI's image routes, and under the names of chat. */
function shownUsage(usage: Usage) {
  const { prompt_tokens, completion_tokens, total_tokens } = usage
  const inputImages = usage.prompt_tokens_details?.image_tokens ?? 0
  const outputImages = usage.completion_tokens_details?.image_tokens ?? 0
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: { text_tokens: prompt_tokens - inputImages, image_tokens: inputImages },
    output_tokens: completion_tokens,
    output_tokens_details: { text_tokens: completion_tokens - outputImages, image_tokens: outputImages },
    total_tokens,
    prompt_tokens,
    completion_tokens,
  }
}

async function presentImage(
  { services, organisationId, environment }: Delivery<'image'>,
  image: Image,
  format: 'url' | 'b64_json',
) {
  const { bytes, contentType, width, height, revisedPrompt } = image
  const revised = revisedPrompt === null ? undefined : { revised_prompt: revisedPrompt }
  const facts = { media_type: contentType, width, height }
  if (format === 'b64_json') return { b64_json: Buffer.from(bytes).toString('base64'), ...revised, ...facts }
  const { blobs, clock, config, files } = services
  const expiresAtMs = clock.now() + config.resultRetentionDays * dayMs
  const stored = await files.store(Readable.from([bytes]), {
    organisationId,
    environment,
    purpose: 'result',
    filename: `image.${extensionOf(contentType)}`,
    contentType,
    expiresAtMs,
  })
  const url = await blobs.signedUrl({ key: stored.storageKey, contentType }, expiresAtMs)
  return { url, ...revised, ...facts }
}
