import type { Protocol } from '../../contract.ts'
import { failure } from './failure.ts'
import { realtime } from './realtime.ts'
import { music, sfx, speech } from './sounds.ts'
import { transcription } from './transcription.ts'

/** ElevenLabs' API: speech, transcriptions, music, sound effects, and conversations with agents. */
export const elevenlabs: Protocol = {
  direct: {},
  synchronous: { speech, transcription, music, sfx },
  realtime: ({ traits }) => (traits?.dialect === 'elevenlabs' ? realtime : null),
  credentialCheck: () => ({ path: '/v1/models' }),
  failure,
}
