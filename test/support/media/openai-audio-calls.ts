import type { SpeechInput } from '../../../shared/kinds/speech.ts'
import type { TranscriptionInput } from '../../../shared/kinds/transcription.ts'
import type { Source, SyncCall } from '../../../shared/providers/contract.ts'
import { sourceOf } from '../jobs/sources.ts'
import { syncCallOf } from './adapter.ts'
import { sound } from './sounds.ts'

export const text = 'Good morning. How are you today?'

/** A call for speech at OpenAI. */
export function spoken(model: string, more: Partial<SpeechInput> = {}): SyncCall<'speech'> {
  const input = { text, voice: 'alloy', format: 'mp3', speed: 1, instructions: null, ...more } as const
  return syncCallOf<'speech'>('openai', model, input)
}

/** A transcription that asks for nothing in particular. */
export const plainTranscription: Omit<TranscriptionInput, 'seconds'> = {
  language: null,
  languages: [],
  prompt: null,
  keywords: [],
  temperature: null,
  format: 'json',
  segments: false,
  words: false,
  speakers: false,
  knownSpeakers: [],
  chunking: null,
  logprobs: false,
  translate: false,
  stream: false,
}

export const wave = Buffer.from(await sound('wav', 3))
export const waveSource = sourceOf('https://files.example/hello.wav', 'audio/wav', 3, wave)

/** A call for the transcript of three seconds of sound. */
export function transcribed(
  model: string,
  more: Partial<TranscriptionInput> = {},
  source: Source = waveSource,
  provider = 'openai',
): SyncCall<'transcription'> {
  const input = { ...plainTranscription, seconds: 3, ...more }
  return syncCallOf<'transcription'>(provider, model, input, { audio_url: source })
}
