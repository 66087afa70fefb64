import { gate } from './gate.ts'
import { sniff, sniffedBytes } from './media-type.ts'

export type ImageFacts = { contentType: string; width: number; height: number }

/** More than models take or give; a bomb has more. */
const mostPixels = 50_000_000
/** Some kinds of files have to be in memory as a whole, with all their pixels. */
const mostAtOnce = 2
const decodable = /^image\/(?:png|jpeg|webp|gif|avif|tiff)$/

const decoding = gate(mostAtOnce)

/**
 * The type and size in pixels of an image that can be decoded to its last row; null for anything else, and for one of more
 * than 50 megapixels.
 */
export async function examineImage(bytes: Uint8Array): Promise<ImageFacts | null> {
  const format = await sniff(bytes.subarray(0, sniffedBytes))
  if (!format || !canExamine(format.contentType)) return null
  const size = await decoding(() => decoded(bytes).catch(() => null))
  return size && { contentType: format.contentType, ...size }
}

async function decoded(bytes: Uint8Array) {
  const { default: sharp } = await import('sharp')
  const image = sharp(bytes, { failOn: 'error', limitInputPixels: mostPixels, sequentialRead: true })
  const { width, height } = await image.metadata()
  // Made from every row, and kept small.
  await image.resize(1, 1, { fit: 'fill', kernel: 'nearest', fastShrinkOnLoad: false }).raw().toBuffer()
  return { width, height }
}

/** Whether images of a content type can be decoded here. */
export function canExamine(contentType: string): boolean {
  return decodable.test(contentType)
}
