import { waveHeader } from '../../../io/media/wave.ts'
import type { SoundFormat } from '../../../kinds/sound.ts'
import { flacHead, flacParts } from './flac.ts'
import { aacParts, mp3Parts } from './frames.ts'
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
  mp3: mp3Parts,
  aac: aacParts,
  opus: opusPages,
}
