import { unsupported } from '../../../kinds/media.ts'
import type { SyncAdapter, SyncCall } from '../../contract.ts'
import { interactionsPath, interactionUsage, soundOfWhole } from './interactions.ts'

const firstByteMs = 180_000
const maxBytes = 64 * 1024 * 1024

/**
 * Lyria, by interactions. It takes text only and always returns MP3 of 44.1 kHz: it rejects requests that name a media
 * type.
 */
export const music: SyncAdapter<'music'> = {
  async make(call, connection) {
    const json = {
      model: call.target.deployment.upstream_model,
      input: promptOf(call),
      response_format: { type: 'audio' },
      store: false,
    }
    const { signal } = call
    const answer = await connection.send({
      method: 'POST',
      path: interactionsPath,
      json,
      signal,
      firstByteMs,
      maxBytes,
    })
    const bytes = Buffer.concat(soundOfWhole(answer.json).map(piece => piece.bytes))
    return { sound: { bytes }, usage: () => interactionUsage(answer.json) }
  },
}

function promptOf({ input, target: { model } }: SyncCall<'music'>): string {
  const { prompt, lyrics, durationS, instrumental, format } = input
  if (lyrics !== null) throw unsupported(model, 'lyrics', 'takes no `lyrics` at this provider')
  const { min_duration_s: min, max_duration_s: max } = model.kind ?? {}
  // A fixed-duration model accepts only that duration.
  if (durationS !== null && (durationS !== min || durationS !== max))
    throw unsupported(model, 'duration_s', 'takes no `duration_s` at this provider')
  if (format !== 'mp3') throw unsupported(model, 'output_format', 'gives mp3 only at this provider')
  return instrumental ? `${prompt}\n\nInstrumental only, no vocals.` : prompt
}
