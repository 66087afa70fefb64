import { toneParts, toneRateHz } from '../media/tone.ts'

/** The formats of realtime audio: 16-bit samples at 24 kHz, or G.711 at 8 kHz, mono. */
export type Encoding = 'audio/pcm' | 'audio/pcmu' | 'audio/pcma'
export type Sound = { encoding: Encoding; bytes: Buffer }

const telephoneRateHz = 8_000
const rateFactor = toneRateHz / telephoneRateHz
export const bytesPerSecond: Readonly<Record<Encoding, number>> = {
  'audio/pcm': toneRateHz * 2,
  'audio/pcmu': telephoneRateHz,
  'audio/pcma': telephoneRateHz,
}

export function secondsOf({ encoding, bytes }: Sound): number {
  return bytes.length / bytesPerSecond[encoding]
}

/** The first seconds of a sound, in whole samples; the whole sound if it is shorter. */
export function firstSeconds(sound: Sound, seconds: number): Sound {
  const { encoding, bytes } = sound
  const end = Math.floor(seconds * bytesPerSecond[encoding])
  if (end >= bytes.length) return sound
  return { encoding, bytes: bytes.subarray(0, encoding === 'audio/pcm' ? end & ~1 : end) }
}

/** Converts a sound to a format; unchanged if it has that format. */
export function convertSound({ encoding, bytes }: Sound, targetEncoding: Encoding): Buffer {
  if (encoding === targetEncoding) return bytes
  const samples = samplesOf(encoding, bytes)
  if (encoding === 'audio/pcm') return encodeSamples(targetEncoding, downsample(samples))
  return encodeSamples(targetEncoding, targetEncoding === 'audio/pcm' ? upsample(samples) : samples)
}

/** A quiet tone of this duration. */
export function tone(encoding: Encoding, seconds: number): Sound {
  const bytes = Buffer.concat([...toneParts(seconds)])
  return { encoding, bytes: convertSound({ encoding: 'audio/pcm', bytes }, encoding) }
}

/** The root mean square of the samples; 1 = full scale. */
export function loudness(encoding: Encoding, bytes: Buffer): number {
  const samples = samplesOf(encoding, bytes)
  let sum = 0
  for (const sample of samples) sum += sample * sample
  return Math.sqrt(sum / Math.max(1, samples.length)) / 32_768
}

function samplesOf(encoding: Encoding, bytes: Buffer): Int16Array {
  if (encoding !== 'audio/pcm') {
    const table = encoding === 'audio/pcmu' ? fromMuLaw : fromALaw
    const samples = new Int16Array(bytes.length)
    for (let i = 0; i < samples.length; i++) samples[i] = table[bytes[i]!]!
    return samples
  }
  const samples = new Int16Array(bytes.length >> 1)
  for (let i = 0; i < samples.length; i++) samples[i] = bytes.readInt16LE(i * 2)
  return samples
}

function encodeSamples(encoding: Encoding, samples: Int16Array): Buffer {
  if (encoding !== 'audio/pcm') return Buffer.from(samples.map(encoding === 'audio/pcmu' ? muLaw : aLaw))
  const bytes = Buffer.alloc(samples.length * 2)
  for (let i = 0; i < samples.length; i++) bytes.writeInt16LE(samples[i]!, i * 2)
  return bytes
}

/** From 24 to 8 kHz: the mean of every three samples. */
function downsample(samples: Int16Array): Int16Array {
  const fewer = new Int16Array(Math.floor(samples.length / rateFactor))
  for (let i = 0; i < fewer.length; i++) {
    let sum = 0
    for (let j = 0; j < rateFactor; j++) sum += samples[i * rateFactor + j]!
    fewer[i] = Math.round(sum / rateFactor)
  }
  return fewer
}

/** From 8 to 24 kHz, by linear interpolation. */
function upsample(samples: Int16Array): Int16Array {
  const resampled = new Int16Array(samples.length * rateFactor)
  for (let i = 0; i < resampled.length; i++) {
    const at = Math.floor(i / rateFactor)
    const from = samples[at]!
    resampled[i] = from + (((samples[at + 1] ?? from) - from) * (i % rateFactor)) / rateFactor
  }
  return resampled
}

/** ITU-T G.711: a sign, a 3-bit exponent and a 4-bit mantissa, with all bits (µ) or every other one (A) inverted. */
const muBias = 0x84
const maxMu = 32_635
const aInversion = 0x55

const fromMuLaw = Int16Array.from({ length: 256 }, (_, byte) => {
  const bits = ~byte & 0xff
  const magnitude = ((((bits & 0x0f) << 3) + muBias) << ((bits & 0x70) >> 4)) - muBias
  return bits & 0x80 ? -magnitude : magnitude
})

const fromALaw = Int16Array.from({ length: 256 }, (_, byte) => {
  const bits = byte ^ aInversion
  const exponent = (bits & 0x70) >> 4
  const mantissa = (bits & 0x0f) << 4
  const magnitude = exponent === 0 ? mantissa + 8 : (mantissa + 0x108) << (exponent - 1)
  return bits & 0x80 ? magnitude : -magnitude
})

function muLaw(sample: number): number {
  const magnitude = Math.min(maxMu, Math.abs(sample)) + muBias
  const exponent = 24 - Math.clz32(magnitude)
  const mantissa = (magnitude >> (exponent + 3)) & 0x0f
  return ~((sample < 0 ? 0x80 : 0) | (exponent << 4) | mantissa) & 0xff
}

function aLaw(sample: number): number {
  const magnitude = sample < 0 ? -sample - 1 : sample
  const exponent = Math.max(0, 24 - Math.clz32(magnitude))
  const mantissa = (magnitude >> (Math.max(1, exponent) + 3)) & 0x0f
  return ((sample < 0 ? 0 : 0x80) | (exponent << 4) | mantissa) ^ aInversion
}
