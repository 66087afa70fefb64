import type { Bytes } from '../../io/bytes.ts'
import { waveHeader } from '../../io/wave.ts'
import { unsupported } from '../../kinds/media.ts'
import type { InstantCall } from '../contract.ts'
import { invalid } from '../fields.ts'

/** A piece of sound as Gemini sends it; what it does not state is null. */
export type SoundPiece = { bytes: Buffer; mimeType: string; rateHz: number | null; channels: number | null }
export type SampleFormat = 'wav' | 'pcm'

/** The rate of Gemini's voices, and of our `pcm`. */
export const usualRateHz = 24_000
/** Google calls its samples by the name of RFC 2586, but the lower byte is first. */
const sampleTypes = /^audio\/(?:l16|pcm)$/i

/** Gemini speaks in samples, with a header or without one (ai.google.dev/gemini-api/docs/speech-generation). */
export function sampleFormat({ input: { format }, target: { model } }: InstantCall<'speech'>): SampleFormat {
  if (format === 'wav' || format === 'pcm') return format
  throw unsupported(model, 'response_format', 'speaks wav and pcm only at this provider')
}

/**
 * Gemini's samples in the format that was asked for. Throws a ProviderError `invalid_response` for sound that is no mono
 * samples of 16 bits, or for `pcm` of another rate, which nobody could tell from its bytes.
 */
export async function* framed(pieces: AsyncIterable<SoundPiece>, format: SampleFormat): Bytes {
  let isBegun = false
  for await (const piece of pieces) {
    if (!isBegun) {
      const rateHz = rateOf(piece)
      if (format === 'wav') yield waveHeader(rateHz, null)
      else if (rateHz !== usualRateHz) throw invalid(`its samples have ${rateHz} Hz`)
    }
    isBegun = true
    yield piece.bytes
  }
}

/** Rate and channels may be fields of their own, or parameters of the media type: `audio/L16;codec=pcm;rate=24000`. */
function rateOf({ mimeType, rateHz, channels }: SoundPiece): number {
  const [type = '', ...parameters] = mimeType.split(';').map(part => part.trim())
  const stated = (name: string) => parameters.find(part => part.startsWith(`${name}=`))?.slice(name.length + 1)
  const rate = rateHz ?? Number(stated('rate') ?? usualRateHz)
  const isMono = (channels ?? Number(stated('channels') ?? 1)) === 1
  if (!sampleTypes.test(type) || !isMono) throw invalid('its sound is no mono samples of 16 bits')
  if (!Number.isInteger(rate) || rate < 1 || rate > 384_000) throw invalid('the rate of its samples is unknown')
  return rate
}
