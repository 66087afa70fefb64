import { waveHeader } from '../../../io/media/wave.ts'
import type { SoundFormat } from '../../../kinds/sound.ts'
import { flacHead, flacParts } from './flac.ts'
import { opusPages } from './opus.ts'
import { toneParts, toneRateHz, toneSamples } from './tone.ts'

/** Upper bound of every audio duration. */
const maxSeconds = 3_600
const minSeconds = 0.001

/**
 * A quiet tone, in Opus silence, in any format and part by part. Its duration is exact to the sample or to the frame;
 * at most an hour.
 */
export function soundParts(format: SoundFormat, seconds: number): Iterable<Buffer> {
  return partsIn[format](Math.min(maxSeconds, Math.max(minSeconds, seconds)))
}

/** The same as one file. */
export function soundFile(format: SoundFormat, seconds: number): Buffer {
  return Buffer.concat([...soundParts(format, seconds)])
}

const partsIn: Record<SoundFormat, (seconds: number) => Iterable<Buffer>> = {
  pcm: toneParts,
  *wav(seconds) {
    yield waveHeader(toneRateHz, toneSamples(seconds) * 2)
    yield* toneParts(seconds)
  },
  *flac(seconds) {
    yield flacHead(toneSamples(seconds))
    yield* flacParts(seconds)
  },
  mp3: seconds => repeatFrames(mp3, seconds),
  aac: seconds => repeatFrames(aac, seconds),
  opus: opusPages,
}

/**
 * Encoded frames of a tone, which form a file when they alternate. In each frame one spectral line is ±1 and all others
 * are 0; the phase of the tone advances by an odd number of half turns per frame, so only the line's sign changes.
 */
type Recording = { frames: readonly [Buffer, Buffer]; frameSamples: number }

const framesPerPart = 40

/** MPEG-2 layer III (ISO/IEC 13818-3), mono at 32 kbit/s, 437.5 Hz. */
const mp3: Recording = {
  frames: [mp3Frame('fff344c00000702f2000084200ffc8'), mp3Frame('fff344c00000702f2000084200ffcc')],
  frameSamples: 576,
}

/** AAC-LC (ISO/IEC 14496-3) in ADTS frames, mono, 433.6 Hz. */
const aac: Recording = {
  frames: [Buffer.from('fff1584001dffc017c050122109f', 'hex'), Buffer.from('fff1584001dffc017c05012210bf', 'hex')],
  frameSamples: 1_024,
}

/** Header, side information and samples; the rest of a frame of 32 kbit/s is zeros. */
function mp3Frame(hex: string): Buffer {
  return Buffer.concat([Buffer.from(hex, 'hex')], 96)
}

function* repeatFrames({ frames, frameSamples }: Recording, seconds: number): Generator<Buffer> {
  const count = Math.ceil((seconds * toneRateHz) / frameSamples)
  for (let at = 0; at < count; at += framesPerPart) {
    const length = Math.min(framesPerPart, count - at)
    yield Buffer.concat(Array.from({ length }, (_, i) => frames[(at + i) % 2]!))
  }
}
