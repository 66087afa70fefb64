import { toneParts, toneRateHz } from './tone.ts'

/** The formats of realtime sound: 16-bit samples at 24 kHz, or G.711 at 8 kHz, one channel. */
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

/** The first seconds of a sound, in whole samples; all of it where it is no longer. */
export function firstSeconds(sound: Sound, seconds: number): Sound {
  const { encoding, bytes } = sound
  const end = Math.floor(seconds * bytesPerSecond[encoding])
  if (end >= bytes.length) return sound
  return { encoding, bytes: bytes.subarray(0, encoding === 'audio/pcm' ? end & ~1 : end) }
}

/** The same sound in a format, byte for byte where it has that format. */
export function recoded({ encoding, bytes }: Sound, wanted: Encoding): Buffer {
  if (encoding === wanted) return bytes
  const samples = samplesOf(encoding, bytes)
  if (encoding === 'audio/pcm') return encoded(wanted, slower(samples))
  return encoded(wanted, wanted === 'audio/pcm' ? faster(samples) : samples)
}

/** A quiet tone of so many seconds. */
export function tone(encoding: Encoding, seconds: number): Sound {
  const bytes = Buffer.concat([...toneParts(seconds)])
  return { encoding, bytes: recoded({ encoding: 'audio/pcm', bytes }, encoding) }
}

/** The root mean square of the samples, where 1 is the loudest there can be. */
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

function encoded(encoding: Encoding, samples: Int16Array): Buffer {
  if (encoding !== 'audio/pcm') return Buffer.from(samples.map(encoding === 'audio/pcmu' ? muLaw : aLaw))
  const bytes = Buffer.alloc(samples.length * 2)
  for (let i = 0; i < samples.length; i++) bytes.writeInt16LE(samples[i]!, i * 2)
  return bytes
}

/** From 24 to 8 kHz: the mean of each three samples. */
function slower(samples: Int16Array): Int16Array {
  const fewer = new Int16Array(Math.floor(samples.length / rateFactor))
  for (let i = 0; i < fewer.length; i++) {
    let sum = 0
    for (let j = 0; j < rateFactor; j++) sum += samples[i * rateFactor + j]!
    fewer[i] = Math.round(sum / rateFactor)
  }
  return fewer
}

/** From 8 to 24 kHz, along straight lines. */
function faster(samples: Int16Array): Int16Array {
  const more = new Int16Array(samples.length * rateFactor)
  for (let i = 0; i < more.length; i++) {
    const at = Math.floor(i / rateFactor)
    const from = samples[at]!
    more[i] = from + (((samples[at + 1] ?? from) - from) * (i % rateFactor)) / rateFactor
  }
  return more
}

/** ITU-T G.711: a sign, an exponent of three bits and a mantissa of four, with all bits (µ) or every other one (A) inverted. */
const muBias = 0x84
const largestMu = 32_635
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
  const magnitude = Math.min(largestMu, Math.abs(sample)) + muBias
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
