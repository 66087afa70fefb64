import { FileWindow } from './file-window.ts'
import type { MediaLength, RangeFile } from './media-file.ts'
import { offsetAfterTag } from './mp3.ts'

const hertz = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350]
const samplesPerBlock = 1_024
const headerBytes = 7

/**
 * Measures AAC in ADTS frames (ISO/IEC 13818-7) by its frames, each at its own sample rate; like players, it
 * resynchronizes on the next frame after other bytes. Undefined if the file does not begin with a frame.
 */
export async function adtsLength(file: RangeFile): Promise<MediaLength | undefined> {
  const window = new FileWindow(file)
  let at = offsetAfterTag(await window.at(0, 10))
  let seconds = 0
  while (at >= 0 && at + headerBytes <= file.bytes) {
    const frame = frameOf(await window.at(at, headerBytes))
    if (frame && at + frame.bytes <= file.bytes) {
      seconds += frame.seconds
      at += frame.bytes
    } else if (seconds === 0) return undefined
    else at = await window.find(0xff, at + 1, file.bytes)
  }
  if (seconds === 0) return undefined
  return { seconds: Math.round(seconds * 1e6) / 1e6, hasVideo: false, hasAudio: true }
}

function frameOf(header: Buffer): { bytes: number; seconds: number } | null {
  // Twelve bits of sync, and layer 0.
  if (header.length < headerBytes || (header.readUInt16BE(0) & 0xfff6) !== 0xfff0) return null
  const rateHz = hertz[(header[2]! >> 2) & 15]
  const bytes = ((header[3]! & 3) << 11) | (header[4]! << 3) | (header[5]! >> 5)
  const blocks = (header[6]! & 3) + 1
  return rateHz === undefined || bytes < headerBytes ? null : { bytes, seconds: (blocks * samplesPerBlock) / rateHz }
}
