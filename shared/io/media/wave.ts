import type { MediaLength, RangeFile } from './media-file.ts'

const maxChunks = 1_000
const formatBytes = 40
const codecs: Readonly<Record<number, readonly number[]>> = { 1: [8, 16, 24, 32], 3: [32, 64], 6: [8], 7: [8] }
const extensible = 0xfffe
/** Sizes from here on mean "unknown". */
const unknownBytes = 0x7fff_0000
const waveFile = /^(?:RIFF|RF64|BW64)....WAVE$/s
const chunkName = /^[\x20-\x7e]{4}$/

/**
 * Measures a WAV file by the samples present: of all `data` chunks, as players play them, or of all bytes from where
 * chunks can no longer be told apart. The header states file and block sizes and a byte rate, which players ignore and
 * which therefore may be wrong. Undefined if it is not a WAV file; null if it is broken.
 */
export async function waveLength(file: RangeFile): Promise<MediaLength | null | undefined> {
  if (file.bytes < 12) return undefined
  const riff = Buffer.from(await file.read(0, 12)).toString('latin1')
  if (!waveFile.test(riff)) return riff.startsWith('RIFX') ? null : undefined
  let bytesPerSecond = Infinity
  let soundBytes = 0
  let isUnclear = false
  let at = 12
  for (let chunks = 0; at + 8 <= file.bytes; chunks++) {
    const header = Buffer.from(await file.read(at, at + 8))
    const [name, size] = [header.toString('latin1', 0, 4), header.readUInt32LE(4)]
    const rest = file.bytes - at - 8
    const isSound = name === 'data'
    if (name === 'fmt ') {
      // Players differ on which one applies.
      const format = Buffer.from(await file.read(at + 8, Math.min(at + 8 + formatBytes, file.bytes)))
      bytesPerSecond = Math.min(bytesPerSecond, waveRate(format))
    }
    // A streamed file's header was written before its length was known; any other such file is truncated.
    const isOfStream = isSound && (size === 0 || size >= unknownBytes)
    const isBroken = !isOfStream && (size > rest || chunks >= maxChunks || !chunkName.test(name))
    if (isBroken && soundBytes === 0) return null
    // Some players expect a byte of padding behind an odd number of bytes, others do not.
    isUnclear ||= size % 2 === 1 && rest - size > 1
    if (isOfStream || isBroken || (isUnclear && (isSound || soundBytes > 0))) {
      soundBytes += isBroken ? rest + 8 : rest
      break
    }
    if (isSound) soundBytes += size
    at += 8 + size + (size % 2)
  }
  if (soundBytes === 0 || bytesPerSecond === 0 || bytesPerSecond === Infinity) return null
  return { seconds: Math.round((soundBytes / bytesPerSecond) * 1e6) / 1e6, hasVideo: false, hasAudio: true }
}

/** Bytes per second of a `fmt ` chunk; 0 for a codec that is not plain samples. */
function waveRate(format: Buffer): number {
  if (format.length < 16) return 0
  const tag = format.readUInt16LE(0)
  const isExtensible = tag === extensible && format.length >= 26
  const codec = isExtensible ? format.readUInt16LE(24) : tag
  const [channels, rate, bits] = [format.readUInt16LE(2), format.readUInt32LE(4), format.readUInt16LE(14)]
  // Not all bits of a sample need to be valid; players may treat the valid ones as all.
  const validBits = isExtensible ? Math.ceil(format.readUInt16LE(18) / 8) * 8 : 0
  if (!codecs[codec]?.includes(bits)) return 0
  return (rate * channels * Math.min(bits, validBits || bits)) / 8
}

const headerBytes = 44

/**
 * Creates the header of a WAV file with mono 16-bit samples. `dataBytes` null = the length is not known yet: the sizes
 * are then the maximum, which players interpret as "to the end".
 */
export function waveHeader(sampleRateHz: number, dataBytes: number | null): Buffer {
  const unknown = 0xffff_ffff
  const header = Buffer.alloc(headerBytes)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(dataBytes === null ? unknown : headerBytes - 8 + dataBytes, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRateHz, 24)
  header.writeUInt32LE(sampleRateHz * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(dataBytes ?? unknown, 40)
  return header
}
