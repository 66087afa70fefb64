import { unsupported } from '../../kinds/media.ts'
import type { InstantAdapter, InstantCall } from '../contract.ts'
import { interactionsPath, interactionUsage, soundOfWhole } from './interactions.ts'

const firstByteMs = 180_000
const mostBytes = 64 * 1024 * 1024

/**
 * Lyria, by interactions. It is told everything in words and gives MP3 of 44.1 kHz, whatever is asked for: it refuses requests
 * that name a media type.
 */
export const music: InstantAdapter<'music'> = {
  async make(call, line) {
    const json = {
      model: call.target.deployment.upstream_model,
      input: promptOf(call),
      response_format: { type: 'audio' },
      store: false,
    }
    const { signal } = call
    const answer = await line.send({ method: 'POST', path: interactionsPath, json, signal, firstByteMs, mostBytes })
    const bytes = Buffer.concat(soundOfWhole(answer.json).map(piece => piece.bytes))
    return { sound: { bytes }, usage: () => interactionUsage(answer.json) }
  },
}

function promptOf({ input, target: { model } }: InstantCall<'music'>): string {
  const { prompt, lyrics, durationS, instrumental, format } = input
  if (lyrics !== null) throw unsupported(model, 'lyrics', 'takes no `lyrics` at this provider')
  const { min_duration_s: least, max_duration_s: most } = model.kind ?? {}
  // A model of one length gives just that.
  if (durationS !== null && (durationS !== least || durationS !== most))
    throw unsupported(model, 'duration_s', 'takes no `duration_s` at this provider')
  if (format !== 'mp3') throw unsupported(model, 'output_format', 'gives mp3 only at this provider')
  return instrumental ? `${prompt}\n\nInstrumental only, no vocals.` : prompt
}
