import type { MediaLength, RangeFile } from './media-packets.ts'

const mostChunks = 64
const formatBytes = 40
const codecs: Readonly<Record<number, readonly number[]>> = { 1: [8, 16, 24, 32], 3: [32, 64], 6: [8], 7: [8] }
const extensible = 0xfffe
/** Sizes from here on are not meant. */
const unknownBytes = 0x7fff_0000

/**
 * The length of a WAV file by the samples that are there. Its header states the sizes of the file and of a block, and a
 * rate, which players ignore and which therefore may be anything. Undefined when it is no WAV file; null when it is broken.
 */
export async function waveLength(file: RangeFile): Promise<MediaLength | null | undefined> {
  if (file.bytes < 12) return undefined
  const riff = Buffer.from(await file.read(0, 12))
  if (riff.toString('latin1', 0, 4) !== 'RIFF' || riff.toString('latin1', 8, 12) !== 'WAVE') return undefined
  let bytesPerSecond: number | null = null
  let at = 12
  for (let chunks = 0; at + 8 <= file.bytes && chunks < mostChunks; chunks++) {
    const header = Buffer.from(await file.read(at, at + 8))
    const [name, size] = [header.toString('latin1', 0, 4), header.readUInt32LE(4)]
    const start = at + 8
    // As with players, the first one counts.
    if (name === 'fmt ' && bytesPerSecond === null)
      bytesPerSecond = waveRate(Buffer.from(await file.read(start, Math.min(start + formatBytes, file.bytes))))
    if (name === 'data') {
      const there = file.bytes - start
      // A stream's header was written before its length was known; any other file was cut off.
      const isOfStream = size === 0 || size >= unknownBytes
      if (size > there && !isOfStream) return null
      const bytes = isOfStream ? there : size
      if (bytes === 0 || !bytesPerSecond) return null
      return { seconds: Math.round((bytes / bytesPerSecond) * 1e6) / 1e6, hasVideo: false, hasAudio: true }
    }
    at = start + size + (size % 2)
  }
  return null
}

/** Bytes per second of a `fmt ` chunk; 0 for a codec that is not plain samples. */
function waveRate(format: Buffer): number {
  if (format.length < 16) return 0
  const tag = format.readUInt16LE(0)
  const codec = tag === extensible && format.length >= 26 ? format.readUInt16LE(24) : tag
  const [channels, rate, bits] = [format.readUInt16LE(2), format.readUInt32LE(4), format.readUInt16LE(14)]
  return codecs[codec]?.includes(bits) ? (rate * channels * bits) / 8 : 0
}

const headerBytes = 44

/**
 * The header of a WAV file of mono samples of 16 bits. `dataBytes` null = their length is not known yet: the sizes are then
 * the largest there are, which players take for "to the end".
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
