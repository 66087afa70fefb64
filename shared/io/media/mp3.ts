import type { Buffer } from 'node:buffer'
import { FileWindow } from './file-window.ts'
import type { MediaLength, RangeFile } from './media-file.ts'

/** One frame of MPEG layer III, in bytes and samples, with the sample rate in hertz. */
export type Mp3Frame = { bytes: number; samples: number; rateHz: number; isMpeg1: boolean; isMono: boolean }

const kilobits = {
  mpeg1: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0],
  mpeg2: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0],
}
const hertz = [44_100, 48_000, 32_000, 0]

/** Parses a frame header (ISO/IEC 11172-3 and 13818-3, layer III); null if it is not one. */
export function mp3Frame(header: number): Mp3Frame | null {
  const version = (header >>> 19) & 3
  if (header >>> 21 !== 0x7ff || version === 1 || ((header >>> 17) & 3) !== 1) return null
  const isMpeg1 = version === 3
  const bitRate = kilobits[isMpeg1 ? 'mpeg1' : 'mpeg2'][(header >>> 12) & 15]! * 1_000
  const rateHz = hertz[(header >>> 10) & 3]! / (isMpeg1 ? 1 : version === 2 ? 2 : 4)
  if (bitRate === 0 || rateHz === 0) return null
  const samples = isMpeg1 ? 1_152 : 576
  const bytes = Math.floor(((samples / 8) * bitRate) / rateHz) + ((header >>> 9) & 1)
  return { bytes, samples, rateHz, isMpeg1, isMono: ((header >>> 6) & 3) === 3 }
}

/** The offset of the audio after an ID3v2 tag, whose first ten bytes are enough. */
export function offsetAfterTag(head: Buffer): number {
  if (head.length < 10 || head.toString('latin1', 0, 3) !== 'ID3') return 0
  const [a = 0, b = 0, c = 0, d = 0] = head.subarray(6, 10)
  return 10 + (((a & 127) << 21) | ((b & 127) << 14) | ((c & 127) << 7) | (d & 127))
}

/** Tags and corrupt bytes; a file with more is measured by its packets instead. */
const maxUnparsedBytes = 64 * 1024
/** Bytes of an encoder's info frame that contain its frame count. */
const infoBytes = 64
/** A file that states this share more frames than are present is truncated. */
const missingShare = 0.01

/**
 * Measures an MP3 file by its frames, whatever its tags state. Undefined if it is not plain MP3; null if it has no
 * frame, or fewer than its encoder states. An incomplete last frame does not count, as players ignore it.
 */
export async function mp3Length(file: RangeFile): Promise<MediaLength | null | undefined> {
  const window = new FileWindow(file)
  const start = offsetAfterTag(await window.at(0, 10))
  const first = await frameAt(window, start)
  if (!first) return undefined
  const stated = framesStated(await window.at(start, first.bytes + infoBytes), first)
  let at = stated === null ? start : start + first.bytes
  let frames = 0
  let seconds = 0
  let unparsedBytesLeft = maxUnparsedBytes
  for (;;) {
    const frame = await frameAt(window, at)
    if (frame && at + frame.bytes <= file.bytes) {
      frames++
      seconds += frame.samples / frame.rateHz
      at += frame.bytes
      continue
    }
    const next = await findNextFrame(window, at + 1, at + unparsedBytesLeft, first)
    if (next === null) {
      if (at + unparsedBytesLeft < file.bytes) return undefined
      break
    }
    unparsedBytesLeft -= next - at
    at = next
  }
  if (frames === 0 || (stated !== null && frames < Math.floor(stated * (1 - missingShare)))) return null
  return { seconds: Math.round(seconds * 1e6) / 1e6, hasVideo: false, hasAudio: true }
}

async function frameAt(window: FileWindow, at: number): Promise<Mp3Frame | null> {
  const header = await window.at(at, 4)
  return header.length < 4 ? null : mp3Frame(header.readUInt32BE())
}

/**
 * The offset at which frames continue after other bytes, if before `until`: a frame like the first, as players assume,
 * or two consecutive frames, or one that ends the file.
 */
async function findNextFrame(window: FileWindow, from: number, until: number, first: Mp3Frame): Promise<number | null> {
  for (let at = from; at < until && at + 4 <= window.bytes; at++) {
    at = await window.find(0xff, at, until)
    if (at < 0) return null
    const frame = await frameAt(window, at)
    if (!frame) continue
    const end = at + frame.bytes
    if (frame.rateHz === first.rateHz && frame.isMpeg1 === first.isMpeg1 && end <= window.bytes) return at
    if (end === window.bytes || (await frameAt(window, end))) return at
  }
  return null
}

/** The number of frames stated by the encoder's info frame (Xing, Info); null if there is none. */
function framesStated(bytes: Buffer, { isMpeg1, isMono }: Mp3Frame): number | null {
  const at = 4 + (isMpeg1 ? (isMono ? 17 : 32) : isMono ? 9 : 17)
  const name = bytes.toString('latin1', at, at + 4)
  if ((name !== 'Xing' && name !== 'Info') || bytes.length < at + 12) return null
  return bytes.readUInt32BE(at + 4) & 1 ? bytes.readUInt32BE(at + 8) : 0
}
