import type { Metadata } from 'sharp'
import { GatewayError } from '../base/errors.ts'
import { gate } from './gate.ts'
import { sniff, sniffedBytes } from './media-type.ts'

export type ImageFacts = { contentType: string; width: number; height: number }

/** More than models take or give; a bomb has more. */
const maxPixels = 50_000_000
/** A few rows are in memory at a time even of an image that is decoded row by row. */
const maxSide = 32_768
/** Of an image that has to be in memory as a whole: 25 megapixels of four bytes, 12.5 of 16-bit samples. */
const maxDecodedBytes = 100_000_000
const decodingSeconds = 20
const decodable = /^image\/(?:png|jpeg|webp|gif|avif|tiff)$/
/** What the decoder calls formats whose content type is another. */
const formatNames: Readonly<Record<string, string>> = { heif: 'avif' }

/** What image can be decoded, in words for the caller. */
export const imageLimits =
  'at most 50 megapixels, or 100 MB in memory where it is progressive, interlaced, WebP, GIF, AVIF or TIFF'

/** One after the other: each takes its memory. */
const decoding = gate(1)
let waiting = 0

/**
 * The type and size in pixels of an image that can be decoded to its last row; null for anything else, and for one beyond
 * `imageLimits`. Images are decoded one after the other; where more than `maxWaiting` wait already it throws a GatewayError
 * 503 `service_unavailable`.
 */
export async function examineImage(bytes: Uint8Array, maxWaiting = Infinity): Promise<ImageFacts | null> {
  const format = await sniff(bytes.subarray(0, sniffedBytes))
  if (!format || !canExamine(format.contentType)) return null
  if (waiting >= maxWaiting)
    throw new GatewayError('service_unavailable', 'Too many images are being decoded. Try again shortly.', {
      headers: { 'retry-after': '5' },
    })
  waiting++
  try {
    const size = await decoding(() => decode(bytes, format.contentType).catch(() => null))
    return size && { contentType: format.contentType, ...size }
  } finally {
    waiting--
  }
}

async function decode(bytes: Uint8Array, contentType: string): Promise<{ width: number; height: number } | null> {
  const { default: sharp } = await import('sharp')
  // Of an animation the first image alone is decoded.
  const image = sharp(bytes, { failOn: 'error', limitInputPixels: maxPixels, sequentialRead: true })
  const metadata = await image.metadata()
  const { format, width, height } = metadata
  if (`image/${formatNames[format] ?? format}` !== contentType) return null
  if (Math.max(width, height) > maxSide || width * height > maxPixels) return null
  if (bytesInMemory(metadata) > maxDecodedBytes) return null
  // Made from every row, and kept small.
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

/** What an image takes that its decoder holds as a whole; 0 where it goes row by row. */
function bytesInMemory({ format, width, height, channels, depth, isProgressive, chromaSubsampling }: Metadata): number {
  if ((format === 'png' || format === 'jpeg') && !isProgressive) return 0
  const perSample = sampleBytes[depth] ?? 1
  // A progressive JPEG is held as coefficients of 16 bits.
  if (format === 'jpeg') return width * height * 2 * (chromaSubsampling === '4:2:0' ? 1.5 : channels)
  // Decoders of these hold pixels with transparency, and AVIF's as 16 bits before.
  if (format === 'heif') return width * height * 8
  return width * height * Math.max(channels, format === 'png' ? 1 : 4) * perSample
}

/** Whether images of a content type can be decoded here. */
export function canExamine(contentType: string): boolean {
  return decodable.test(contentType)
}
