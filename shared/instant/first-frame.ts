import { type Bytes, close, peek, resumed } from '../io/bytes.ts'
import { type MediaFormat, sniff, sniffedBytes } from '../io/media-type.ts'
import { afterTag, mp3Frame } from '../io/mp3.ts'
import { type SoundFormat, soundTypes } from '../kinds/sound.ts'
import { ProviderError } from '../providers/contract.ts'

/** Covers and tags may stand before the sound, but not for ever. */
const mostHeadBytes = 2 * 1024 * 1024

/** Sound that has begun: its type, and its bytes from the first one on. */
export type Begun = { contentType: string; body: Bytes }

/**
 * Waits for the first whole frame of sound, so that nothing is answered or billed for a file without any. `format`: what it
 * must be; null = any sound that its bytes show. Throws a ProviderError `invalid_response`, and what the body fails with.
 */
export async function begun(source: Bytes, format: SoundFormat | null): Promise<Begun> {
  if (format === null) return anySound(source)
  const iterator = source[Symbol.asyncIterator]()
  const parts: Uint8Array[] = []
  let bytes = 0
  let nextLookBytes = 1
  while (bytes < mostHeadBytes) {
    const { done, value } = await iterator.next()
    if (!done) {
      parts.push(value)
      bytes += value.length
      if (bytes < nextLookBytes) continue
    }
    const head = Buffer.concat(parts)
    const found = frameIn[format](head)
    if (found === 'frame') return { contentType: soundTypes[format], body: resumed(parts, iterator) }
    if (found === 'never' || done) break
    // Looked at anew from its beginning each time: seldom enough that it stays cheap.
    nextLookBytes = bytes + Math.ceil(bytes / 4)
  }
  await iterator.return?.()
  throw silent()
}

async function anySound(source: Bytes): Promise<Begun> {
  const { head, body } = await peek(source, sniffedBytes)
  const format = await sniff(head)
  const known = format && formatOf(format)
  if (known) return begun(body, known)
  if (format?.type === 'audio' || format?.type === 'video')
    return { contentType: format.contentType.replace(/^video\//, 'audio/'), body }
  await close(body)
  throw silent()
}

function formatOf({ contentType }: MediaFormat): SoundFormat | null {
  const formats = Object.entries(soundTypes) as [SoundFormat, string][]
  return formats.find(([, type]) => type === contentType)?.[0] ?? null
}

function silent(): ProviderError {
  return new ProviderError('invalid_response', 'The provider’s answer has no sound.')
}

/** So many bytes tell whether a tag comes first. */
const tagBytes = 10

/** `more` = it may still come; `never` = these are not bytes of the format. */
type Found = 'frame' | 'more' | 'never'

const frameIn: Record<SoundFormat, (head: Buffer) => Found> = {
  pcm: head => (head.length >= 2 ? 'frame' : 'more'),
  wav: head => {
    if (!beginsWith(head, 'RIFF')) return 'never'
    for (let at = 12; at + 8 <= head.length; at += 8 + head.readUInt32LE(at + 4) + (head.readUInt32LE(at + 4) % 2)) {
      if (at === 12 && head.toString('latin1', 8, 12) !== 'WAVE') return 'never'
      if (head.toString('latin1', at, at + 4) === 'data') return head.length > at + 8 ? 'frame' : 'more'
    }
    return 'more'
  },
  mp3: head => {
    const at = afterTag(head)
    if (Math.max(at + 4, tagBytes) > head.length) return 'more'
    const frame = mp3Frame(head.readUInt32BE(at))
    return frame === null ? 'never' : at + frame.bytes <= head.length ? 'frame' : 'more'
  },
  aac: head => {
    const at = afterTag(head)
    if (Math.max(at + 7, tagBytes) > head.length) return 'more'
    if ((head.readUInt16BE(at) & 0xfff6) !== 0xfff0) return 'never'
    const bytes = ((head[at + 3]! & 3) << 11) | (head[at + 4]! << 3) | (head[at + 5]! >> 5)
    return bytes <= 7 ? 'never' : at + bytes <= head.length ? 'frame' : 'more'
  },
  flac: head => {
    if (!beginsWith(head, 'fLaC')) return 'never'
    for (let at = 4, last = false; !last; ) {
      if (at + 4 > head.length) return 'more'
      last = (head[at]! & 0x80) !== 0
      at += 4 + head.readUIntBE(at + 1, 3)
      // A frame has a header of at least five bytes, a subframe and a checksum.
      if (last && at + 8 <= head.length) return (head.readUInt16BE(at) & 0xfffe) === 0xfff8 ? 'frame' : 'never'
    }
    return 'more'
  },
  opus: head => {
    if (!beginsWith(head, 'OggS')) return 'never'
    for (let at = 0; at + 27 <= head.length; ) {
      if (head.toString('latin1', at, at + 4) !== 'OggS') return 'never'
      const segments = head[at + 26]!
      if (at + 27 + segments > head.length) return 'more'
      const bytes = head.subarray(at + 27, at + 27 + segments).reduce((sum, size) => sum + size, 0)
      const end = at + 27 + segments + bytes
      // Pages of headers are at position 0; the first one behind them holds sound.
      if (head.readBigInt64LE(at + 6) > 0n && bytes > 0) return end <= head.length ? 'frame' : 'more'
      at = end
    }
    return 'more'
  },
}

function beginsWith(head: Buffer, magic: string): boolean {
  return head.toString('latin1', 0, magic.length) === magic.slice(0, head.length)
}
