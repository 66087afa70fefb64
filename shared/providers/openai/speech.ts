import type { Readable } from 'node:stream'
import type { Usage } from '../../base/usage.ts'
import type { InstantAdapter, InstantCall } from '../contract.ts'
import { bytesIn, soundOf } from '../sounds.ts'
import { answered, eventsUntil, needsAudio, textOf, tokensOf } from './audio.ts'

/** Their fields and ours have the same names. */
const fields = {
  input: 'input',
  voice: 'voice',
  instructions: 'instructions',
  response_format: 'response_format',
  speed: 'speed',
}

/**
 * `POST /audio/speech`. Only its events tell how many tokens were used, so they are what is asked for where the model is
 * priced by them; their sound is decoded as it comes.
 */
export const speech: InstantAdapter<'speech'> = {
  async make(call, line) {
    needsAudio(line)
    const asEvents = call.target.deployment.price.unit === 'token'
    const headers = { accept: asEvents ? 'text/event-stream' : '*/*' }
    const json = { ...bodyOf(call), ...(asEvents && { stream_format: 'sse' }) }
    const request = { method: 'POST', path: '/audio/speech', headers, json, signal: call.signal } as const
    const answer = await answered(fields, line.stream(request))
    if (!asEvents) return { sound: { stream: soundOf(answer) }, usage: () => null }
    let usage: Usage | null = null
    const decoded = soundIn(answer.stream, counted => {
      usage = counted
    })
    return { sound: { stream: decoded }, usage: () => usage }
  },
}

function bodyOf({ input, target }: InstantCall<'speech'>) {
  return {
    model: target.deployment.upstream_model,
    input: input.text,
    voice: input.voice,
    response_format: input.format,
    ...(input.speed !== 1 && { speed: input.speed }),
    ...(input.instructions !== null && { instructions: input.instructions }),
  }
}

async function* soundIn(answer: Readable, counted: (usage: Usage | null) => void): AsyncGenerator<Uint8Array> {
  const last = 'speech.audio.done'
  for await (const json of eventsUntil(last, answer)) {
    if (json.type === 'speech.audio.delta') yield bytesIn(textOf(json, 'audio'))
    else if (json.type === last) counted(usageOf(json.usage))
  }
}

/** All that is given is sound. */
function usageOf(json: unknown): Usage | null {
  const tokens = tokensOf(json)
  return tokens && { ...tokens, completion_tokens_details: { audio_tokens: tokens.completion_tokens } }
}
