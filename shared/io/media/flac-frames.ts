import { FileWindow } from './file-window.ts'
import type { RangeFile } from './media-file.ts'

const maxHeaderBytes = 16
const streamInfoBytes = 42
const polynomial = 0x07
/** Random bytes look like a header less than once in 16 MiB. */
const tolerance = { share: 0.02, seconds: 3 }

/**
 * Whether a FLAC file (RFC 9639) has no more frames than fill so many seconds. Searches at every byte, as players do,
 * whatever frame sizes its header states. True for other formats.
 */
export async function isFlacLengthPlausible(file: RangeFile, seconds: number): Promise<boolean> {
  const window = new FileWindow(file)
  const head = await window.at(0, streamInfoBytes)
  if (head.toString('latin1', 0, 4) !== 'fLaC' || head.length < streamInfoBytes) return true
  const rateHz = head.readUIntBE(18, 3) >> 4
  let samples = 0
  for (let at = streamInfoBytes; at < file.bytes; at++) {
    at = await window.find(0xff, at, file.bytes)
    if (at < 0) break
    samples += samplesIn(await window.at(at, maxHeaderBytes))
  }
  return samples / rateHz <= seconds * (1 + tolerance.share) + tolerance.seconds
}

/** Number of samples stated by a frame header; 0 if there is no header. */
function samplesIn(header: Buffer): number {
  const [, sync = 0, codes = 0, channels = 0, number = 0] = header
  // 15 sync bits and one reserved bit.
  if ((sync & 0xfe) !== 0xf8 || (channels & 1) !== 0 || number === 0xff) return 0
  const [size, rate] = [codes >> 4, codes & 15]
  if (size === 0 || rate === 15) return 0
  const sizeAt = 4 + Math.max(1, Math.clz32(~number << 24))
  const sizeBytes = size === 6 ? 1 : size === 7 ? 2 : 0
  const checkAt = sizeAt + sizeBytes + (rate === 12 ? 1 : rate > 12 ? 2 : 0)
  if (checkAt >= header.length || crc8(header.subarray(0, checkAt)) !== header[checkAt]) return 0
  if (sizeBytes > 0) return header.readUIntBE(sizeAt, sizeBytes) + 1
  return size === 1 ? 192 : size < 6 ? 144 * 2 ** size : 2 ** size
}

function crc8(bytes: Buffer): number {
  let value = 0
  for (const byte of bytes) {
    value ^= byte
    for (let bit = 0; bit < 8; bit++) value = ((value << 1) ^ (value & 0x80 ? polynomial : 0)) & 0xff
  }
  return value
}
