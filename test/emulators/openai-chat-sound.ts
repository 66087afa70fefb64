import { soundFile } from '../../shared/providers/sandbox/media/sounds.ts'
import { json, type Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape, as they came over the wire
type Body = any

/** Seconds that the emulator speaks, whatever it says. */
export const spokenSeconds = 0.5

/** Tokens that an answer is worth when it is spoken, beside those of its text. */
export function audioTokensIn(text: string): number {
  return Math.ceil(text.length / 2)
}

export function speaks({ modalities }: Body): boolean {
  return modalities?.includes('audio') === true
}

/** The `audio` of a message. */
export function spoken({ audio: { format } }: Body, transcript: string): Body {
  const data = soundFile(format === 'pcm16' ? 'pcm' : format, spokenSeconds).toString('base64')
  return { id: 'audio_1', data, expires_at: 1_900_000_000, transcript }
}

/** What OpenAI says of sound that it cannot give; null where there is nothing to say. */
export function refusalOfSound(body: Body): Reply | null {
  if (!speaks(body)) return null
  const { audio, stream } = body
  if (!audio) return refused('audio', 'missing_required_parameter', "Missing required parameter: 'audio'.")
  if (!stream || audio.format === 'pcm16') return null
  const problem = `audio.format does not support '${audio.format}' when stream=true. Supported values are: 'pcm16'.`
  return refused('audio.format', 'unsupported_value', problem)
}

function refused(param: string, code: string, message: string): Reply {
  return json(400, { error: { message, type: 'invalid_request_error', param, code } })
}
