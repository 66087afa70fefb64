import { Readable } from 'node:stream'
import type { Source } from '../../../shared/providers/contract.ts'

/** Files as adapters see them, at addresses that providers could fetch. */

/** A file at an address of the caller's choice. */
export function sourceOf(
  url: string,
  contentType: string,
  durationS: number | null = null,
  bytes: Buffer = Buffer.from('bytes'),
): Source {
  return {
    contentType,
    bytes: bytes.length,
    filename: url.split('/').at(-1)!,
    durationS,
    url: async () => url,
    link: async () => url,
    base64: async () => bytes.toString('base64'),
    open: async () => Readable.from([bytes]),
  }
}

export const imageSource = sourceOf('https://files.example/face.png', 'image/png')
export const otherImage = sourceOf('https://files.example/other.jpg', 'image/jpeg', null, Buffer.from('other'))
export const videoSource = sourceOf('https://files.example/clip.mp4', 'video/mp4', 10.5)
export const audioSource = sourceOf('https://files.example/voice.mp3', 'audio/mpeg', 8)

export const pdfSource = sourceOf('https://files.example/report.pdf', 'application/pdf')

/** A file in a gateway that cannot be reached from outside: only its bytes tell of it. */
export function hidden(source: Source): Source {
  return { ...source, link: async () => `data:${source.contentType};base64,${await source.base64()}` }
}
export const hiddenImage = hidden(imageSource)
