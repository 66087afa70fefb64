import type { Buffer } from 'node:buffer'

/** One frame of MPEG layer III, in bytes and samples, with the sample rate in hertz. */
type Mp3Frame = { bytes: number; samples: number; rateHz: number }

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
  return { bytes, samples, rateHz }
}

/** The offset of the audio after an ID3v2 tag, whose first ten bytes are enough. */
export function offsetAfterTag(head: Buffer): number {
  if (head.length < 10 || head.toString('latin1', 0, 3) !== 'ID3') return 0
  const [a = 0, b = 0, c = 0, d = 0] = head.subarray(6, 10)
  return 10 + (((a & 127) << 21) | ((b & 127) << 14) | ((c & 127) << 7) | (d & 127))
}
