import type { Metadata } from 'sharp'
import { GatewayError } from '../../base/errors.ts'
import { FairSlots, type SlotOwner } from '../fair-slots.ts'
import { semaphore } from '../semaphore.ts'
import { sniff, sniffedBytes } from './media-type.ts'

export type ImageFacts = { contentType: string; width: number; height: number }

/** More than models accept or produce; a decompression bomb has more. */
const maxPixels = 50_000_000
/** Even an image that is decoded row by row keeps a few rows in memory. */
const maxSide = 32_768
/** For an image that is decoded as a whole: 25 megapixels of four bytes, 12.5 of 16-bit samples. */
const maxDecodedBytes = 100_000_000
const decodingSeconds = 20
const decodable = /^image\/(?:png|jpeg|webp|gif|avif|tiff)$/
/** Decoder format names that differ from the content type. */
const formatNames: Readonly<Record<string, string>> = { heif: 'avif' }

/** The limits of decodable images, as text for the caller. */
export const imageLimits =
  'at most 50 megapixels, or 100 MB in memory where it is progressive, interlaced, WebP, GIF, AVIF or TIFF'

/** One at once: each decoding needs its own memory. */
const limitDecoding = semaphore(1)
/** One image of a request at a time is with the decoder, so that those of answers, which are paid, wait behind no more than one. */
const requestSlots = new FairSlots({ slots: 1, testSlots: 1 })
const requestWaitMs = 30_000
const unknownOwner: SlotOwner = { organisationId: '', environment: 'live' }

/**
 * Returns the type and size in pixels of an image that can be decoded completely; null for anything else, and beyond
 * `imageLimits`. Images are decoded one after the other; a stored one is read when it is its turn. Those of requests, with a
 * limit of `maxWaiting` images at once, are taken fairly by `owner`; beyond the limit, and after 30 s, it throws a
 * GatewayError 503 `service_unavailable`.
 */
export async function examineImage(
  image: Uint8Array | (() => Promise<Uint8Array>),
  maxWaiting = Infinity,
  owner: SlotOwner = unknownOwner,
): Promise<ImageFacts | null> {
  const examine = () => limitDecoding(async () => factsOf(typeof image === 'function' ? await image() : image))
  const limits = { waitMs: requestWaitMs, maxWaiting: maxWaiting - 1 }
  const examined =
    maxWaiting === Infinity ? { result: await examine() } : await requestSlots.run(owner, limits, examine)
  if (examined) return examined.result
  throw new GatewayError('service_unavailable', 'Too many images are being decoded. Try again shortly.', {
    headers: { 'retry-after': '5' },
  })
}

async function factsOf(bytes: Uint8Array): Promise<ImageFacts | null> {
  const format = await sniff(bytes.subarray(0, sniffedBytes))
  if (!format || !canDecode(format.contentType)) return null
  const size = await decode(bytes, format.contentType).catch(() => null)
  return size && { contentType: format.contentType, ...size }
}

async function decode(bytes: Uint8Array, contentType: string): Promise<{ width: number; height: number } | null> {
  const { default: sharp } = await import('sharp')
  // Only the first frame of an animation is decoded.
  const image = sharp(bytes, { failOn: 'error', limitInputPixels: maxPixels, sequentialRead: true })
  const metadata = await image.metadata()
  const { format, width, height } = metadata
  if (`image/${formatNames[format] ?? format}` !== contentType) return null
  if (Math.max(width, height) > maxSide || width * height > maxPixels) return null
  if (bytesInMemory(metadata) > maxDecodedBytes) return null
  // A small result that still requires decoding every row.
  image.resize(1, 1, { fit: 'fill', kernel: 'nearest', fastShrinkOnLoad: false }).timeout({ seconds: decodingSeconds })
  await image.raw().toBuffer()
  return { width, height }
}

const sampleBytes: Readonly<Record<string, number>> = {
  ushort: 2,
  short: 2,
  uint: 4,
  int: 4,
  float: 4,
  complex: 8,
  double: 8,
}

/** Memory for an image whose decoder holds it as a whole; 0 if it is decoded row by row. */
function bytesInMemory({ format, width, height, channels, depth, isProgressive, chromaSubsampling }: Metadata): number {
  if ((format === 'png' || format === 'jpeg') && !isProgressive) return 0
  const perSample = sampleBytes[depth] ?? 1
  // A progressive JPEG is held as 16-bit coefficients.
  if (format === 'jpeg') return width * height * 2 * (chromaSubsampling === '4:2:0' ? 1.5 : channels)
  // These decoders hold pixels with alpha, and AVIF first as 16-bit samples.
  if (format === 'heif') return width * height * 8
  return width * height * Math.max(channels, format === 'png' ? 1 : 4) * perSample
}

/** Whether images of this content type can be decoded. */
export function canDecode(contentType: string): boolean {
  return decodable.test(contentType)
}
