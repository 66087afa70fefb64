import { type Bytes, closeBody, peek, prependParts } from '../io/bytes.ts'
import { type MediaFormat, sniff, sniffedBytes } from '../io/media/media-type.ts'
import { mp3Frame, offsetAfterTag } from '../io/media/mp3.ts'
import { type SoundFormat, soundTypes } from '../kinds/sound.ts'
import { ProviderError } from '../providers/provider-error.ts'

/** Maximum bytes of cover art and tags before the first frame. */
const maxHeadBytes = 2 * 1024 * 1024

/** Audio whose first frame has arrived: its content type and all its bytes. */
export type StartedSound = { contentType: string; body: Bytes }

/**
 * Waits for the first complete audio frame, so that a file without audio is neither delivered nor billed. `format`: the
 * required format; null = any format detected from the bytes. Throws a ProviderError `invalid_response`, and errors of
 * the body.
 */
export async function awaitFirstFrame(source: Bytes, format: SoundFormat | null): Promise<StartedSound> {
  if (format === null) return detectSound(source)
  const iterator = source[Symbol.asyncIterator]()
  const parts: Uint8Array[] = []
  let bytes = 0
  let nextCheckBytes = 1
  while (bytes < maxHeadBytes) {
    const { done, value } = await iterator.next()
    if (!done) {
      parts.push(value)
      bytes += value.length
      if (bytes < nextCheckBytes) continue
    }
    const head = Buffer.concat(parts)
    const state = detectFrame[format](head)
    if (state === 'frame') return { contentType: soundTypes[format], body: prependParts(parts, iterator) }
    if (state === 'never' || done) break
    // Each check starts from the first byte; the growing interval keeps the total cost low.
    nextCheckBytes = bytes + Math.ceil(bytes / 4)
  }
  await iterator.return?.()
  throw noSoundError()
}

async function detectSound(source: Bytes): Promise<StartedSound> {
  const { head, body } = await peek(source, sniffedBytes)
  const format = await sniff(head)
  const soundFormat = format && formatOf(format)
  if (soundFormat) return awaitFirstFrame(body, soundFormat)
  if (format?.type === 'audio' || format?.type === 'video')
    return { contentType: format.contentType.replace(/^video\//, 'audio/'), body }
  await closeBody(body)
  throw noSoundError()
}

function formatOf({ contentType }: MediaFormat): SoundFormat | null {
  const formats = Object.entries(soundTypes) as [SoundFormat, string][]
  return formats.find(([, type]) => type === contentType)?.[0] ?? null
}

function noSoundError(): ProviderError {
  return new ProviderError('invalid_response', 'The provider’s answer has no sound.')
}

/** Bytes needed to detect a leading tag. */
const tagBytes = 10

/** `more` = undecided; `never` = not this format. */
type FrameState = 'frame' | 'more' | 'never'

const detectFrame: Record<SoundFormat, (head: Buffer) => FrameState> = {
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
    const at = offsetAfterTag(head)
    if (Math.max(at + 4, tagBytes) > head.length) return 'more'
    const frame = mp3Frame(head.readUInt32BE(at))
    return frame === null ? 'never' : at + frame.bytes <= head.length ? 'frame' : 'more'
  },
  aac: head => {
    const at = offsetAfterTag(head)
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
      // Header pages are at position 0; the first page after them holds audio.
      if (head.readBigInt64LE(at + 6) > 0n && bytes > 0) return end <= head.length ? 'frame' : 'more'
      at = end
    }
    return 'more'
  },
}

function beginsWith(head: Buffer, magic: string): boolean {
  return head.toString('latin1', 0, magic.length) === magic.slice(0, head.length)
}
