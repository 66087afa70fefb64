import { sniff, sniffedBytes } from './media-type.ts'

export type ImageFacts = { contentType: string; width: number; height: number }

/** More than a camera or a model gives; a bomb has more. */
const mostPixels = 120_000_000
const decodable = /^image\/(?:png|jpeg|webp|gif|avif|tiff)$/

/** The type and size in pixels of an image that can be decoded to its last row; null for anything else. */
export async function examineImage(bytes: Uint8Array): Promise<ImageFacts | null> {
  const format = await sniff(bytes.subarray(0, sniffedBytes))
  if (!format || !canExamine(format.contentType)) return null
  const { default: sharp } = await import('sharp')
  const image = sharp(bytes, { failOn: 'error', limitInputPixels: mostPixels, sequentialRead: true })
  try {
    const { width, height } = await image.metadata()
    // Made from every row, and kept small.
    await image.resize(1, 1, { fit: 'fill', kernel: 'nearest', fastShrinkOnLoad: false }).raw().toBuffer()
    return { contentType: format.contentType, width, height }
  } catch {
    return null
  }
}

/** Whether images of a content type can be decoded here. */
export function canExamine(contentType: string): boolean {
  return decodable.test(contentType)
}
