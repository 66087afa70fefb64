import { waveHeader } from '../../io/wave.ts'
import type { SoundFormat } from '../../kinds/sound.ts'
import { flacHead, flacParts } from './flac.ts'
import { opusPages } from './opus.ts'
import { toneParts, toneRateHz, toneSamples } from './tone.ts'
import { aacParts, mp3Parts } from './tone-frames.ts'

/** Nothing that the sandbox is asked for is longer. */
const longestSeconds = 3_600
const shortestSeconds = 0.001

/**
 * A quiet tone, in Opus silence, in any format and part by part. It has the length that was asked for, to the sample or to
 * the frame; an hour at most.
 */
export function soundParts(format: SoundFormat, seconds: number): Iterable<Buffer> {
  return partsIn[format](Math.min(longestSeconds, Math.max(shortestSeconds, seconds)))
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
