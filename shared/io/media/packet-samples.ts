import { mp3Frame } from './mp3.ts'

/** The duration of an audio packet in seconds, from its own bytes; null if they do not tell. */
export type PacketSeconds = (data: Uint8Array) => number | null

export type SoundConfig = { codec: string; sampleRate: number; description?: Uint8Array | undefined }

/**
 * Measures the packets of a codec whatever timestamps the container has, which players ignore when they decode to
 * samples. Undefined for codecs whose packets do not tell.
 */
export function packetSeconds({ codec, sampleRate, description }: SoundConfig): PacketSeconds | undefined {
  if (codec === 'mp3' || codec === 'mp4a.40.34' || codec.startsWith('mp4a.6')) return mp3Seconds
  if (codec.startsWith('mp4a.40') || codec === 'aac') {
    const seconds = aacFrameSamples / (description ? coreRateHz(description, sampleRate) : sampleRate)
    return () => seconds
  }
  if (codec === 'opus') return opusSeconds
  if (codec === 'flac') return data => flacSamples(data) / sampleRate
  return undefined
}

const aacFrameSamples = 1_024
const aacHertz = [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350]

/** The sample rate of an AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1) before spectral band replication doubles it. */
function coreRateHz(config: Uint8Array, otherwise: number): number {
  const bits = [...config.subarray(0, 8)].map(byte => byte.toString(2).padStart(8, '0')).join('')
  const at = bits.startsWith('11111') ? 11 : 5
  const index = Number.parseInt(bits.slice(at, at + 4), 2)
  const rate = index === 15 ? Number.parseInt(bits.slice(at + 4, at + 28), 2) : aacHertz[index]
  return rate || otherwise
}

/** RFC 6716, 3.1: the first byte (TOC) encodes the frame duration, and whether there are one, two or more frames. */
function opusSeconds(data: Uint8Array): number | null {
  const [toc, count = 0] = data
  if (toc === undefined) return null
  const config = toc >> 3
  const frameMs =
    config < 12 ? [10, 20, 40, 60][config & 3]! : config < 16 ? [10, 20][config & 1]! : 2.5 * 2 ** (config & 3)
  const frames = [1, 2, 2, count & 63][toc & 3]!
  return (frames * frameMs) / 1_000
}

/** The sum over all frames of a packet, as players split it. */
function mp3Seconds(data: Uint8Array): number | null {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  let seconds = 0
  for (let at = 0; at + 4 <= bytes.length; ) {
    const frame = mp3Frame(bytes.readUInt32BE(at))
    if (!frame) break
    seconds += frame.samples / frame.rateHz
    at += frame.bytes
  }
  return seconds || null
}

/** Samples of a FLAC frame (RFC 9639, 9.1.1). */
function flacSamples(data: Uint8Array): number {
  const code = data.length > 2 ? data[2]! >> 4 : 0
  if (code === 1) return 192
  if (code >= 2 && code <= 5) return 144 * 2 ** code
  if (code >= 8) return 2 ** code
  // After the frame number, which is coded like a UTF-8 character.
  const at = 4 + Math.max(1, Math.clz32(~(data[4] ?? 0) << 24))
  if (code === 6) return (data[at] ?? 0) + 1
  return ((data[at] ?? 0) << 8) + (data[at + 1] ?? 0) + 1
}
