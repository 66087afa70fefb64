import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import type { Usage } from '../base/usage.ts'
import { atMost } from '../io/bytes.ts'
import { canExamine, examineImage, type ImageFacts, imageLimits } from '../io/images.ts'
import { extensionOf } from '../io/media-type.ts'
import {
  type ImagePreview,
  type ImageRequest,
  type ImageSettings,
  type OnPreview,
  type ProviderImage,
  sizeName,
} from '../kinds/image.ts'
import { noQuantity, type Quantity } from '../kinds/instant.ts'
import type { References } from '../kinds/media.ts'
import { openProviderFile } from '../media/results.ts'
import { ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { type Delivered, type Delivery, drained } from './delivery.ts'
import { brokenEvent, lastEvent, namedEventOf } from './events.ts'
import { done } from './work.ts'

/** Ten of them in base64 are what fits into one answer. */
const mostBytes = 32 * 1024 * 1024
/** Of requests; images that providers made wait as long as it takes. */
const maxImagesWaiting = 100
/** What an image of a megapixel is counted as, where a provider that is paid by the token does not count. */
const usualTokens = 1_290

type Image = ImageFacts & { bytes: Uint8Array; revisedPrompt: string | null }

/**
 * Has images made, keeps those that can be decoded, and answers with them: at once, or in an event each, after those of their
 * previews. Throws a ProviderError as long as the client has seen nothing, `invalid_response` where no image can be decoded.
 */
export async function deliverImages(
  delivery: Delivery<'image'>,
  { stream, response_format }: Pick<ImageRequest, 'stream' | 'response_format'>,
): Promise<Delivered> {
  const { client, work } = delivery
  let hasBegun = false
  const show = async (preview: ImagePreview) => {
    if (client.gone) return
    if (!hasBegun) delivery.began()
    hasBegun = true
    if (!delivery.send(previewEvent(delivery, preview))) await drained(delivery)
  }
  try {
    const drawn = await made(delivery, show)
    if (!hasBegun) delivery.began()
    return await answer(delivery, drawn, stream === true, response_format ?? 'b64_json')
  } catch (error) {
    // Nobody has seen anything of it, or nobody waits for it any more: what becomes of it is decided elsewhere.
    if (!hasBegun || !(error instanceof ProviderError) || work.call.signal.aborted) throw error
    delivery.send(brokenEvent)
    client.end()
    return { quantity: noQuantity, error }
  }
}

type Drawn = { images: Image[]; usage: Usage | null; settings: ImageSettings; lost: number }

async function answer(
  delivery: Delivery<'image'>,
  { images, usage, settings, lost }: Drawn,
  stream: boolean,
  format: 'url' | 'b64_json',
): Promise<Delivered> {
  const quantity = quantityOf(delivery, images.length, lost, usage)
  if (delivery.client.gone && stream) return { quantity, error: null }
  const costNano = delivery.costNano(quantity)
  const data = await Promise.all(images.map(image => presented(delivery, image, format)))
  const { target } = delivery.work.call
  const about = {
    model: target.model.id,
    provider: target.provider.name,
    usage: { ...(usage && shownUsage(quantity.usage)), cost: costNano / 1e9 },
  }
  const created = Math.floor(delivery.startedMs / 1000)
  const look = images.map(({ contentType, width, height }) => ({
    size: `${width}x${height}`,
    ...shownSettings(delivery, settings),
    output_format: contentType.replace('image/', ''),
  }))
  if (stream) {
    const type = typeOf(delivery, 'completed')
    for (const [i, image] of data.entries())
      delivery.send(
        namedEventOf({ type, created_at: created, ...image, ...look[i], ...(i === data.length - 1 && about) }),
      )
    delivery.send(lastEvent)
    delivery.client.end()
  } else delivery.client.answer(delivery.headers(costNano), JSON.stringify({ created, ...look[0], data, ...about }))
  return { quantity, error: null }
}

function previewEvent(delivery: Delivery<'image'>, { base64, index, size, settings }: ImagePreview): string {
  const { input, startedMs } = delivery
  return namedEventOf({
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

/** What was drawn as the provider says it, else what was asked for. */
function shownSettings({ input }: Delivery<'image'>, { quality, background }: ImageSettings) {
  return { quality: quality ?? input.quality ?? 'auto', background: background ?? input.background ?? 'auto' }
}

/** Looks at the images that a request refers to. Throws 400 naming the field of one that cannot be decoded, and 503. */
export async function checkPictures(services: Services, references: References): Promise<void> {
  for (const [field, reference] of Object.entries(references)) {
    if (!canExamine(reference.contentType)) continue
    const stored = await services.blobs.read(reference.storageKey)
    if (stored && (await examineImage(await buffer(stored.stream), maxImagesWaiting))) continue
    const problem = `The image cannot be decoded, or is too large to be: ${imageLimits}.`
    throw new GatewayError('invalid_request', problem, { param: field })
  }
}

/** All images of a request, by as many calls as the provider needs. One that fails leaves those of the others. */
async function made({ services, work }: Delivery<'image'>, onPreview: OnPreview): Promise<Drawn> {
  const { call, adapter, line } = work
  const { n, previews } = call.input
  const most = previews > 0 ? 1 : (adapter.mostPieces?.(call.target) ?? n)
  const counts = Array.from({ length: Math.ceil(n / most) }, (_, i) => Math.min(most, n - i * most))
  const calls = await Promise.allSettled(
    counts.map(async count => {
      const output = await done<'image'>({ ...work, call: { ...call, onPreview, input: { ...call.input, n: count } } })
      const looks = await Promise.allSettled(output.images.slice(0, count).map(image => examined(image)))
      const unfetched = looks.find(look => look.status === 'rejected')
      if (unfetched && looks.every(look => look.status === 'rejected')) throw unfetched.reason
      // One that cannot be fetched is as good as one that cannot be decoded.
      return {
        images: looks.map(look => (look.status === 'fulfilled' ? look.value : null)),
        usage: output.usage,
        settings: output.settings,
      }
    }),
  )
  const answers = calls.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
  const images = answers.flatMap(answer => answer.images)
  const good = images.filter(image => image !== null)
  if (good.length === 0) {
    const failed = calls.find(result => result.status === 'rejected')
    throw failed?.reason ?? new ProviderError('invalid_response', 'The provider’s answer has no image.')
  }
  const usages = answers.map(answer => answer.usage)
  const usage = usages.includes(null) ? null : (usages as Usage[]).reduce(plus)
  const settings = answers.find(answer => answer.settings)?.settings ?? {}
  return { images: good, usage, settings, lost: images.length - good.length }

  async function examined(image: ProviderImage): Promise<Image | null> {
    const bytes = 'bytes' in image ? image.bytes : await downloaded(image.url)
    if (bytes.length > mostBytes) return null
    const facts = await examineImage(bytes)
    return facts && { ...facts, bytes, revisedPrompt: image.revisedPrompt }
  }

  async function downloaded(url: string): Promise<Uint8Array> {
    const { body } = await openProviderFile(services, line, url, call.signal)
    const tooLarge = () => new ProviderError('invalid_response', 'The provider’s image is larger than 32 MiB.')
    return buffer(Readable.from(atMost(body, mostBytes, tooLarge)))
  }
}

/** What is billed: images that cannot be decoded are not, nor their share of the tokens. */
function quantityOf({ input }: Delivery<'image'>, good: number, lost: number, counted: Usage | null): Quantity {
  const images = counted?.completion_tokens ?? usualTokens * (good + lost)
  const billed = lost === 0 ? images : Math.ceil((images * good) / (good + lost))
  const usage: Usage = counted
    ? {
        ...counted,
        completion_tokens: billed,
        total_tokens: counted.prompt_tokens + billed,
        ...(lost > 0 && { completion_tokens_details: { image_tokens: billed } }),
      }
    : {
        prompt_tokens: 0,
        completion_tokens: billed,
        total_tokens: billed,
        completion_tokens_details: { image_tokens: billed },
        estimated: true,
      }
  return { ...noQuantity, usage, pieces: good, size: sizeName(input) }
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

/** Token usage as OpenAI's image routes have it, and under the names of chat. */
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

async function presented(
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
