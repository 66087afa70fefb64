import type { Protocol } from '../contract.ts'
import { failure } from './failure.ts'
import { music, sfx, speech } from './sounds.ts'
import { transcription } from './transcription.ts'

/** ElevenLabs' API: speech, transcriptions, music and sound effects. */
export const elevenlabs: Protocol = { direct: {}, instant: { speech, transcription, music, sfx }, failure }
