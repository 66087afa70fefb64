import type { Buffer } from 'node:buffer'
import { mp3Frame } from './mp3.ts'

/** Sound formats that begin with a mark, which the library of media-type.ts does not know. */
const marks: readonly [mark: RegExp, contentType: string][] = [
  [/^(?:RF64|BW64).{4}WAVE/s, 'audio/wav'],
  [/^riff\.\x91\xcf.\xa5\xd6\(\xdb/s, 'audio/x-w64'],
  [/^caff/, 'audio/x-caf'],
  [/^\.snd/, 'audio/basic'],
  [/^TTA[12]/, 'audio/x-tta'],
]
const markBytes = 16

/** The content type of further sound formats, by a file's first bytes; null for none. */
export function soundType(head: Buffer): string | null {
  const start = head.toString('latin1', 0, markBytes)
  return marks.find(([mark]) => mark.test(start))?.[1] ?? cutStreamType(head)
}

/** The most that precedes the first whole frame of a stream that was cut by bytes: the rest of a frame. */
const maxRestBytes = 2_048
const minFrames = 4

/** The type of frames that begin after zeros, or in the middle of a frame: files that were cut, and parts of streams. */
function cutStreamType(head: Buffer): string | null {
  const start = head.findIndex(byte => byte !== 0)
  if (start < 0) return null
  for (let at = start; at < Math.min(head.length, start + maxRestBytes); at++) {
    if (head[at] !== 0xff) continue
    if (hasFrames(head, at, mp3FrameAt)) return 'audio/mpeg'
    if (hasFrames(head, at, adtsFrameAt)) return 'audio/aac'
  }
  return null
}

type Frame = { bytes: number; rateHz: number }

/** Whether frames of one sample rate follow each other. */
function hasFrames(head: Buffer, start: number, frameAt: (head: Buffer, at: number) => Frame | null): boolean {
  const first = frameAt(head, start)
  let frames = 0
  for (let at = start, frame = first; frame && frame.rateHz === first?.rateHz; frame = frameAt(head, at)) {
    at += frame.bytes
    frames++
  }
  return frames >= minFrames
}

function mp3FrameAt(head: Buffer, at: number): Frame | null {
  return at + 4 <= head.length ? mp3Frame(head.readUInt32BE(at)) : null
}

/** An ADTS frame (ISO/IEC 13818-7); its rate is the index of one. */
function adtsFrameAt(head: Buffer, at: number): Frame | null {
  if (at + 7 > head.length || (head.readUInt16BE(at) & 0xfff6) !== 0xfff0) return null
  const rateHz = (head[at + 2]! >> 2) & 15
  const bytes = (head.readUInt32BE(at + 3) >>> 13) & 0x1fff
  return bytes > 7 && rateHz < 13 ? { bytes, rateHz } : null
}
