import type { Readable } from 'node:stream'
import type { Usage } from '../../base/usage.ts'
import type { InstantAdapter, InstantCall } from '../contract.ts'
import { invalid } from '../fields.ts'
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
    const { stream } = await answered(fields, line.stream(request))
    if (!asEvents) return { sound: { stream }, usage: () => null }
    let usage: Usage | null = null
    const decoded = soundIn(stream, counted => {
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
    if (json.type === 'speech.audio.delta') yield decoded(textOf(json, 'audio'))
    else if (json.type === last) counted(usageOf(json.usage))
  }
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/

function decoded(audio: string): Buffer {
  if (!base64.test(audio)) throw invalid('its `audio` is no base64')
  return Buffer.from(audio, 'base64')
}

/** All that is given is sound. */
function usageOf(json: unknown): Usage | null {
  const tokens = tokensOf(json)
  return tokens && { ...tokens, completion_tokens_details: { audio_tokens: tokens.completion_tokens } }
}
