import type { Readable } from 'node:stream'
import type { Usage } from '../../../base/usage.ts'
import type { SyncAdapter, SyncCall } from '../../contract.ts'
import { audioOf, decodeAudio } from '../../toolkit/audio-bytes.ts'
import { assertAudioSupport, eventsUntil, textOf, tokensOf, withErrorParam } from './audio.ts'

/** Their field names equal ours. */
const fields = {
  input: 'input',
  voice: 'voice',
  instructions: 'instructions',
  response_format: 'response_format',
  speed: 'speed',
}

/**
 * `POST /audio/speech`. Only its event stream reports tokens, so it is requested where the model is priced by them; the
 * audio is decoded on arrival.
 */
export const speech: SyncAdapter<'speech'> = {
  async make(call, connection) {
    assertAudioSupport(connection)
    const asEvents = call.target.deployment.price.unit === 'token'
    const headers = { accept: asEvents ? 'text/event-stream' : '*/*' }
    const json = { ...bodyOf(call), ...(asEvents && { stream_format: 'sse' }) }
    const request = { method: 'POST', path: '/audio/speech', headers, json, signal: call.signal } as const
    const answer = await withErrorParam(fields, connection.stream(request))
    if (!asEvents) return { sound: { stream: audioOf(answer) }, usage: () => null }
    let usage: Usage | null = null
    const decodedAudio = decodeEvents(answer.stream, reported => {
      usage = reported
    })
    return { sound: { stream: decodedAudio }, usage: () => usage }
  },
}

function bodyOf({ input, target }: SyncCall<'speech'>) {
  return {
    model: target.deployment.upstream_model,
    input: input.text,
    voice: input.voice,
    response_format: input.format,
    ...(input.speed !== 1 && { speed: input.speed }),
    ...(input.instructions !== null && { instructions: input.instructions }),
  }
}

async function* decodeEvents(answer: Readable, onUsage: (usage: Usage | null) => void): AsyncGenerator<Uint8Array> {
  const last = 'speech.audio.done'
  for await (const json of eventsUntil(last, answer)) {
    if (json.type === 'speech.audio.delta') yield decodeAudio(textOf(json, 'audio'))
    else if (json.type === last) onUsage(usageOf(json.usage))
  }
}

/** All output is audio. */
function usageOf(json: unknown): Usage | null {
  const tokens = tokensOf(json)
  return tokens && { ...tokens, completion_tokens_details: { audio_tokens: tokens.completion_tokens } }
}
