import type { Bytes } from '../../../io/bytes.ts'
import { waveHeader } from '../../../io/media/wave.ts'
import { unsupported } from '../../../kinds/media.ts'
import type { SyncCall } from '../../contract.ts'
import { invalidResponse } from '../../toolkit/json-fields.ts'

/** A chunk of Gemini's audio; properties that it does not state are null. */
export type SoundPiece = { bytes: Buffer; mimeType: string; rateHz: number | null; channels: number | null }
type SampleFormat = 'wav' | 'pcm'

/** The sample rate of Gemini's voices, and of our `pcm`. */
export const usualRateHz = 24_000
/** Google uses the name of RFC 2586 for its samples, but they are little-endian. */
const sampleTypes = /^audio\/(?:l16|pcm)$/i

/** Gemini's speech is raw samples, with or without a header (ai.google.dev/gemini-api/docs/speech-generation). */
export function sampleFormat({ input: { format }, target: { model } }: SyncCall<'speech'>): SampleFormat {
  if (format === 'wav' || format === 'pcm') return format
  throw unsupported(model, 'response_format', 'speaks wav and pcm only at this provider')
}

/**
 * Converts Gemini's samples to the requested format. Throws a ProviderError `invalid_response` for audio other than
 * mono 16-bit samples, or for `pcm` of another rate, which its bytes do not indicate.
 */
export async function* encodeSamples(pieces: AsyncIterable<SoundPiece>, format: SampleFormat): Bytes {
  let isBegun = false
  for await (const piece of pieces) {
    if (!isBegun) {
      const rateHz = rateOf(piece)
      if (format === 'wav') yield waveHeader(rateHz, null)
      else if (rateHz !== usualRateHz) throw invalidResponse(`its samples have ${rateHz} Hz`)
    }
    isBegun = true
    yield piece.bytes
  }
}

/** Rate and channels may be separate fields, or parameters of the media type: `audio/L16;codec=pcm;rate=24000`. */
function rateOf({ mimeType, rateHz, channels }: SoundPiece): number {
  const [type = '', ...parameters] = mimeType.split(';').map(part => part.trim())
  const parameterOf = (name: string) => parameters.find(part => part.startsWith(`${name}=`))?.slice(name.length + 1)
  const rate = rateHz ?? Number(parameterOf('rate') ?? usualRateHz)
  const isMono = (channels ?? Number(parameterOf('channels') ?? 1)) === 1
  if (!sampleTypes.test(type) || !isMono) throw invalidResponse('its sound is no mono samples of 16 bits')
  if (!Number.isInteger(rate) || rate < 1 || rate > 384_000) throw invalidResponse('the rate of its samples is unknown')
  return rate
}
